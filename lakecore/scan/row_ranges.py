"""Splits of tables with data evolution: files that hold columns of the same rows stay together. Pure.

Rule of the format: a file holds consecutive rows from its first row id on. Ordinary files with the same
range hold columns of the same rows; blob and vector files hold a part of the rows of an ordinary file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakecore.errors import UnsupportedError
from lakecore.metadata.dedicated_columns import is_blob_file, is_ordinary_file
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.scan.plan import SplitPolicy, by_bucket, pack
from lakecore.scan.split import SplitPlan

__all__ = ["plan_row_ranges"]


def plan_row_ranges(
    entries: ManifestEntries, policy: SplitPolicy, table: str, *, count_blob_size: bool = True
) -> SplitPlan:
    """Plan splits over live entries, by bucket, in the order of row ids. `table` is the name used in
    errors.

    `count_blob_size`: blob files count with their size, else with the cost of opening a file. Raises
    UnsupportedError for files without row ids, and for ordinary files whose ranges overlap in part.
    """
    if not len(entries):
        return SplitPlan(entries, np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    if (entries.first_row_id < 0).any():
        raise UnsupportedError(
            f"table {table}: some of its files have no row ids, so that their columns cannot be joined: a "
            "Paimon version without row tracking wrote them, and Java cannot read it either; "
            "go back to an earlier snapshot"
        )
    order, bounds = by_bucket(entries, entries.first_row_id)
    first = entries.first_row_id[order]
    stops = first + entries.row_count[order]
    bucket = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    reach = _running_stop(bucket, stops)
    together = (first[1:] < reach[:-1]) & (bucket[1:] == bucket[:-1])
    heads = np.flatnonzero(np.concatenate([[True], ~together]))
    same = (first[1:] == first[:-1]) & (stops[1:] == stops[:-1])
    sizes = entries.file_size[order]
    if (together & ~same).any():
        names = [name.decode() for name in entries.select(order).names()]
        _check_parts(names, first, stops, heads, table)
        blobs = np.array([is_blob_file(name) for name in names])
        sizes = sizes if count_blob_size else np.where(blobs, policy.open_file_cost, sizes)
    sizes = np.maximum(np.add.reduceat(sizes, heads), policy.open_file_cost)
    packs = pack(sizes, np.searchsorted(heads, bounds), policy.target_size)
    starts = np.append(heads, len(order))[packs]
    alone = np.diff(np.append(heads, len(order))) == 1
    return SplitPlan(entries, order, starts, np.logical_and.reduceat(alone, packs[:-1]))


def _running_stop(bucket: Any, stops: Any) -> Any:
    """Return the highest stop so far within the bucket of each file."""
    rank = np.empty(len(stops), np.int64)
    ranked = np.lexsort((stops, bucket))
    rank[ranked] = np.arange(len(stops))
    return stops[ranked[np.maximum.accumulate(rank)]]


def _check_parts(names: list[str], first: Any, stops: Any, heads: Any, table: str) -> None:
    """Check ranges that overlap in part: ordinary files of a range must all be the whole of it."""
    counts = np.diff(np.append(heads, len(first)))
    low = np.repeat(first[heads], counts)
    high = np.repeat(np.maximum.reduceat(stops, heads), counts)
    ordinary = np.array([is_ordinary_file(name) for name in names])
    if (ordinary & ((first != low) | (stops != high))).any():
        raise UnsupportedError(
            f"table {table}: some files overlap other files in a part of their rows, so that "
            "their columns cannot be joined; run fsck"
        )
