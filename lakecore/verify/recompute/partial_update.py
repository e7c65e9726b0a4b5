"""This module recomputes partial updates: which rows change which columns, with and without sequence
groups. It is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.verify.recompute.column_states import ColumnState, PickedState, Places, dense_ranks
from lakecore.verify.recompute.value_states import state_of
from lakecore.verify.rules.merge_rules import MergeRules, SequenceGroup
from lakecore.verify.rules.order import Bools

__all__ = ["Round", "update_of"]


@dataclass(frozen=True, slots=True)
class Round:
    """It has one row of each of `keys`: its place in the window and its kind. A row in `ignored` is as if
    it were not there.
    """

    keys: Places
    rows: Places
    retracts: Bools
    deletes: Bools
    ignored: Bools

    def apply(self, step: Callable[[Places, Places], None], which: Bools) -> None:
        """Do `step` for some of the rows."""
        if which.any():
            step(self.keys[which], self.rows[which])


class _Update(Protocol):
    def column(self, name: str, column: pa.Array, rounds: Sequence[Round], count: int) -> pa.Array: ...


def update_of(rules: MergeRules, window: pa.RecordBatch, rounds: Sequence[Round]) -> _Update:
    """Return how the columns of a partial update are recomputed."""
    starting = _starting(window.num_rows, rounds)
    if rules.groups:
        return _GroupedUpdate(rules, window, rounds, starting)
    return _PlainUpdate(rules, starting)


def _starting(count: int, rounds: Sequence[Round]) -> list[Bools]:
    """Return the retract rows that no row of their key precedes: they become the row, even if ignored."""
    filled = np.zeros(count, bool)
    starts = []
    for now in rounds:
        starts.append(now.retracts & ~filled[now.keys])
        filled[now.keys] = True
    return starts


class _PlainUpdate:
    """Values that are not null replace what was before."""

    def __init__(self, rules: MergeRules, starting: list[Bools]) -> None:
        self._remove = rules.remove_on_delete
        self._starting = starting

    def column(self, name: str, column: pa.Array, rounds: Sequence[Round], count: int) -> pa.Array:
        state = PickedState(column, count)
        for now, starting in zip(rounds, self._starting, strict=True):
            removed = now.deletes & ~now.ignored & self._remove
            now.apply(state.set, starting | removed)
            now.apply(state.set_valid, ~now.retracts)
        return state.values()


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A round's rows for one sequence group: not below what is held, or below it; neither without one."""

    fresh: Bools
    late: Bools


class _GroupedUpdate:
    """A row changes the columns of a group unless its sequence is null, or below the one held."""

    def __init__(
        self, rules: MergeRules, window: pa.RecordBatch, rounds: Sequence[Round], starting: list[Bools]
    ) -> None:
        self._rules = rules
        self._starting = starting
        self._verdicts: dict[SequenceGroup, list[_Verdict]] = {group: [] for group in rules.groups}
        self._wiped: list[Bools] = []
        self._decide(window, rounds)

    def column(self, name: str, column: pa.Array, rounds: Sequence[Round], count: int) -> pa.Array:
        group = next((g for g in self._rules.groups if name in g.sequence or name in g.columns), None)
        rule = self._rules.columns[name]
        state = state_of(rule, column, count) if rule.function else PickedState(column, count)
        for number, now in enumerate(rounds):
            now.apply(state.set, self._starting[number])
            if group is None:
                add = state.add if rule.function or not isinstance(state, PickedState) else state.set_valid
                now.apply(add, ~now.retracts)
            elif name in group.sequence:
                now.apply(state.set, self._verdicts[group][number].fresh)
            else:
                self._apply_member(state, now, self._verdicts[group][number], folds=bool(rule.function))
            now.apply(state.set, self._wiped[number])
        return state.values()

    @staticmethod
    def _apply_member(state: ColumnState, now: Round, verdict: _Verdict, *, folds: bool) -> None:
        now.apply(state.add if folds else state.set, verdict.fresh & ~now.retracts)
        back = state.retract if folds else (lambda keys, _: state.clear(keys))
        now.apply(back, verdict.fresh & now.retracts)
        if folds:
            now.apply(state.add_late, verdict.late & ~now.retracts)
            now.apply(state.retract, verdict.late & now.retracts)

    def _decide(self, window: pa.RecordBatch, rounds: Sequence[Round]) -> None:
        """Walk through the rounds with the sequence of each group that each key holds."""
        groups = [_GroupSequences(group, window) for group in self._rules.groups]
        removing = set(self._rules.remove_by)
        for now, starting in zip(rounds, self._starting, strict=True):
            wiped = np.zeros(len(now.keys), bool)
            for state in groups:
                now.apply(state.hold, starting)
                verdict = state.verdict(now)
                self._verdicts[state.group].append(verdict)
                if removing & set(state.group.sequence):
                    wiped |= verdict.fresh & now.deletes
            for state in groups:
                now.apply(state.hold, self._verdicts[state.group][-1].fresh | wiped)
            self._wiped.append(wiped)


class _GroupSequences:
    """The sequence of one group that each key holds, as the rank of the row it came from."""

    def __init__(self, group: SequenceGroup, window: pa.RecordBatch) -> None:
        columns = [window.column(name) for name in group.sequence]
        self.group = group
        self._ranks = dense_ranks(columns)
        self._empty = np.logical_and.reduce([~_valid(column) for column in columns])
        self._rank = np.full(window.num_rows, -1, np.int64)

    def hold(self, keys: Places, rows: Places) -> None:
        self._rank[keys] = self._ranks[rows]

    def verdict(self, now: Round) -> _Verdict:
        counts = ~self._empty[now.rows] & ~now.ignored
        fresh = counts & (self._ranks[now.rows] >= self._rank[now.keys])
        return _Verdict(fresh, counts & ~fresh)


def _valid(column: pa.Array) -> Bools:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
