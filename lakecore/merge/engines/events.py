"""This module describes what happens to one column of many keys: steps in merge order, and reductions over
those of each key.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.groups import Column, PickedValues
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
        """Return the number of groups."""
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> Indices:
        """Return the number of events of each group."""
        return np.diff(self.starts)

    @cached_property
    def groups(self) -> Indices:
        """Return the group of each event."""
        return np.repeat(np.arange(self.count), self.sizes)

    @cached_property
    def places(self) -> Indices:
        """Return the number of each event."""
        return np.arange(len(self))

    @cached_property
    def has_late(self) -> bool:
        """Return whether any step is OLDER."""
        return bool((self.steps == Step.OLDER).any())

    @cached_property
    def only_adds(self) -> bool:
        """Return whether every step is ADD, as in most tables."""
        return not self.steps.any()

    @cached_property
    def retracts(self) -> Bools:
        """Return which steps are RETRACT."""
        return np.asarray(self.steps == Step.RETRACT)

    @cached_property
    def has_retracts(self) -> bool:
        """Return whether any step is RETRACT."""
        return bool(self.retracts.any())

    @cached_property
    def settled(self) -> Events:
        """Return the events without those that a later SET makes void. Columns share the result."""
        sets = self.steps == Step.SET
        if not sets.any():
            return self
        return self.keep(self.places >= self.last_where(sets)[self.groups])

    @cached_property
    def rounds(self) -> tuple[tuple[Indices, Indices], ...] | None:
        """Return pairs (groups, events): the second event of each group that has one, then the third, …; None
        if there are too many.
        """
        if int(self.sizes.max(initial=0)) > _MOST_ROUNDS:
            return None
        result: list[tuple[Indices, Indices]] = []
        live = np.flatnonzero(self.sizes > 1)
        while len(live):
            result.append((live, self.starts[live] + len(result) + 1))
            live = live[self.sizes[live] > len(result) + 1]
        return tuple(result)

    @cached_property
    def latest(self) -> PickedValues:
        """Return the row of the last event of each group, or none where it retracts. Columns share the
        result.
        """
        return PickedValues(self.unless_retracted(self.last_where(self.steps != Step.OLDER)))

    def keep(self, mask: Bools) -> Events:
        """Return only the events that `mask` selects."""
        if mask.all():
            return self
        before = np.concatenate(([0], np.cumsum(mask)))
        return Events(self.rows[mask], self.steps[mask], before[self.starts])

    def last_where(self, mask: Bools) -> Indices:
        """Return the last event of each group that `mask` selects; -1 where there is none."""
        if mask.all():
            return np.where(self.sizes > 0, self.starts[1:] - 1, -1)
        return np.asarray(self.reduce(np.maximum, np.where(mask, self.places, -1), -1))

    def first_where(self, mask: Bools) -> Indices:
        """Return the first event of each group that `mask` selects; -1 where there is none."""
        none = len(self)
        first = self.reduce(np.minimum, np.where(mask, self.places, none), none)
        return np.asarray(np.where(first == none, -1, first))

    def reduce(self, ufunc: Any, values: Any, empty: Any) -> Any:
        """Return one value per group; `empty` where a group has no event."""
        some = self.sizes > 0
        if some.all() and len(some):
            return ufunc.reduceat(values, self.starts[:-1])
        out = np.full(self.count, empty, values.dtype)
        if some.any():
            out[some] = ufunc.reduceat(values, self.starts[:-1][some])
        return out

    def best(self, ranks: Indices, *, largest: bool) -> Indices:
        """Return the first event of each group with the largest rank (or the smallest); -1 where there is
        none.

        `ranks`: integers, one an event.
        """
        if not len(self):
            return np.full(self.count, -1, np.int64)
        if self.rounds is None:
            extreme = self.reduce(np.maximum if largest else np.minimum, ranks, 0)
            return self.first_where(ranks == extreme[self.groups])
        better = np.greater if largest else np.less
        rows = np.where(self.sizes > 0, self.starts[:-1], -1)
        best_ranks = ranks[rows]
        for groups, events in self.rounds:
            values = ranks[events]
            wins = better(values, best_ranks[groups])
            winners = groups[wins]
            rows[winners], best_ranks[winners] = events[wins], values[wins]
        return rows

    def picks(self, events: Indices) -> Indices:
        """Return the rows of `events`; -1 stays."""
        if not len(self):
            return np.full(len(events), -1, np.int64)
        rows: Indices = self.rows[events]
        return rows if events.min(initial=0) >= 0 else np.where(events < 0, -1, rows)

    def unless_retracted(self, events: Indices) -> Indices:
        """Return the rows of `events`, and -1 for those that retract; -1 stays."""
        if not len(self) or not self.has_retracts:
            return self.picks(events)
        is_retracted = (events < 0) | (self.steps[events] == Step.RETRACT)
        return np.where(is_retracted, -1, self.rows[events])

    def with_value(self, column: pa.Array) -> Events:
        """Return the events whose rows have a value in `column`."""
        return self.keep(self.valid(column)) if column.null_count else self

    def valid(self, column: pa.Array) -> Bools:
        """Return which events have a value in `column`."""
        if not column.null_count:
            return np.ones(len(self), bool)
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False)[self.rows])


class Aggregate(Protocol):
    """It merges one column of a key's rows into one value."""

    @property
    def retracts(self) -> bool:
        """Return whether RETRACT is supported; if not, `fold` never receives it."""
        ...

    def fold(self, column: pa.Array, events: Events) -> Column:
        """Return one value per group from `column` of the whole batch."""
        ...
