"""Splits of tables with data evolution: files that hold columns of the same rows stay together. Pure.

Rule of the format: a file holds the rows from its first row id on. Files with the same range are columns of
the same rows; ranges that overlap in part belong to blob and vector files.
"""

from __future__ import annotations

import numpy as np

from lakecore.errors import UnsupportedError
from lakecore.metadata.entries import ManifestEntries
from lakecore.scan.plan import SplitPolicy, by_bucket, pack
from lakecore.scan.split import SplitPlan

__all__ = ["plan_row_ranges"]


def plan_row_ranges(entries: ManifestEntries, policy: SplitPolicy, table: str) -> SplitPlan:
    """Splits over live entries, by bucket, in the order of row ids. `table`: its name, for errors.

    Raises UnsupportedError for files without row ids, and for ranges that overlap in part.
    """
    if not len(entries):
        return SplitPlan(entries, np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    if (entries.first_row_id < 0).any():
        raise UnsupportedError(
            f"table {table}: some of its files have no row ids, so that their columns cannot be joined; use "
            "another engine"
        )
    order, bounds = by_bucket(entries, entries.first_row_id)
    first = entries.first_row_id[order]
    stops = first + entries.row_count[order]
    bucket = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    same = (first[1:] == first[:-1]) & (bucket[1:] == bucket[:-1])
    apart = (first[1:] >= stops[:-1]) | (bucket[1:] != bucket[:-1])
    if not (apart | (same & (stops[1:] == stops[:-1]))).all():
        raise UnsupportedError(
            f"table {table}: some files hold a part of the rows of others (blob or vector files), which this "
            "release cannot join; use another engine"
        )
    heads = np.flatnonzero(np.concatenate([[True], ~same]))
    sizes = np.maximum(np.add.reduceat(entries.file_size[order], heads), policy.open_file_cost)
    packs = pack(sizes, np.searchsorted(heads, bounds), policy.target_size)
    starts = np.append(heads, len(order))[packs]
    alone = np.diff(np.append(heads, len(order))) == 1
    return SplitPlan(entries, order, starts, np.logical_and.reduceat(alone, packs[:-1]))
