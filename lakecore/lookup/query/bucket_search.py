"""This module searches the runs of one bucket for many keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.lookup.query.block import FILTERED_KIND, Block
from lakecore.lookup.query.bucket_view import BucketView
from lakecore.lookup.query.lookup_file import Hits, LookupFile
from lakecore.lookup.query.packed_keys import KeyColumns, OneKey
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.row_kind import is_retract

__all__ = ["BucketSource", "search_bucket", "search_one"]

Ints = np.ndarray[Any, Any]


class _Winners:
    """These are the rows that won so far: their file, position, kind and sequence number, for each key."""

    def __init__(self, count: int) -> None:
        self.files: list[LookupFile] = []
        self.file = np.full(count, -1, np.int64)
        self.position = np.zeros(count, np.int64)
        self.kind = np.zeros(count, np.int8)
        self.sequence = np.full(count, np.iinfo(np.int64).min, np.int64)

    def put(self, file: LookupFile, keys: Ints, hits: Hits, winners: Ints) -> None:
        """Store the rows of the keys that `winners` marks."""
        self.files.append(file)
        rows = keys[winners]
        self.file[rows] = len(self.files) - 1
        self.position[rows] = hits.positions[winners]
        self.kind[rows] = hits.kinds[winners]
        self.sequence[rows] = hits.sequences[winners]


@dataclass(frozen=True, slots=True)
class BucketSource:
    """It supplies the contents of one bucket."""

    file: Callable[[DataFile], LookupFile]
    deleted: Callable[[DeletionFile], BitMap]
    columns: tuple[str, ...]
    ignores_retracts: bool
    """It tells whether a row that retracts hides no older row (option `ignore-delete`)."""
    in_memory: bool = False
    """It tells whether `search_one` raises NotInMemoryError rather than read a block."""


def search_bucket(
    view: BucketView, keys: KeyColumns, places: Ints, source: BucketSource
) -> list[tuple[Ints, pa.RecordBatch]]:
    """Return the rows that keys have, with the places of these keys. `places` has the place of each key."""
    winners = _Winners(len(keys))
    for run in view.runs:
        is_open = winners.file < 0 if view.nearest_is_current else winners.sequence < run.max_sequence
        open_keys = np.flatnonzero(is_open)
        numbers = run.files_of(keys.packed(run.widths)[open_keys])
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows, file = open_keys[numbers == number], run.files[number]
            source_file = source.file(file)
            hits = source_file.find(keys.take(rows))
            hit = hits.positions >= 0
            if (deletion := view.deletions.get(file.file_name)) is not None:
                hit &= ~_among(hits.positions, source.deleted(deletion))
            if source.ignores_retracts:
                hit &= ~_retracts(hits.kinds)
            if not view.nearest_is_current:
                hit &= hits.sequences > winners.sequence[rows]
            winners.put(source_file, rows, hits, hit)
    return _rows(winners, places, source.columns)


def search_one(view: BucketView, key: OneKey, source: BucketSource) -> tuple[Block, int] | None:
    """Return the block and the row in it that one key has; None where there is none, or it retracts.

    The nearest file that has the key must have its current row.
    """
    for run in view.runs:
        number = run.file_of(key)
        if number < 0:
            continue
        file = run.files[number]
        hit = source.file(file).find_one(key, in_memory=source.in_memory)
        if hit is None:
            continue
        block, row, position = hit
        deletion = view.deletions.get(file.file_name)
        if deletion is not None and position in source.deleted(deletion):
            continue
        kind = 0 if block.kinds is None else int(block.kinds[row])
        if source.ignores_retracts and kind & 1 and kind != FILTERED_KIND:
            continue
        return None if kind & 1 else (block, row)
    return None


def _among(positions: Ints, deleted: BitMap) -> Ints:
    sorted_ones = np.array(deleted, np.int64)
    if not len(sorted_ones):
        return np.zeros(len(positions), bool)
    places = np.minimum(np.searchsorted(sorted_ones, positions), len(sorted_ones) - 1)
    return np.asarray(sorted_ones[places] == positions)


def _retracts(kinds: Ints) -> Ints:
    """Return which rows were written as retractions; rows that are filtered out are none."""
    return np.asarray(is_retract(kinds) & (kinds != FILTERED_KIND))


def _rows(winners: _Winners, places: Ints, columns: tuple[str, ...]) -> list[tuple[Ints, pa.RecordBatch]]:
    live = ~is_retract(winners.kind)
    out: list[tuple[Ints, pa.RecordBatch]] = []
    for number, file in enumerate(winners.files):
        keys = np.flatnonzero((winners.file == number) & live)
        if len(keys):
            out += [(places[keys[at]], batch) for at, batch in file.rows(winners.position[keys], columns)]
    return out
