"""This module turns the conditions of a scan on partitions into what is needed of manifests: which of them,
and which of their entries. In doubt a manifest or an entry is kept. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.errors import LakeError
from lakecore.metadata.manifest.entry_request import EntryRequest, PartitionMask
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.predicate.evaluate import mask
from lakecore.predicate.stats import ColumnStats, may_match
from lakecore.predicate.tree import Compare, Comparison, In, Predicate, conjuncts, restricted
from lakecore.row.binary_layout import FIXED_FORMATS
from lakecore.row.binary_row import decode_row
from lakecore.row.values import rows_batch
from lakecore.scan.filters import ScanFilter, filter_partitions
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot

__all__ = ["entry_request", "keeps_manifests", "matching_partitions"]

Mask: TypeAlias = npt.NDArray[np.bool_]

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_NUMBERS = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE)
_SHORTEST_PIECE = 4
_MAX_PIECES = 16


def matching_partitions(partitions: Sequence[bytes], condition: Predicate, partition_type: RowType) -> Mask:
    """Return for which of the serialised partitions a condition on partition columns is true."""
    rows = [decode_row(partition, partition_type) for partition in partitions]
    batch = rows_batch(rows, partition_type, arrow_schema(partition_type))
    matches: Mask = mask(condition, batch).fill_null(False).to_numpy(zero_copy_only=False)
    return matches


def keeps_manifests(
    files: Sequence[ManifestFile], predicate: Predicate | None, partition_type: RowType
) -> Mask:
    """Return which manifests can have an entry of a partition for which the predicate can be true.

    Rule of the format: the bounds of a manifest are of all its entries, ADD and DELETE, column by column, and
    nulls are counted. Bounds that cannot be read, or were not recorded, decide nothing.
    """
    condition = restricted(predicate, partition_type.names)
    keep = np.ones(len(files), np.bool_)
    if condition is None:
        return keep
    with_bounds = [number for number, file in enumerate(files) if _has_bounds(file, partition_type)]
    try:
        stats = _partition_stats([files[number] for number in with_bounds], partition_type)
    except (LakeError, ValueError, OverflowError):
        return keep
    counts = np.array([files[number].entry_count for number in with_bounds], np.int64)
    keep[with_bounds] = may_match(condition, stats, counts)
    return keep


def _has_bounds(file: ManifestFile, partition_type: RowType) -> bool:
    """Return whether the rows of bounds are of the partition columns."""
    stats, arity = file.partition_stats, len(partition_type.fields)
    head = struct.pack(">i", arity)
    return stats.min_values.startswith(head) and stats.max_values.startswith(head)


def _partition_stats(files: Sequence[ManifestFile], partition_type: RowType) -> dict[str, ColumnStats]:
    schema = arrow_schema(partition_type)
    lows, highs = (
        rows_batch([decode_row(row, partition_type) for row in rows], partition_type, schema)
        for rows in (
            [file.partition_stats.min_values for file in files],
            [file.partition_stats.max_values for file in files],
        )
    )
    return {
        name: ColumnStats(lows.column(index), highs.column(index), _nulls(files, index))
        for index, name in enumerate(partition_type.names)
    }


def _nulls(files: Sequence[ManifestFile], index: int) -> npt.NDArray[np.int64]:
    """Return how many entries have no value in a partition column; -1 where it was not recorded."""
    listed = (file.partition_stats.null_counts for file in files)
    counts = [counts[index] if index < len(counts) else None for counts in listed]
    return np.array([-1 if count is None else count for count in counts], np.int64)


def entry_request(
    where: ScanFilter, predicate: Predicate | None, partition_type: RowType, *, keys: bool
) -> EntryRequest:
    """Return what a scan needs of manifests. `keys`: the keys of files are needed."""
    condition = restricted(predicate, partition_type.names)
    filtered = where.partitions is not None or where.serialized is not None
    if not partition_type.fields or (condition is None and not filtered):
        return EntryRequest(keys=keys, blocks=where.blocks)
    groups = [*_filter_pieces(where, partition_type), *_condition_pieces(condition, partition_type)]
    useful = [tuple(piece for piece in group if piece) for group in groups if _is_useful(group)]
    mask = _mask_of(where, condition, partition_type)
    return EntryRequest(keys=keys, partitions=mask, pieces=tuple(useful), blocks=where.blocks)


def _mask_of(where: ScanFilter, condition: Predicate | None, partition_type: RowType) -> PartitionMask:
    def select(partitions: Sequence[bytes]) -> Mask:
        matches = filter_partitions(partitions, where, partition_type)
        if condition is not None:
            matches &= matching_partitions(partitions, condition, partition_type)
        return matches

    return select


def _is_useful(pieces: Sequence[bytes | None]) -> bool:
    """Return whether the pieces are few, all known, and long enough to be rare."""
    return len(pieces) <= _MAX_PIECES and all(
        piece is not None and len(piece) >= _SHORTEST_PIECE for piece in pieces
    )


def _filter_pieces(where: ScanFilter, partition_type: RowType) -> list[list[bytes | None]]:
    groups: list[list[bytes | None]] = []
    if where.serialized is not None:
        groups.append(list(where.serialized))
    types = {field.name: field.type for field in partition_type.fields}
    if where.partitions is not None:
        specs = [[_piece(value, types[name]) for name, value in spec.items()] for spec in where.partitions]
        groups.append([max(spec, key=lambda piece: len(piece or b""), default=None) for spec in specs])
    return groups


def _condition_pieces(condition: Predicate | None, partition_type: RowType) -> list[list[bytes | None]]:
    types = {field.name: field.type for field in partition_type.fields}
    groups = []
    for part in conjuncts(condition):
        match part:
            case Compare(column=column, op=Comparison.EQ, value=value):
                groups.append([_piece(value, types[column])])
            case In(column=column, values=values):
                groups.append([_piece(value, types[column]) for value in values])
    return groups


def _piece(value: Any, data_type: DataType) -> bytes | None:
    """Return bytes that every serialised row has that holds the value; None where they are not known.

    Rule of the format: texts are stored as they are, in the slot or behind the slots; numbers in the slot.
    """
    if not isinstance(data_type, AtomicType):
        return None
    if data_type.root in _TEXTS and isinstance(value, str):
        return value.encode()
    if data_type.root in _NUMBERS and type(value) is int:
        try:
            return struct.pack("<" + FIXED_FORMATS[data_type.root], value)
        except struct.error:
            return None
    return None
