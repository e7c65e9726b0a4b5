"""This module has the statistics that a manifest list records for a manifest: counts and bounds of its
entries. It is pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.metadata.manifest.data_file import EntryKind, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.types.datatypes import RowType

__all__ = ["describe_manifest", "partition_stats"]


def describe_manifest(
    entries: ManifestEntries, file_name: str, file_size: int, partition_type: RowType
) -> ManifestFile:
    """Return the line of a manifest list for a manifest of `entries` (at least one)."""
    deleted = int(np.count_nonzero(entries.kind == EntryKind.DELETE))
    row_ids = _row_ids(entries)
    return ManifestFile(
        file_name=file_name,
        file_size=file_size,
        num_added_files=len(entries) - deleted,
        num_deleted_files=deleted,
        partition_stats=partition_stats(entries, partition_type),
        schema_id=int(entries.schema_id.max()),
        min_bucket=int(entries.bucket.min()),
        max_bucket=int(entries.bucket.max()),
        min_level=int(entries.level.min()),
        max_level=int(entries.level.max()),
        min_row_id=row_ids[0] if row_ids else None,
        max_row_id=row_ids[1] if row_ids else None,
    )


def partition_stats(entries: ManifestEntries, partition_type: RowType) -> SimpleStats:
    """Return the bounds of each partition column over all entries, including DELETEs; null counts count
    entries.
    """
    weights = np.bincount(entries.partition, minlength=len(entries.partitions))
    used = np.flatnonzero(weights)
    rows = [decode_row(entries.partitions[code], partition_type, "partition") for code in used.tolist()]
    lows, highs, nulls = [], [], []
    for column in range(len(partition_type.fields)):
        low, high, count = _bounds([row[column] for row in rows], weights[used])
        lows.append(low)
        highs.append(high)
        nulls.append(count)
    return SimpleStats(encode_row(lows, partition_type), encode_row(highs, partition_type), tuple(nulls))


def _bounds(values: Sequence[Any], weights: npt.NDArray[Any]) -> tuple[Any, Any, int]:
    """Return the bounds of values. Binary values have no order in the format: their bounds are null. NaN is
    above every number.
    """
    nulls = sum(int(weight) for value, weight in zip(values, weights, strict=True) if value is None)
    bounds = [value for value in values if value is not None and not isinstance(value, bytes)]
    if not bounds:
        return None, None, nulls
    if isinstance(bounds[0], float):
        return min(bounds, key=_float_order), max(bounds, key=_float_order), nulls
    return min(bounds), max(bounds), nulls


def _float_order(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)


def _row_ids(entries: ManifestEntries) -> tuple[int, int] | None:
    """Return the first and last row id (inclusive), or None unless every file has one."""
    first = entries.first_row_id
    if (first < 0).any():
        return None
    return int(first.min()), int((first + entries.row_count - 1).max())
