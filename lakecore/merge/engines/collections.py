"""This module has the aggregate functions of arrays and maps: collect, merge_map, merge_map_with_keytime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.engines.elements import Elements, Places, StepFunction, folded_lists
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.java_maps import JavaMap, identities, java_hashes
from lakecore.merge.groups import Column
from lakecore.types.datatypes import ArrayType, AtomicType, MapType

__all__ = ["Collect", "MergeMap", "MergeMapWithKeyTime"]


@dataclass(frozen=True, slots=True)
class Collect:
    """It puts arrays one after another; a retraction takes each of its elements out once.

    `distinct`: every element once, in the order of a Java hash set (elements with parts: as they come).
    `late_first`: late arrays come before the others (rule of the format with `ignore-retract`).
    """

    type: ArrayType
    distinct: bool = False
    late_first: bool = False
    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled
        if self.distinct:
            return self._fold_by_loop(column, events, np.diff(events.starts) > 0, None)
        events = events.keep(events.valid(column))
        looped = events.steps == Step.RETRACT
        if self.late_first:
            looped |= events.steps == Step.OLDER
        joined = _concatenate(column, events)
        chosen = events.reduce(np.logical_or, looped, False)
        return self._fold_by_loop(column, events, chosen, joined) if looped.any() else joined

    def _fold_by_loop(
        self, column: pa.Array, events: Events, chosen: Any, others: pa.Array | None
    ) -> pa.Array:
        return folded_lists(
            column, events, chosen, others, lambda elements: _CollectSteps(self, elements).step
        )


class _CollectSteps:
    """The steps of `collect`, which work on places of elements."""

    def __init__(self, rule: Collect, elements: Elements) -> None:
        kind = rule.type.element
        self._rule = rule
        self._keys = identities(elements.values, kind)
        self._hashed = rule.distinct and isinstance(kind, AtomicType)
        self._codes = java_hashes(elements.values, kind) if self._hashed else []

    def step(self, step: Step, state: Places | None, places: Places | None) -> Places | None:
        if step is Step.SET:
            return places
        if step is Step.RETRACT:
            return self._without(state, places)
        if step is Step.OLDER and self._rule.late_first:
            state, places = places, state
        if state is None and places is None:
            return None
        if not self._rule.distinct:
            return [*(state or ()), *(places or ())]
        if self._hashed:
            return self._hash_set([*(state or ()), *(places or ())])
        out = list(state or ())
        present = {self._keys[place] for place in out}
        for place in places or ():
            if self._keys[place] not in present:
                present.add(self._keys[place])
                out.append(place)
        return out

    def _hash_set(self, places: Places) -> list[int]:
        place_of: JavaMap[int] = JavaMap()
        for place in places:
            if place_of.get(self._keys[place]) is None:
                place_of.put(self._keys[place], self._codes[place], place)
        return list(place_of.values())

    def _without(self, state: Places | None, places: Places | None) -> Places | None:
        if state is None or not places:
            return state
        removed_keys = [self._keys[place] for place in places]
        out = []
        for place in state:
            if self._keys[place] in removed_keys:
                removed_keys.remove(self._keys[place])
            else:
                out.append(place)
        return out


@dataclass(frozen=True, slots=True)
class MergeMap:
    """All entries, the last value of a key; a retraction removes its keys."""

    type: MapType
    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> Column:
        return _fold_maps(column, events, self._steps)

    def _steps(self, elements: Elements) -> StepFunction:
        keys = identities(elements.values, self.type.key)

        def step(code: Step, state: Places, places: Places) -> Places:
            place_of = {keys[place]: place for place in state}
            for place in places:
                if code is Step.RETRACT:
                    place_of.pop(keys[place], None)
                else:
                    place_of[keys[place]] = place
            return list(place_of.values())

        return _with_nulls(step)


@dataclass(frozen=True, slots=True)
class MergeMapWithKeyTime:
    """Values are rows; the row with the higher time (text field number `time`) stays.

    A null row removes its key, one without a time changes nothing.
    """

    type: MapType
    time: int
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        return _fold_maps(column, events, self._steps)

    def _steps(self, elements: Elements) -> StepFunction:
        keys = identities(elements.values, self.type.key)
        rows: Any = elements.items
        present = rows.is_valid().to_pylist()
        texts = zip(rows.field(self.time).to_pylist(), present, strict=True)
        times = [
            text.encode("utf-16-be", "surrogatepass") if ok and text is not None else None
            for text, ok in texts
        ]

        def step(code: Step, state: Places, places: Places) -> Places:
            place_of = {keys[place]: place for place in state}
            for place in places:
                key, newer = keys[place], times[place]
                if not present[place]:
                    place_of.pop(key, None)
                elif newer is not None:
                    older = times[place_of[key]] if key in place_of else None
                    if older is None or newer > older:
                        place_of[key] = place
            return list(place_of.values())

        return _with_nulls(step)


def _with_nulls(merged: Callable[[Step, Places, Places], Places]) -> StepFunction:
    """Return the steps of a map, given a function that merges two maps."""

    def step(code: Step, state: Places | None, places: Places | None) -> Places | None:
        if code is Step.SET:
            return places
        if state is None:
            return None if code is Step.RETRACT else places
        if places is None or (code is Step.RETRACT and not places):
            return state
        return merged(Step.ADD, places, state) if code is Step.OLDER else merged(code, state, places)

    return step


def _fold_maps(column: pa.Array, events: Events, steps: Callable[[Elements], StepFunction]) -> pa.Array:
    events = events.settled
    events = events.keep(events.valid(column) | (events.steps == Step.SET))
    sizes = np.diff(events.starts)
    taken_back = events.reduce(np.logical_or, events.steps == Step.RETRACT, False)
    return folded_lists(column, events, (sizes > 1) | taken_back, None, steps)


def _concatenate(column: pa.Array, events: Events) -> pa.Array:
    values = column.take(pa.array(events.rows))
    sizes = np.concatenate(([0], np.cumsum(values.value_lengths().to_numpy(zero_copy_only=False))))
    starts = sizes[events.starts].astype(np.int32)
    empty = np.append(np.diff(events.starts) == 0, False)
    offsets = pa.array(starts, mask=empty)
    return pa.ListArray.from_arrays(offsets, values.flatten(), type=column.type)
