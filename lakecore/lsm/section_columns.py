"""This module finds the sections of many buckets at once, from columns of their files. Pure, vectorised.

The rule is that of `sections`, which works on the files of one bucket: sections in key order, in each of them
run after run.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.lsm.sections import run_numbers

__all__ = ["SectionColumns", "section_columns"]

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]

_MOST = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class SectionColumns:
    """These are the files in the order of their sections, as places in the columns, and where each section
    starts.
    """

    order: I64
    starts: I64
    """This is the start of each section, in `order`."""
    overlapping: npt.NDArray[np.bool_]
    """It tells, for each section, whether it has more than one run."""


def section_columns(bucket: Ints, low: I64, high: I64) -> SectionColumns:
    """Return the sections of all buckets. `bucket` has ascending numbers from 0 on, `low` and `high` are the
    keys of the files as numbers (`key_numbers`).

    It costs some sorts of numbers (0.3 us a file), and 1 us for each file of a section in which some but not
    all files overlap.
    """
    if not len(bucket):
        return SectionColumns(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    low, high = _apart(bucket, low, high)
    order = _sort_order(low, high)
    low, high = low[order], high[order]
    first = np.ones(len(low), np.bool_)
    first[1:] = (low[1:] > np.maximum.accumulate(high)[:-1]) | (bucket[order][1:] != bucket[order][:-1])
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(order))
    mixed = low[ends - 1] > np.minimum.reduceat(high, starts)
    overlapping = ends - starts > 1
    for section in np.flatnonzero(mixed & overlapping).tolist():
        part = slice(int(starts[section]), int(ends[section]))
        runs = run_numbers(zip(low[part].tolist(), high[part].tolist(), strict=True))
        overlapping[section] = max(runs) > 0
        order[part] = order[part][np.argsort(runs, kind="stable")]
    return SectionColumns(order, starts, overlapping)


def _apart(bucket: Ints, low: I64, high: I64) -> tuple[I64, I64]:
    """Return the keys moved by bucket, so that those of a later bucket are above all of an earlier one."""
    least = min(int(low.min()), int(high.min()))
    span = max(int(low.max()), int(high.max())) - least + 1
    if span * (int(bucket[-1]) + 1) >= _MOST:
        both = np.unique(np.concatenate([low, high]), return_inverse=True)[1].astype(np.int64)
        low, high, least, span = both[: len(low)], both[len(low) :], 0, len(both)
    moved = bucket.astype(np.int64) * span - least
    return low + moved, high + moved


def _sort_order(low: I64, high: I64) -> I64:
    """Return the order by (low, high); equal files keep theirs."""
    if (low[1:] > low[:-1]).all():
        return np.arange(len(low), dtype=np.int64)
    return np.lexsort((high, low)).astype(np.int64)
