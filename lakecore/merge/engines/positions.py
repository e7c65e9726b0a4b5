"""Aggregate functions that keep one of the values: first, last, smallest, largest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.groups import Column, PickedValues
from lakecore.merge.key_columns import integer_view
from lakecore.merge.plain_values import plain_array, plain_values

__all__ = ["Extreme", "FirstNonNull", "FirstValue", "LastNonNull", "LastValue", "PrimaryKey"]


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """The result is the value of the last row, also if that is a retraction."""

    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> PickedValues:
        return PickedValues(events.picks(events.last_where(events.steps != Step.OLDER)))


@dataclass(frozen=True, slots=True)
class LastValue:
    """The result is the last value, null or not; it is null after a retraction."""

    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> PickedValues:
        return events.latest


@dataclass(frozen=True, slots=True)
class LastNonNull:
    """The last value that is not null; retracting any value leaves null. A late row fills a null only."""

    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> PickedValues:
        if not column.null_count and not events.has_late:
            return events.latest
        valid = events.valid(column)
        steps = events.steps
        if events.only_adds:
            return PickedValues(events.picks(events.last_where(valid)))
        decisive = (steps == Step.SET) | (valid & (steps != Step.OLDER))
        last = events.last_where(decisive)
        picked = events.unless_retracted(last)
        late = valid & (steps == Step.OLDER)
        if late.any():
            has_value = np.append(valid, False)[last] & (picked >= 0)
            first = events.first_where(late & (events.places > last[events.groups]))
            picked = np.where(has_value, picked, events.picks(first))
        return PickedValues(picked)


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The result is the first value, null or not. Each late row replaces it; a SET does too, and is no
    first value.
    """

    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> PickedValues:
        steps, places = events.steps, events.places
        sets = steps == Step.SET
        first = events.first_where(~sets)[events.groups]
        chosen = (
            sets | ((places == first) & (steps == Step.ADD)) | ((places != first) & (steps == Step.OLDER))
        )
        return PickedValues(events.picks(events.last_where(chosen)))


@dataclass(frozen=True, slots=True)
class FirstNonNull:
    """The result is the first value that is not null. Each late row replaces it once there is one, even by
    null.
    """

    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> PickedValues:
        valid, steps, groups = events.valid(column), events.steps, events.groups
        sets = steps == Step.SET
        first = events.first_where((steps == Step.ADD) & valid)[groups]
        picked = events.picks(events.last_where(sets | (events.places == first)))
        for group in np.unique(groups[steps == Step.OLDER]).tolist():
            picked[group] = _first_with_late(events, valid, group)
        return PickedValues(picked)


def _first_with_late(events: Events, valid: Any, group: int) -> int:
    """Return the row of the first value of one key with late rows, step by step (-1: none): the effect of a
    late row depends on whether a value came before.
    """
    row_kept, has_later = -1, False
    for i in range(int(events.starts[group]), int(events.starts[group + 1])):
        row, step = int(events.rows[i]) if valid[i] else -1, events.steps[i]
        if step == Step.SET:
            row_kept = row
        elif step == Step.ADD:
            row_kept, has_later = (row_kept, has_later) if has_later or row < 0 else (row, True)
        elif not has_later and row_kept >= 0:
            has_later = True
        else:
            row_kept = row
    return row_kept


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest or the smallest value; of booleans: one is true, or all are. NaN is above all numbers."""

    largest: bool
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled.with_value(column)
        if not len(events):
            return PickedValues(np.full(events.count, -1, np.int64))
        result = self._of_numbers(column, events)
        if result is not None:
            return result
        ranks = _ranks(column.take(pa.array(events.rows)))
        return PickedValues(events.picks(events.best(ranks, largest=self.largest)))

    def _of_numbers(self, column: pa.Array, events: Events) -> pa.Array | None:
        """Return the extreme values themselves, not their places, if numpy orders the type as the format
        does.
        """
        values = None if pa.types.is_decimal(column.type) else plain_values(column)
        if values is None or events.rounds is None or not events.sizes.all():
            return None
        values = values[events.rows]
        if pa.types.is_floating(column.type) and (np.isnan(values).any() or not values.all()):
            return None  # NaN and zeros have an order of their own
        better = np.maximum if self.largest else np.minimum
        first_values = values[events.starts[:-1]]
        for groups, places in events.rounds:
            first_values[groups] = better(first_values[groups], values[places])
        return plain_array(first_values, column.type)


def _ranks(values: pa.Array) -> Any:
    """Return integers in the order of the values, which have no nulls."""
    view = integer_view(values)
    if view is not None:
        return view
    return pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
