"""This module computes what the rows of some keys must become, from the rows alone. Pure.

The rules of the table's merge engine once more: nothing is taken from the merge, neither its order nor what
it says of a row. A key of which two rows are equal in order may have either as its latest: its values are not
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, is_retract
from lakecore.verify.recompute.evidence import Fate
from lakecore.verify.recompute.expected import ExpectedResults, expect_results
from lakecore.verify.rules.expiry import is_expired
from lakecore.verify.rules.merge_rules import MergeRules
from lakecore.verify.rules.order import Bools, Rank, compare_neighbours, ranks

__all__ = ["WindowKeys", "WindowRows", "expect_window", "in_merge_order", "living_rows"]

_ALL_LEVELS = (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)
_NO_LEVEL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows of some keys: `batch` has all columns by name. `levels` is the level of each row's file. `outside`
    are rows that are in no input of the merge, but on a level above.
    """

    batch: pa.RecordBatch
    levels: npt.NDArray[np.int64]
    outside: Bools

    def take(self, rows: Any) -> WindowRows:
        """Return some of the rows, in this order."""
        return WindowRows(self.batch.take(pa.array(rows)), self.levels[rows], self.outside[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKeys:
    """These are rows in merge order by key, and what each key must become.

    `starts`: the first row of each key. `older`: keys whose first row lies on another level (first-row).
    `tied`: keys with rows that are equal in order.
    """

    rows: WindowRows
    starts: npt.NDArray[np.int64]
    fates: npt.NDArray[np.int8]
    expected: ExpectedResults
    older: Bools
    tied: Bools

    @property
    def absent(self) -> Bools:
        """Return the keys that must not have a result."""
        return np.asarray(self.expected.nothing | self.older)


def in_merge_order(
    rows: WindowRows, keys: Sequence[str], sequence: Sequence[str], *, descending: bool
) -> WindowRows:
    """Return the rows sorted by key, sequence fields and sequence number; equal ones stay in their order."""
    columns = _ranks(rows.batch, keys, sequence, descending=descending)
    above, _ = compare_neighbours(columns)
    if not above.any():
        return rows
    rank_columns = {f"r{i}": rank.values for i, rank in enumerate(columns)}
    order = [
        (name, "descending" if rank.falling else "ascending")
        for name, rank in zip(rank_columns, columns, strict=True)
    ]
    return rows.take(pc.sort_indices(pa.table(rank_columns), sort_keys=order).to_numpy())


def living_rows(rows: WindowRows, rules: MergeRules, now_ms: int) -> WindowRows:
    """Return the rows without those that are too old. First-row keeps rows of other levels, however old,
    because it only needs to know that they exist.
    """
    if rules.expire_column is None:
        return rows
    times = rows.batch.column(rules.expire_column)
    old = is_expired(times, now_ms, rules.expire_seconds)
    if rules.engine is MergeEngine.FIRST_ROW:
        old &= ~rows.outside
    return rows.take(np.flatnonzero(~old)) if old.any() else rows


def expect_window(
    rows: WindowRows, rules: MergeRules, keys: Sequence[str], sequence: Sequence[str], *, nearest: bool
) -> WindowKeys:
    """Return the keys of a window with their expected results. `rows` are in merge order, at least one. With
    `nearest`, the row of a key on its lowest level above 0 stands for those of the levels above (merges that
    look rows up).
    """
    batch = rows.batch
    _, same = compare_neighbours(_ranks(batch, keys, (), descending=False)[:-1])
    _, equal = compare_neighbours(_ranks(batch, keys, sequence, descending=False))
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
    kinds = batch.column(KIND_NAME)
    fates = _fates(rows, rules, starts, nearest=nearest)
    return WindowKeys(
        rows=rows,
        starts=starts,
        fates=fates,
        expected=expect_results(rules, starts, fates, kinds, batch.column(SEQUENCE_NAME)),
        older=_has_older_row(rows, rules, starts),
        tied=np.asarray(np.logical_or.reduceat(np.append(equal, False), starts)),
    )


def _ranks(
    batch: pa.RecordBatch, keys: Sequence[str], sequence: Sequence[str], *, descending: bool
) -> list[Rank]:
    """Return the ranks of the key, of the sequence fields, and of the sequence number in the last place."""
    rank_columns = [rank for name in keys for rank in ranks(batch.column(name))]
    rank_columns += [rank for name in sequence for rank in ranks(batch.column(name), descending=descending)]
    return [*rank_columns, *ranks(batch.column(SEQUENCE_NAME))]


def _fates(rows: WindowRows, rules: MergeRules, starts: Any, *, nearest: bool) -> npt.NDArray[np.int8]:
    fates = np.full(len(rows.levels), Fate.FOLDED, np.int8)
    sizes = np.diff(np.append(starts, len(fates)))
    if nearest and rules.engine not in _ALL_LEVELS:
        high = rows.levels > 0
        lowest = np.minimum.reduceat(np.where(high, rows.levels, _NO_LEVEL), starts)
        fates[high & (rows.levels > np.repeat(lowest, sizes))] = Fate.SUPERSEDED
    if rules.ignore_retracts:
        is_emitted = np.repeat((sizes > 1) | (not rules.single_rows_pass), sizes)
        retracts = is_retract(rows.batch.column(KIND_NAME).to_numpy())
        fates[retracts & is_emitted & (fates == Fate.FOLDED)] = Fate.IGNORED
    return fates


def _has_older_row(rows: WindowRows, rules: MergeRules, starts: Any) -> Bools:
    if rules.engine is not MergeEngine.FIRST_ROW:
        return np.zeros(len(starts), bool)
    return np.asarray(np.logical_or.reduceat(rows.outside, starts))
