"""This module has arrays, maps and texts of many keys while their rows are applied (collect, merge_map,
listagg and others).

A state holds for each key what its rows made so far: places of elements in the window, or a text. Two
elements are the same where their hashes are (`array_hash`); byte arrays never are (rule of the format). In
which order a Java hash map lists its entries is not worked out: such results are compared in any order.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import pyarrow as pa

from lakecore.verify.digest.array_hash import hash_array
from lakecore.verify.digest.digest import column_constant
from lakecore.verify.recompute.column_states import ColumnState, NotRecomputableError, Places, dense_ranks
from lakecore.verify.rules.merge_rules import ColumnRule

__all__ = ["LIST_FUNCTIONS", "list_state"]

V = TypeVar("V")
Elements = tuple[int, ...]
_NULL = -1


class _State(Generic[V]):
    """What each key has: a value, or None for null. Cost: one step of Python a row."""

    def __init__(self, count: int, rule: ColumnRule) -> None:
        self.rule = rule
        self.values_of_keys: list[V | None] = [None] * count

    def of_row(self, row: int) -> V | None:
        """Return the value of one row."""
        raise NotImplementedError

    def joined(self, older: V | None, newer: V | None) -> V | None:
        """Return the value of both."""
        raise NotImplementedError

    def without(self, value: V, removed: V) -> V:
        """Return the value after some of it is taken back."""
        raise NotRecomputableError

    def set(self, keys: Places, rows: Places) -> None:
        self._apply(keys, rows, lambda _, new: new)

    def clear(self, keys: Places) -> None:
        for key in keys.tolist():
            self.values_of_keys[key] = None

    def add(self, keys: Places, rows: Places) -> None:
        self._apply(keys, rows, self.joined)

    def add_late(self, keys: Places, rows: Places) -> None:
        self._apply(keys, rows, lambda value, late: self.joined(late, value))

    def retract(self, keys: Places, rows: Places) -> None:
        def step(value: V | None, removed: V | None) -> V | None:
            return value if value is None or removed is None else self.without(value, removed)

        self._apply(keys, rows, step)

    def _apply(self, keys: Places, rows: Places, step: Callable[[V | None, V | None], V | None]) -> None:
        values = self.values_of_keys
        for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
            values[key] = step(values[key], self.of_row(row))


class _Lists(_State[Elements]):
    """The state of arrays, and of maps as arrays of entries, which is the places of elements."""

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(count, rule)
        self.type = column.type
        self._bounds = column.offsets.to_pylist()
        self._valid = column.is_valid().to_pylist()
        self.elements = column.keys if pa.types.is_map(column.type) else column.values
        self.items = column.items if pa.types.is_map(column.type) else None
        self.same = _identities(self.elements)

    def of_row(self, row: int) -> Elements | None:
        return tuple(range(self._bounds[row], self._bounds[row + 1])) if self._valid[row] else None

    def values(self) -> pa.Array:
        offsets: list[int | None] = []
        places: list[int] = []
        for value in self.values_of_keys:
            offsets.append(None if value is None else len(places))
            places += value or ()
        ends, chosen = pa.array([*offsets, len(places)], pa.int32()), pa.array(places, pa.int64())
        elements = self.elements.take(chosen)
        if self.items is None:
            return pa.ListArray.from_arrays(ends, elements, type=self.type)
        return pa.MapArray.from_arrays(ends, elements, self.items.take(chosen), type=self.type)


class _Collect(_Lists):
    """The state of `collect`, which joins arrays; `distinct` keeps the first of equal elements."""

    def joined(self, older: Elements | None, newer: Elements | None) -> Elements | None:
        if older is None and newer is None:
            return None
        if not self.rule.distinct:
            return (older or ()) + (newer or ())
        if pa.types.is_nested(self.elements.type):
            return (older or ()) + self._new(newer or (), {self.same[place] for place in older or ()})
        return self._new((older or ()) + (newer or ()), set())

    def add_late(self, keys: Places, rows: Places) -> None:
        """Add late arrays: they come first only where retractions are ignored (rule of the format)."""
        if self.rule.ignore_retract:
            super().add_late(keys, rows)
        else:
            self.add(keys, rows)

    def without(self, value: Elements, removed: Elements) -> Elements:
        """Take out what equals removed elements. A retraction that began a key takes itself back, but for its
        byte arrays, which equal not even themselves.
        """
        alone = _is_bytes(self.elements.type)
        counts = Counter(self.same[place] for place in removed if not alone or self.same[place] == _NULL)
        staying = []
        for place in value:
            if counts[self.same[place]]:
                counts[self.same[place]] -= 1
            else:
                staying.append(place)
        return tuple(staying)

    def _new(self, places: Elements, codes: set[int]) -> Elements:
        firsts: dict[int, int] = {}
        for place in places:
            firsts.setdefault(self.same[place], place)
        return tuple(place for same, place in firsts.items() if same not in codes)


class _MergeMap(_Lists):
    """The state of `merge_map`, which has all entries, the newest of each key."""

    def joined(self, older: Elements | None, newer: Elements | None) -> Elements | None:
        if older is None or newer is None:
            return newer if older is None else older
        latest = {self.same[place]: place for place in older + newer}
        return tuple(latest.values())

    def without(self, value: Elements, removed: Elements) -> Elements:
        if not removed:
            return value
        keys = {self.same[place] for place in removed}
        latest = {self.same[place]: place for place in value}
        return tuple(place for same, place in latest.items() if same not in keys)


class _TimedMap(_Lists):
    """The state of `merge_map_with_keytime`, which has, for each key, the row of the latest time. A null row
    removes its key; one without a time is ignored.
    """

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(column, count, rule)
        names = [part.name for part in column.type.item_type]
        texts = column.items.field(names.index(rule.time or names[-1])).to_pylist()
        self._there = column.items.is_valid().to_pylist()
        self._times = [None if text is None else text.encode("utf-16-be") for text in texts]

    def joined(self, older: Elements | None, newer: Elements | None) -> Elements | None:
        if older is None or newer is None:
            return newer if older is None else older
        by_text = {self.same[place]: place for place in older}
        for place in newer:
            same, time = self.same[place], self._times[place]
            if not self._there[place]:
                by_text.pop(same, None)
            elif time is not None and self._is_later(time, by_text.get(same)):
                by_text[same] = place
        return tuple(by_text.values())

    def _is_later(self, time: bytes, than: int | None) -> bool:
        before = None if than is None or not self._there[than] else self._times[than]
        return before is None or time > before


class _NestedRows(_Lists):
    """Rows of arrays one after another, up to a number of them; a retraction takes out all equal rows."""

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(column, count, rule)
        self._there = self.elements.is_valid().to_pylist()

    def joined(self, older: Elements | None, newer: Elements | None) -> Elements | None:
        if newer is None:
            return older
        if older is not None and self.rule.limit is not None and len(older) >= self.rule.limit:
            return older
        room = None if self.rule.limit is None else max(self.rule.limit - len(older or ()), 0)
        return self._present(older or ()) + self._present(newer)[:room]

    def without(self, value: Elements, removed: Elements) -> Elements:
        rows = {self.same[place] for place in self._present(removed)}
        return tuple(place for place in self._present(value) if self.same[place] not in rows)

    def _present(self, places: Elements) -> Elements:
        return tuple(place for place in places if self._there[place])


class _KeyedRows(_Lists):
    """The state of nested rows with keys, which has the last row of each key, or that with the highest
    sequence.
    """

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(column, count, rule)
        self._key_of = _nested_keys(self.elements, rule)
        self._ranks = _ranks(self.elements, rule)
        self._late = False

    def add_late(self, keys: Places, rows: Places) -> None:
        self._late = True
        super().add_late(keys, rows)
        self._late = False

    def joined(self, older: Elements | None, newer: Elements | None) -> Elements | None:
        if newer is None:
            return older
        by_key: dict[Elements, int] = {}
        self._put(by_key, older or (), None)
        self._put(by_key, newer, self.rule.limit)
        return tuple(by_key.values())

    def without(self, value: Elements, removed: Elements) -> Elements:
        keys = {self._key_of[place] for place in removed}
        latest = {key: place for place in value if (key := self._key_of[place]) is not None}
        return tuple(place for key, place in latest.items() if key not in keys)

    def _put(self, by_key: dict[Elements, int], places: Elements, limit: int | None) -> None:
        for place in places:
            key = self._key_of[place]
            if key is None:
                continue
            before = by_key.get(key)
            if before is None and limit is not None and len(by_key) >= limit:
                if self._late:
                    raise NotRecomputableError  # the order of a hash map decides which rows are left out
            elif before is None or self._ranks is None or self._ranks[place] >= self._ranks[before]:
                by_key[key] = place


class _JoinedRows(_State[tuple[Elements | None, ...]]):
    """Rows of arrays by key, the last value of each field that is not null: places of fields."""

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(count, rule)
        self._lists = _Lists(column, 0, rule)
        self._fields = self._lists.elements.flatten()
        self._set = [field.is_valid().to_pylist() for field in self._fields]
        self._there = self._lists.elements.is_valid().to_pylist()
        self._key_of = _nested_keys(self._lists.elements, rule)

    def of_row(self, row: int) -> tuple[Elements | None, ...] | None:
        places = self._lists.of_row(row)
        if places is None:
            return None
        width = len(self._fields)
        return tuple((place,) * width if self._there[place] else None for place in places)

    def joined(
        self, older: tuple[Elements | None, ...] | None, newer: tuple[Elements | None, ...] | None
    ) -> tuple[Elements | None, ...] | None:
        if newer is None:
            return older
        by_key: dict[Elements, Elements] = {}
        for row in (*(older or ()), *newer):
            key = None if row is None else self._key(row)
            if row is not None and key is not None:
                by_key[key] = self._update(by_key.get(key, row), row)
        return tuple(by_key.values())

    def values(self) -> pa.Array:
        offsets: list[int | None] = []
        rows: list[Elements | None] = []
        for value in self.values_of_keys:
            offsets.append(None if value is None else len(rows))
            rows += value or ()
        data_type = self._lists.elements.type
        fields = [
            field.take(pa.array([None if row is None else row[i] for row in rows], pa.int64()))
            for i, field in enumerate(self._fields)
        ]
        missing = pa.array([row is None for row in rows], pa.bool_())
        structs = pa.StructArray.from_arrays(fields, fields=list(data_type), mask=missing)
        return pa.ListArray.from_arrays(
            pa.array([*offsets, len(rows)], pa.int32()), structs, type=self._lists.type
        )

    def _key(self, row: Elements) -> Elements | None:
        """Return the key of a joined row: its key fields are those of any of its rows, so of the row in its
        first key field.
        """
        names = [part.name for part in self._lists.elements.type]
        return self._key_of[row[names.index(self.rule.key[0])]]

    def _update(self, before: Elements, row: Elements) -> Elements:
        return tuple(
            new if self._set[i][new] else old
            for i, (old, new) in enumerate(zip(before, row, strict=True))
        )  # fmt: skip


class _ListAgg(_State[str]):
    """Texts joined by a delimiter; blank ones are left out."""

    def __init__(self, column: pa.Array, count: int, rule: ColumnRule) -> None:
        super().__init__(count, rule)
        self._type = column.type
        self._texts = column.to_pylist()

    def of_row(self, row: int) -> str | None:
        text: str | None = self._texts[row]
        return text

    def joined(self, older: str | None, newer: str | None) -> str | None:
        if newer is None or _is_blank(newer):
            return older
        if older is None or _is_blank(older):
            return newer
        if not self.rule.distinct:
            return older + self.rule.delimiter + newer
        cut = self.rule.delimiter or " "
        texts = set(older.split(cut))
        added = [
            part for part in dict.fromkeys(newer.split(cut)) if part not in texts and not _is_blank(part)
        ]
        return self.rule.delimiter.join([older, *added])

    def values(self) -> pa.Array:
        return pa.array(self.values_of_keys, self._type)


def _is_blank(text: str) -> bool:
    """Return whether the text is only white space as Java defines it: separators that may break a line, and
    ten control characters.
    """
    return all(_is_white(char) for char in text)


def _is_white(char: str) -> bool:
    if char in "\u00a0\u2007\u202f":
        return False
    return char in "\t\n\v\f\r\x1c\x1d\x1e\x1f" or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def _identities(values: pa.Array) -> list[int]:
    """Return one number per value, the same for equal ones; for byte arrays it is the place."""
    if _is_bytes(values.type):
        return [_NULL if null else place for place, null in enumerate(values.is_null().to_pylist())]
    return list(hash_array(values, column_constant(0)).tolist())


def _is_bytes(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def _nested_keys(rows: pa.Array, rule: ColumnRule) -> list[Elements | None]:
    """Return the key of each nested row; None for one that is left out."""
    columns = _parts(rows, rule.key)
    words = zip(*(hash_array(column, column_constant(0)).tolist() for column in columns), strict=True)
    there = rows.is_valid().to_pylist()
    whole = zip(*(column.is_valid().to_pylist() for column in columns), strict=True)
    keys: list[Elements | None] = []
    for key, row, parts in zip(words, there, whole, strict=True):
        if row and not all(parts) and rule.null_keys == "error":
            raise NotRecomputableError
        keys.append(key if row and (all(parts) or rule.null_keys == "merge") else None)
    return keys


def _ranks(rows: pa.Array, rule: ColumnRule) -> list[int] | None:
    if not rule.sequence or not len(rows):
        return None
    return list(dense_ranks(_parts(rows, rule.sequence)).tolist())


def _parts(rows: pa.Array, names: Iterable[str]) -> list[pa.Array]:
    """Return fields of rows; they are null where the row is."""
    places = {part.name: place for place, part in enumerate(rows.type)}
    fields = rows.flatten()
    return [fields[places[name]] for name in names]


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _nested_state(column: pa.Array, count: int, rule: ColumnRule) -> ColumnState:
    return (_KeyedRows if rule.key else _NestedRows)(column, count, rule)


_STATES: dict[
    str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, int, ColumnRule], ColumnState]]
] = {
    "collect": (pa.types.is_list, _Collect),
    "listagg": (_is_text, _ListAgg),
    "merge_map": (pa.types.is_map, _MergeMap),
    "merge_map_with_keytime": (pa.types.is_map, _TimedMap),
    "nested_update": (pa.types.is_list, _nested_state),
    "nested_partial_update": (pa.types.is_list, _JoinedRows),
}
LIST_FUNCTIONS = frozenset(_STATES)


def list_state(column: pa.Array, count: int, rule: ColumnRule) -> ColumnState:
    """Return the state of a function of LIST_FUNCTIONS. Raises NotRecomputableError if the column is no
    array.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    fits, make = _STATES[rule.function]
    if not fits(column.type):
        raise NotRecomputableError
    return make(column, count, rule)
