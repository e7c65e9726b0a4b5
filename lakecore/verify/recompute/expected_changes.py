"""This module decides which lines of the change stream a merge must announce: found from levels, rows and
results. Pure.

Rules of the format. A merge that looks rows up: keys with a row of level 0 have changed, and what they were
is their row on the lowest level above 0; where that row retracts there was none, whatever lies above it. A
full compaction: what was is the row of the last level, and a key whose only row is that one has not changed.
Merge engine first-row: a key that no level has is new, and keeps its kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import RowKind
from lakecore.verify.rules.kinds import retracting
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules
from lakecore.verify.rules.order import Bools, ranks

__all__ = ["ChangeLines", "KeyRows", "certainly_same", "expect_changes", "same_where_known"]

Places = npt.NDArray[np.int64]
_NOTHING = -1
_NO_LEVEL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """This is a window by keys. `starts` is the first row of each key; `counted` are rows that did not
    expire.

    `levels` and `kinds` are those of the rows, `result_kinds` those of the results, and `groups` is the key
    of each result.
    """

    starts: Places
    counted: Bools
    levels: npt.NDArray[Any]
    groups: Places
    kinds: npt.NDArray[Any]
    result_kinds: npt.NDArray[Any]

    @property
    def keys(self) -> Places:
        """Return the key of each row."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.kinds))))


@dataclass(frozen=True, slots=True)
class ChangeLines:
    """Rows that were, and results that are, each with the kind it is announced with.

    `pairs`: keys with a line of both sorts, with their row and their result.
    """

    before: Places
    before_kinds: npt.NDArray[np.int8]
    after: Places
    after_kinds: npt.NDArray[np.int8]
    pairs: tuple[Places, Places, Places]


def expect_changes(rules: MergeRules, rows: KeyRows, unchanged: Places) -> ChangeLines:
    """Return the expected changelog lines. `unchanged` are keys whose row was replaced by an equal one, if
    the table does not announce that.
    """
    count = len(rows.starts)
    keys = rows.keys
    after = np.full(count, _NOTHING, np.int64)
    after[rows.groups] = np.arange(len(rows.groups))
    high = rows.counted & (rows.levels > 0)
    if rules.engine is MergeEngine.FIRST_ROW:
        return _news(rows, after, np.bincount(keys[high], minlength=count) > 0)
    if rules.changes is ChangeSource.TOP_LEVEL:
        high &= rows.levels == rules.top_level
        alone = (np.bincount(keys, minlength=count) == 1) & (np.bincount(keys[high], minlength=count) == 1)
        changed = ~alone
    else:
        changed = np.bincount(keys[rows.levels == 0], minlength=count) > 0
    before = _row_before(rows, keys, high)
    standing = ~retracting(rows.result_kinds)
    after[rows.groups[~standing]] = _NOTHING
    changed[unchanged] &= ~((before >= 0) & (after >= 0))[unchanged]
    had, has = changed & (before >= 0), changed & (after >= 0)
    both = np.flatnonzero(had & has)
    return ChangeLines(
        before[had],
        np.where(has, RowKind.UPDATE_BEFORE, RowKind.DELETE).astype(np.int8)[had],
        after[has],
        np.where(had, RowKind.UPDATE_AFTER, RowKind.INSERT).astype(np.int8)[has],
        (both, before[both], after[both]),
    )


def _row_before(rows: KeyRows, keys: Places, high: Bools) -> Places:
    """Return the old row of each key: that of the lowest level in `high`, and none where it retracts."""
    levels = np.where(high, rows.levels, _NO_LEVEL)
    lowest = np.minimum.reduceat(levels, rows.starts) if len(levels) else levels
    nearest = np.flatnonzero(high & (levels == lowest[keys]))
    before = np.full(len(rows.starts), _NOTHING, np.int64)
    before[keys[nearest]] = np.where(retracting(rows.kinds[nearest]), _NOTHING, nearest)
    return before


def _news(rows: KeyRows, after: Places, existed: Bools) -> ChangeLines:
    new = after[(after >= 0) & ~existed]
    none = np.empty(0, np.int64)
    kinds = rows.result_kinds[new].astype(np.int8)
    return ChangeLines(none, none.astype(np.int8), new, kinds, (none, none, none))


def same_where_known(before: list[pa.Array], after: list[pa.Array]) -> Bools:
    """Return whether rows are equal as far as flat columns tell; NaN equals NaN, -0.0 is not 0.0."""
    same = np.ones(len(before[0]) if before else 0, bool)
    for old, new in zip(before, after, strict=True):
        if pa.types.is_nested(old.type):
            continue
        equal = pc.and_(_equal_values(old, new.cast(old.type)), pc.and_(old.is_valid(), new.is_valid()))
        nulls = pc.and_(old.is_null(), new.is_null())
        same &= pc.or_(equal, nulls).to_numpy(zero_copy_only=False)
    return np.asarray(same)


def _equal_values(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return which values are equal, whatever it says where one is null."""
    if not pa.types.is_floating(old.type):
        return pc.fill_null(pc.equal(old, new), False)
    first, second = (ranks(pc.fill_null(column, 0.0))[0].values for column in (old, new))
    return pa.array(first == second)


def certainly_same(before: list[pa.Array], after: list[pa.Array]) -> Bools:
    """Return which rows are equal whatever nested columns hold: these are null on both sides."""
    same = same_where_known(before, after)
    for old, new in zip(before, after, strict=True):
        if pa.types.is_nested(old.type):
            same &= pc.and_(old.is_null(), new.is_null()).to_numpy(zero_copy_only=False)
    return same
