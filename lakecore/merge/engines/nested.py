"""This module has the aggregate functions of arrays of rows: nested_update and nested_partial_update.

Rules of 2.0 (before, keys and limit were not looked at in the first value, nor updates made at the limit).
With a key the rows come in the order of a Java hash map over the binary form of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.merge.engines.elements import Elements, Places, StepFunction, folded_lists
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.java_maps import JavaMap, identities
from lakecore.merge.engines.values import fold_values
from lakecore.merge.groups import Column
from lakecore.merge.row_order import in_total_order
from lakecore.row.hashing import hash_rows
from lakecore.row.values import array_values, values_array
from lakecore.types.datatypes import ArrayType, RowType

__all__ = ["NestedPartialUpdate", "NestedRows", "NestedUpdate", "NullKeys"]


class NullKeys(Enum):
    """It says what becomes of nested rows with a null in their key (option `nested-key-null-strategy`)."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRows:
    """These are the rows of an array column. `key` names their key fields; if it is empty, rows have no
    key.
    """

    field: str
    type: ArrayType
    row: RowType
    key: tuple[str, ...]
    nulls: NullKeys = NullKeys.MERGE

    def keys(self, rows: pa.Array) -> tuple[list[Hashable], list[int]]:
        """Return the key and the Java hash of each row; the key is None for a row that is left out.

        Raises UnsupportedError for a null in a key where that is an error.
        """
        places = [self.row.names.index(name) for name in self.key]
        types = [self.row.fields[place].type for place in places]
        columns = [rows.field(place) for place in places]
        if not len(rows):
            return [], []
        codes = hash_rows(columns, self.row.select(self.key)).tolist()
        parts = [array_values(column, kind) for column, kind in zip(columns, types, strict=True)]
        keys: list[Hashable] = [repr(key) for key in zip(*parts, strict=True)]
        present = np.asarray(rows.is_valid().to_numpy(zero_copy_only=False))
        if self.nulls is not NullKeys.MERGE:
            whole = np.logical_and.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in columns])
            if self.nulls is NullKeys.ERROR and (present & ~whole).any():
                raise UnsupportedError(
                    f"field {self.field}: a nested row has a null in its key {', '.join(self.key)}; set "
                    f"fields.{self.field}.nested-key-null-strategy to merge or ignore"
                )
            present &= whole
        for place in np.flatnonzero(~present).tolist():
            keys[place] = None
        return keys, codes


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedUpdate:
    """This is the function nested_update, which collects the rows of arrays one after another, or the last
    row of each key.

    `sequence` are the fields that decide which of two rows with one key stays (nulls first; the later of
    equals). `limit` is the number of rows that a column may have; more are left out.
    """

    rows: NestedRows
    sequence: tuple[str, ...] = ()
    limit: int | None = None
    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled
        events = _that_matter(column, events)
        some = np.diff(events.starts) > 0
        return folded_lists(column, events, some, None, self._keyed_steps if self.rows.key else self._plain)

    def _plain(self, elements: Elements) -> StepFunction:
        """Return the steps without a key: a retraction removes every row that equals one of its rows."""
        keys = identities(elements.values, self.rows.row)

        def present(places: Places) -> list[int]:
            return [place for place in places if keys[place] is not None]

        def add(state: Places | None, places: Places) -> Places:
            if state is None:
                return present(places)[: self.limit]
            if self.limit is not None and len(state) >= self.limit:
                return state
            room = None if self.limit is None else self.limit - len(state)
            return present(state) + present(places)[:room]

        def without(state: Places, places: Places) -> Places:
            removed_keys = {keys[place] for place in places}
            return [place for place in present(state) if keys[place] not in removed_keys]

        return _steps(add, without)

    def _keyed_steps(self, elements: Elements) -> StepFunction:
        keys, codes = self.rows.keys(elements.values)
        ranks = self._ranks(elements.values)

        def put(by_key: JavaMap[int], places: Places, limit: int | None) -> None:
            for place in places:
                before = by_key.get(keys[place])
                full = limit is not None and len(by_key) >= limit
                if keys[place] is None or (before is None and full):
                    continue
                if before is None or ranks is None or ranks[place] >= ranks[before]:
                    by_key.put(keys[place], codes[place], place)

        def add(state: Places | None, places: Places) -> Places:
            rows: JavaMap[int] = JavaMap()
            put(rows, state or (), None)
            put(rows, places, self.limit)
            return list(rows.values())

        def without(state: Places, places: Places) -> Places:
            rows: JavaMap[int] = JavaMap()
            for place in filter(lambda place: keys[place] is not None, state):
                rows.put(keys[place], codes[place], place)
            for place in places:
                rows.remove(keys[place])
            return list(rows.values())

        return _steps(add, without)

    def _ranks(self, rows: pa.Array) -> list[int] | None:
        """Return the order of the rows by their sequence fields."""
        if not self.sequence or not len(rows):
            return None
        places = {name: self.rows.row.names.index(name) for name in self.sequence}
        table = pa.table({name: in_total_order(rows.field(place)) for name, place in places.items()})
        order = pc.sort_indices(
            table, sort_keys=[(name, "ascending", "at_start") for name in self.sequence]
        ).to_numpy()
        ordered = table.take(pa.array(order))
        changes = np.zeros(len(order), bool)
        for name in self.sequence:
            column = ordered[name].combine_chunks()
            after, before = column[1:], column[:-1]
            same = pc.fill_null(pc.equal(after, before), False)
            both = pc.and_(after.is_null(), before.is_null())
            changes[1:] |= ~pc.or_(same, both).to_numpy(zero_copy_only=False)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.cumsum(changes)
        return list(ranks.tolist())


def _that_matter(column: pa.Array, events: Events) -> Events:
    """Return the events without nulls that change nothing. Rule of the format: a late null puts rows that
    were set in order.
    """
    return events.keep(events.valid(column) | (events.steps == Step.SET) | (events.steps == Step.OLDER))


def _steps(
    add: Callable[[Places | None, Places], Places], without: Callable[[Places, Places], Places]
) -> StepFunction:
    def step(code: Step, state: Places | None, places: Places | None) -> Places | None:
        if code is Step.SET:
            return places
        if code is Step.RETRACT:
            return state if state is None or places is None else without(state, places)
        if code is Step.OLDER:
            state, places = places, state
        return state if places is None else add(state, places)

    return step


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedPartialUpdate:
    """This is the function nested_partial_update: values of a key that are not null replace those of the
    row before.
    """

    rows: NestedRows
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled
        events = _that_matter(column, events)
        return fold_values(column, self.rows.type, events, self._step, np.diff(events.starts) > 0)

    def _step(self, code: Step, state: Any, value: Any) -> Any:
        if code is Step.SET:
            return value
        if code is Step.OLDER:
            state, value = value, state
        if value is None:
            return state
        rows = [row for row in [*(state or ()), *value] if row is not None]
        keys, codes = self.rows.keys(values_array(rows, self.rows.row))
        rows_of_key: JavaMap[list[Any]] = JavaMap()
        for row, key, code_of in zip(rows, keys, codes, strict=True):
            if key is None:
                continue
            merged = rows_of_key.compute(key, code_of, lambda: [None] * len(self.rows.row.fields))
            for i, part in enumerate(row):
                if part is not None:
                    merged[i] = part
        return [tuple(row) for row in rows_of_key.values()]
