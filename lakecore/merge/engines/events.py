"""What happens to one column of many keys: steps in merge order, and reductions over those of each key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakecore.merge.groups import Column, Picked
from lakecore.merge.row_order import Bools, Indices

__all__ = ["Aggregate", "Events", "Step"]

_MOST_ROUNDS = 16


class Step(IntEnum):
    """ADD: the row's value comes after what was there. OLDER: before it (a late row of a sequence group).

    RETRACT: it is taken back. SET: it replaces whatever was there.
    """

    ADD = 0
    OLDER = 1
    RETRACT = 2
    SET = 3


@dataclass(frozen=True)
class Events:
    """`rows[i]` (a place in the batch) takes part by `steps[i]`. Group g: `starts[g]` up to `starts[g + 1]`.

    A group may be empty, and a row may come twice (set, then retracted).
    """

    rows: Indices
    steps: Any
    starts: Indices

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def count(self) -> int:
        """Groups."""
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> Indices:
        """Events of each group."""
        return np.diff(self.starts)

    @cached_property
    def groups(self) -> Indices:
        """The group of each event."""
        return np.repeat(np.arange(self.count), self.sizes)

    @cached_property
    def places(self) -> Indices:
        """The number of each event."""
        return np.arange(len(self))

    @cached_property
    def has_late(self) -> bool:
        """Whether any step is OLDER."""
        return bool((self.steps == Step.OLDER).any())

    @cached_property
    def only_adds(self) -> bool:
        """Whether every step is ADD, as in most tables."""
        return not self.steps.any()

    @cached_property
    def retracts(self) -> Bools:
        """Which steps are RETRACT."""
        return np.asarray(self.steps == Step.RETRACT)

    @cached_property
    def has_retracts(self) -> bool:
        """Whether any step is RETRACT."""
        return bool(self.retracts.any())

    @cached_property
    def settled(self) -> Events:
        """Without what a later SET makes void. Columns share it."""
        sets = self.steps == Step.SET
        if not sets.any():
            return self
        return self.keep(self.places >= self.last_where(sets)[self.groups])

    @cached_property
    def rounds(self) -> tuple[tuple[Indices, Indices], ...] | None:
        """(groups, events): the second of each group that has one, then the third, …; None: too many."""
        if int(self.sizes.max(initial=0)) > _MOST_ROUNDS:
            return None
        found: list[tuple[Indices, Indices]] = []
        live = np.flatnonzero(self.sizes > 1)
        while len(live):
            found.append((live, self.starts[live] + len(found) + 1))
            live = live[self.sizes[live] > len(found) + 1]
        return tuple(found)

    @cached_property
    def latest(self) -> Picked:
        """The row that speaks last in each group, none where it retracts. Columns share what it picks."""
        return Picked(self.unless_retracted(self.last_where(self.steps != Step.OLDER)))

    def keep(self, wanted: Bools) -> Events:
        """Only some of the events."""
        if wanted.all():
            return self
        before = np.concatenate(([0], np.cumsum(wanted)))
        return Events(self.rows[wanted], self.steps[wanted], before[self.starts])

    def last_where(self, wanted: Bools) -> Indices:
        """The last event of each group that is `wanted`; -1: none."""
        if wanted.all():
            return np.where(self.sizes > 0, self.starts[1:] - 1, -1)
        return np.asarray(self.reduce(np.maximum, np.where(wanted, self.places, -1), -1))

    def first_where(self, wanted: Bools) -> Indices:
        """The first event of each group that is `wanted`; -1: none."""
        none = len(self)
        first = self.reduce(np.minimum, np.where(wanted, self.places, none), none)
        return np.asarray(np.where(first == none, -1, first))

    def reduce(self, ufunc: Any, values: Any, empty: Any) -> Any:
        """One value a group; `empty` where a group has no event."""
        some = self.sizes > 0
        if some.all() and len(some):
            return ufunc.reduceat(values, self.starts[:-1])
        out = np.full(self.count, empty, values.dtype)
        if some.any():
            out[some] = ufunc.reduceat(values, self.starts[:-1][some])
        return out

    def best(self, ranks: Indices, *, largest: bool) -> Indices:
        """The event of each group with the largest (else the smallest) rank, the first of them; -1: none.

        `ranks`: integers, one an event.
        """
        if not len(self):
            return np.full(self.count, -1, np.int64)
        if self.rounds is None:
            extreme = self.reduce(np.maximum if largest else np.minimum, ranks, 0)
            return self.first_where(ranks == extreme[self.groups])
        better = np.greater if largest else np.less
        found = np.where(self.sizes > 0, self.starts[:-1], -1)
        kept = ranks[found]
        for groups, events in self.rounds:
            values = ranks[events]
            wins = better(values, kept[groups])
            taken = groups[wins]
            found[taken], kept[taken] = events[wins], values[wins]
        return found

    def picks(self, events: Indices) -> Indices:
        """The rows of `events`; -1 stays."""
        if not len(self):
            return np.full(len(events), -1, np.int64)
        rows: Indices = self.rows[events]
        return rows if events.min(initial=0) >= 0 else np.where(events < 0, -1, rows)

    def unless_retracted(self, events: Indices) -> Indices:
        """The rows of `events`, -1 for those that retract; -1 stays."""
        if not len(self) or not self.has_retracts:
            return self.picks(events)
        gone = (events < 0) | (self.steps[events] == Step.RETRACT)
        return np.where(gone, -1, self.rows[events])

    def with_value(self, column: pa.Array) -> Events:
        """Those whose rows have a value in `column`."""
        return self.keep(self.valid(column)) if column.null_count else self

    def valid(self, column: pa.Array) -> Bools:
        """Which events have a value in `column`."""
        if not column.null_count:
            return np.ones(len(self), bool)
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False)[self.rows])


class Aggregate(Protocol):
    """How one column of a key's rows becomes one value."""

    @property
    def retracts(self) -> bool:
        """RETRACT is understood; else it never comes."""
        ...

    def fold(self, column: pa.Array, events: Events) -> Column:
        """One value a group from `column` of the whole batch."""
        ...
