"""This module has one data file as lookups search it: its keys packed and in order, its rows beside them.

Rows are found by their position in the data file, which is what deletion vectors name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.lookup.query.packed_keys import KeyColumns
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file

__all__ = ["Hits", "LookupFile", "read_lookup_file"]

Positions = np.ndarray[Any, Any]

_WIDEST_KEY = 256


@dataclass(frozen=True, slots=True)
class Hits:
    """These are the rows of some keys in one file."""

    positions: Positions
    """This is the position of the row of each key; -1 where the file has none."""
    kinds: Positions
    sequences: Positions


class LookupFile:
    """It is a data file in memory, searched by binary search."""

    def __init__(self, keys: KeyColumns, rows: pa.Table, kinds: Positions, sequences: Positions) -> None:
        self._keys = keys
        self._rows = rows
        self._kinds = kinds
        self._sequences = sequences
        self._packed = keys.packed(keys.widths) if self._is_packed else None

    @property
    def _is_packed(self) -> bool:
        return sum(self._keys.widths) <= _WIDEST_KEY

    @cached_property
    def _tuples(self) -> list[tuple[Any, ...]]:
        return self._keys.values()

    def find(self, keys: KeyColumns) -> Hits:
        """Return the rows of `keys`."""
        positions = self._positions(keys)
        inside = np.maximum(positions, 0)
        return Hits(positions, self._kinds[inside], self._sequences[inside])

    def rows(self, positions: Positions) -> pa.Table:
        """Return the rows at these positions."""
        return self._rows.take(pa.array(positions))

    def _positions(self, keys: KeyColumns) -> Positions:
        if self._packed is None:
            return np.array([self._position(key) for key in keys.values()], np.int64)
        wanted, have = keys.packed(self._keys.widths), self._packed
        places = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
        hit = have[places] == wanted
        return np.where(hit, places, -1)

    def _position(self, key: tuple[Any, ...]) -> int:
        place = bisect_left(self._tuples, key)
        return place if place < len(self._tuples) and self._tuples[place] == key else -1


def read_lookup_file(ctx: ReadContext, bucket_dir: str, file: DataFile, columns: Sequence[str]) -> LookupFile:
    """Read a data file into memory. Raises NotFoundError when it does not exist, CorruptDataError."""
    keys = ctx.schema.trimmed_primary_keys
    wanted = tuple(dict.fromkeys((*columns, *keys, SEQUENCE_NAME, KIND_NAME)))
    table = pa.Table.from_batches(read_file(ctx, bucket_dir, file, wanted))
    return LookupFile(
        KeyColumns([table.column(name) for name in keys], ctx.schema.key_type),
        table.select(list(columns)),
        table.column(KIND_NAME).to_numpy(),
        table.column(SEQUENCE_NAME).to_numpy(),
    )
