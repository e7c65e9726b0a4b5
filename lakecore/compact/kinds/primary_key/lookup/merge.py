"""This module merges a window whose rows know their levels: it computes results, and how they differ from the
old rows. Pure.

Rules of the format. A merge that looks rows up folds the rows of level 0 with one old row: that of the lowest
level above 0, which already stands for all levels above it. Only keys with a row of level 0 have changed. A
full compaction folds all rows; what was is the row of the last level, and a row alone on that level has not
changed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakecore.compact.kinds.primary_key.lookup.changelog import (
    NOTHING,
    ChangeLines,
    KeyChanges,
    SameValues,
    change_rows,
)
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.data_class import dataclass
from lakecore.merge.groups import Engine, FoldedGroups, Groups, fold
from lakecore.merge.row_order import Bools, Indices
from lakecore.metadata.row_kind import is_retract

__all__ = ["LEVEL_NAME", "LevelRules", "LookupMergeResult", "merge_levels", "with_level"]

LEVEL_NAME = "_LEVEL"
"""It is a column beside those of the files, with the level of the row's file."""
_NO_LEVEL = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRules:
    """Windows of one merge are merged by these rules.

    `columns` are those of the results. With `first_row`, a key that was there before stays as it is, and new
    ones keep their kind in the change stream. With `all_rows`, rows of every level are merged (merge engines
    deduplicate and first-row, where they change nothing); the old one is still that of the lowest level above
    0. With `singles`, a single row is given to the engine too. `top_level` is the last level. `announces`
    requests change rows.
    """

    derivation: Derivation
    engine: Engine
    columns: tuple[str, ...]
    drop_deletes: bool
    announces: bool
    top_level: int
    first_row: bool = False
    all_rows: bool = False
    singles: bool = True
    same: SameValues | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupMergeResult:
    """`rows` are the results to be written. `changes` are lines of the change stream.

    For the proof: `keys`, which group each result is of; `superseded`: rows, in merge order, that a lower
    level stands for.
    """

    rows: pa.RecordBatch
    changes: ChangeLines | None
    keys: Indices
    superseded: Bools


@dataclass(frozen=True, slots=True)
class _View:
    """What the levels say. By row in merge order: `folded`, it takes part. By group: `old`, the place of the
    row that was, in the batch, or NOTHING; `changes`, whether the group has changed.
    """

    folded: Bools
    old: Indices
    changes: Bools


def with_level(batch: pa.RecordBatch, level: int) -> pa.RecordBatch:
    """Return the batch with `_LEVEL` in a last column."""
    levels = pa.array(np.full(batch.num_rows, level, np.int8))
    return batch.append_column(pa.field(LEVEL_NAME, pa.int8(), nullable=False), levels)


def merge_levels(groups: Groups, outside: int, rules: LevelRules) -> LookupMergeResult:
    """Merge one window, whose first `outside` rows were looked up and are in no file of the merge."""
    view = _full_view(groups, rules) if rules.derivation is Derivation.FULL else _lookup_view(groups, rules)
    folded = fold(_only(groups, view.folded), rules.engine, rules.columns, singles=rules.singles)
    has_old = (view.old >= 0) & (view.old < outside)
    left_out = is_retract(folded.kinds) & rules.drop_deletes
    if rules.first_row:
        left_out |= has_old[folded.present]
    return LookupMergeResult(
        rows=folded.batch.filter(pa.array(~left_out)) if left_out.any() else folded.batch,
        changes=_changes(groups, folded, view, rules) if rules.announces else None,
        keys=np.flatnonzero(folded.present)[~left_out],
        superseded=~view.folded,
    )


def _lookup_view(groups: Groups, rules: LevelRules) -> _View:
    starts, levels = groups.starts, _levels(groups)
    sizes = np.diff(starts, append=len(levels))
    is_old = levels > 0
    nearest = np.minimum.reduceat(np.where(is_old, levels, _NO_LEVEL), starts)
    is_old &= levels == np.repeat(nearest, sizes)
    folded = np.ones(len(levels), bool) if rules.all_rows else is_old | (levels == 0)
    return _View(folded, _place_of(groups, is_old, sizes), np.logical_or.reduceat(levels == 0, starts))


def _full_view(groups: Groups, rules: LevelRules) -> _View:
    levels = _levels(groups)
    sizes = np.diff(groups.starts, append=len(levels))
    top = _place_of(groups, levels == rules.top_level, sizes)
    return _View(np.ones(len(levels), bool), top, (sizes > 1) | (top == NOTHING))


def _changes(groups: Groups, folded: FoldedGroups, view: _View, rules: LevelRules) -> ChangeLines:
    """Return the changes. Rule of the format for first-row: only a key that no level had is a change, which
    is emitted as it came.
    """
    if rules.first_row:
        news = folded.batch.filter(pa.array((view.changes & (view.old < 0))[folded.present]))
        return ChangeLines(news, np.empty(0, np.int64))
    after = np.where(folded.present, np.cumsum(folded.present) - 1, NOTHING)
    changes = KeyChanges(
        old=groups.batch.select(list(rules.columns)),
        new=folded.batch,
        before=np.where(view.changes, view.old, NOTHING),
        after=np.where(view.changes, after, NOTHING),
    )
    return change_rows(changes, rules.same)


def _levels(groups: Groups) -> Indices:
    return np.asarray(groups.batch.column(LEVEL_NAME).to_numpy()[groups.rows])


def _only(groups: Groups, rows: Bools) -> Groups:
    """Return the groups with some of their rows left out; at least one of each stays."""
    if rows.all():
        return groups
    group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=len(rows)))[rows]
    return Groups(batch=groups.batch, order=groups.rows[rows], last=np.append(group[1:] != group[:-1], True))


def _place_of(groups: Groups, chosen: Bools, sizes: Indices) -> Indices:
    """Return, for each group, the place in the batch of the last of its chosen rows, or NOTHING."""
    places = np.full(len(sizes), NOTHING, np.int64)
    at = np.flatnonzero(chosen)
    places[np.repeat(np.arange(len(sizes)), sizes)[at]] = groups.rows[at]
    return places
