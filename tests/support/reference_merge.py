"""Merge engines one row and one value at a time, in plain Python: written from the rules of the format.

Shares no code with lakecore's merge. Values are Python values; an array of a hash order is a sorted list here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["ReferenceMerge", "RefusedError", "compare"]

Row = dict[str, Any]
KIND, SEQUENCE = "_VALUE_KIND", "_SEQUENCE_NUMBER"
INSERT, DELETE = 0, 3
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


class RefusedError(Exception):
    """The rows cannot be merged."""


def compare(a: Any, b: Any) -> int:
    """Nulls first; NaN last; -0.0 below 0.0."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, float):
        return (_rank(a) > _rank(b)) - (_rank(a) < _rank(b))
    return (a > b) - (a < b)


def _rank(x: float) -> tuple[bool, float, float]:
    return (x != x, 0.0 if x != x else x, math.copysign(1, x))


class Field:
    """The state of one column. `agg(acc, value)` and `retract(acc, value)` give the new value."""

    def __init__(self, function: str, kind: str, option: Callable[[str], str | None]) -> None:
        self.kind = kind
        self.option = option
        self.ignore_retract = option("ignore-retract") == "true"
        self.name = function.replace("first_not_null", "first_non_null").replace("-", "_")
        self.first = False

    def agg(self, acc: Any, value: Any) -> Any:
        return getattr(self, self.name)(acc, value)

    def older(self, acc: Any, value: Any) -> Any:
        """The same with both exchanged; arrays of `collect` are appended all the same."""
        if self.name == "collect" and not self.ignore_retract:
            return self.collect(acc, value)
        return self.agg(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        if self.ignore_retract:
            return acc
        function = getattr(self, "retract_" + self.name, None)
        if function is None:
            raise RefusedError(self.name)
        return function(acc, value)

    def primary_key(self, acc: Any, value: Any) -> Any:
        return value

    last_value = retract_primary_key = primary_key

    def retract_last_value(self, acc: Any, value: Any) -> Any:
        return None

    def last_non_null_value(self, acc: Any, value: Any) -> Any:
        return acc if value is None else value

    def retract_last_non_null_value(self, acc: Any, value: Any) -> Any:
        return acc if value is None else None

    def first_value(self, acc: Any, value: Any) -> Any:
        known, self.first = self.first, True
        return acc if known else value

    def first_non_null_value(self, acc: Any, value: Any) -> Any:
        if self.first or value is None:
            return acc
        self.first = True
        return value

    def max(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else value if compare(acc, value) < 0 else acc

    def min(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else value if compare(acc, value) > 0 else acc

    def bool_and(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else acc and value

    def bool_or(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else acc or value

    def _fit(self, value: Any, *, sums: bool = False) -> Any:
        if self.kind.startswith("DECIMAL"):
            precision, scale = map(int, self.kind[8:-1].split(","))
            if sums and precision <= 18:
                return value if -(1 << 63) <= value.scaleb(scale, _EXACT) < 1 << 63 else None
            value = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
            return value if len(value.as_tuple().digits) <= precision else None
        return float(np.float32(value)) if self.kind == "FLOAT" else value

    def finished(self, acc: Any) -> Any:
        """Integers are exact until the end, and so are sums of decimals of up to 18 digits."""
        if isinstance(acc, Decimal) and self._fit(acc) is None:
            raise RefusedError("overflow")
        if (
            self.kind in _BITS
            and acc is not None
            and not -(1 << _BITS[self.kind]) <= acc < 1 << _BITS[self.kind]
        ):
            raise RefusedError("overflow")
        return acc

    def sum(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else self._fit(_plus(acc, value), sums=True)

    def retract_sum(self, acc: Any, value: Any) -> Any:
        if None in (acc, value):
            return acc if value is None else self._fit(_negative(value), sums=True)
        return self._fit(_plus(acc, _negative(value)), sums=True)

    def product(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else self._fit(_times(acc, value))

    def retract_product(self, acc: Any, value: Any) -> Any:
        if None in (acc, value):
            return acc
        if isinstance(value, float):
            return _divided(acc, value)
        if value == 0:
            raise RefusedError("zero")
        if isinstance(value, Decimal):
            found = _EXACT.divide(acc, value)
            if Fraction(found) * Fraction(value) != Fraction(acc):
                raise RefusedError("endless")
            return self._fit(found)
        size = abs(acc) // abs(value)
        return self._fit(size if (acc < 0) == (value < 0) else -size)

    def listagg(self, acc: Any, value: Any) -> Any:
        if value is None or not value.strip():
            return acc
        if acc is None or not acc.strip():
            return value
        comma = self.option("list-agg-delimiter") or ","
        if self.option("distinct") != "true":
            return acc + comma + value
        seen = acc.split(comma)
        for token in value.split(comma):
            if token.strip() and token not in seen:
                seen.append(token)
                acc += comma + token
        return acc

    def collect(self, acc: Any, value: Any) -> Any:
        if self.option("distinct") == "true":
            if acc is None and value is None:
                return None
            if "element': {" in self.kind:
                return list(
                    functools.reduce(lambda got, x: got if x in got else [*got, x], value or [], acc or [])
                )
            found = {repr(x): x for x in [*(acc or []), *(value or [])]}
            return [found[key] for key in sorted(found)]
        return _other(acc, value) if None in (acc, value) else acc + value

    def retract_collect(self, acc: Any, value: Any) -> Any:
        if not acc or not value:
            return acc
        removed_values, left = list(value), []
        for x in acc:
            if x in removed_values:
                removed_values.remove(x)
            else:
                left.append(x)
        return left

    def merge_map(self, acc: Any, value: Any) -> Any:
        return _other(acc, value) if None in (acc, value) else list((dict(acc) | dict(value)).items())

    def retract_merge_map(self, acc: Any, value: Any) -> Any:
        if not acc or not value:
            return acc
        return [(k, v) for k, v in acc if k not in dict(value)]

    def merge_map_with_keytime(self, acc: Any, value: Any) -> Any:
        if None in (acc, value):
            return _other(acc, value)
        found = dict(acc)
        time = self.option("ts-field") or "t"
        for key, new in value:
            old = found.get(key)
            if new is None:
                found.pop(key, None)
            elif new[time] is not None and (old is None or old[time] is None or new[time] > old[time]):
                found[key] = new
        return list(found.items())

    def nested_update(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        names = [name for name in (self.option("nested-key") or "").split(",") if name]
        limit = int(self.option("count-limit") or 1 << 31)
        if not names:
            if acc is None:
                return [x for x in value if x is not None][:limit]
            if len(acc) >= limit:
                return acc
            return [x for x in acc if x is not None] + [x for x in value if x is not None][: limit - len(acc)]
        found: dict[Any, Any] = {}
        order = [name for name in (self.option("nested-sequence-field") or "").split(",") if name]
        for at, x in [*((0, x) for x in acc or ()), *((1, x) for x in value)]:
            if x is None:
                continue
            key = tuple(x[name] for name in names)
            if None in key and self.option("nested-key-null-strategy") == "ignore":
                continue
            if key in found:
                older = _compare_rows(x, found[key], order) < 0
                found[key] = found[key] if older else x
            elif not at or len(found) < limit:
                found[key] = x
        return sorted(found.values(), key=repr)

    def retract_nested_update(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        names = [name for name in (self.option("nested-key") or "").split(",") if name]
        if not names:
            return [x for x in acc if x is not None and x not in value]
        ignores = self.option("nested-key-null-strategy") == "ignore"

        def keyed(rows: Any) -> dict[Any, Any]:
            keys = ((tuple(x[name] for name in names), x) for x in rows if x is not None)
            return {key: x for key, x in keys if not (ignores and None in key)}

        removed_keys = keyed(value)
        return sorted((x for key, x in keyed(acc).items() if key not in removed_keys), key=repr)

    def nested_partial_update(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        names = (self.option("nested-key") or "").split(",")
        found: dict[Any, Row] = {}
        for x in [x for x in [*(acc or ()), *value] if x is not None]:
            row = found.setdefault(tuple(x[name] for name in names), dict.fromkeys(x))
            row.update({name: part for name, part in x.items() if part is not None})
        return sorted(found.values(), key=repr)


def _compare_rows(a: Row, b: Row, names: Sequence[str]) -> int:
    return next((found for name in names if (found := compare(a[name], b[name]))), 0)


def _other(acc: Any, value: Any) -> Any:
    return value if acc is None else acc


def _times(acc: Any, value: Any) -> Any:
    return _EXACT.multiply(acc, value) if isinstance(acc, Decimal) else acc * value


def _plus(acc: Any, value: Any) -> Any:
    return _EXACT.add(acc, value) if isinstance(acc, Decimal) else acc + value


def _negative(value: Any) -> Any:
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _divided(acc: float, value: float) -> float:
    if value == 0:
        zero = acc == 0 or acc != acc
        return math.nan if zero else math.copysign(math.inf, acc) * math.copysign(1, value)
    return acc / value


class ReferenceMerge:
    """Folds the rows of one key, given in merge order. `types`: SQL types of the value columns."""

    def __init__(self, types: Mapping[str, str], keys: Sequence[str], options: Mapping[str, str]) -> None:
        self.types = types
        self.keys = keys
        self.options = options
        self.engine = options["merge-engine"]
        self.names = [name for name in types if name not in keys]
        self.groups = {
            tuple(key[len("fields.") : -len(".sequence-group")].split(",")): value.split(",")
            for key, value in options.items()
            if key.endswith(".sequence-group")
        }

    def fold(self, rows: Sequence[Row]) -> Row | None:
        """The row of the key; None when it has none. A single row stays as it is."""
        if len(rows) == 1:
            return rows[0]
        return getattr(self, self.engine.replace("-", "_"))(rows)

    def _on(self, key: str) -> bool:
        return self.options.get(key) == "true"

    def _fields(self) -> dict[str, Field | None]:
        sequence = self.options.get("sequence.field", "").split(",")
        common = self.options.get("fields.default-aggregate-function")
        found: dict[str, Field | None] = {}
        for name in self.names:
            function = self.options.get(f"fields.{name}.aggregate-function", common)
            if self.engine == "aggregation":
                function = "last_value" if name in sequence else function or "last_non_null_value"
            option = functools.partial(lambda name, key: self.options.get(f"fields.{name}.{key}"), name)
            found[name] = None if function is None else Field(function, self.types[name], option)
        return found

    def first_row(self, rows: Sequence[Row]) -> Row | None:
        kept = [row for row in rows if row[KIND] in (0, 2)]
        if len(kept) < len(rows) and not self._on("ignore-delete"):
            raise RefusedError("first-row")
        return kept[0] if kept else None

    def aggregation(self, rows: Sequence[Row]) -> Row:
        fields = self._fields()
        out: Row = dict.fromkeys(self.names)
        deleted = False
        for row in rows:
            deleted = self._on("aggregation.remove-record-on-delete") and row[KIND] == DELETE
            for name in self.names:
                field = fields[name]
                assert field is not None
                if deleted:
                    out[name] = row[name]
                elif row[KIND] in (1, 3):
                    out[name] = field.retract(out[name], row[name])
                else:
                    out[name] = field.agg(out[name], row[name])
        out = {name: field.finished(out[name]) for name, field in fields.items() if field is not None}
        return rows[-1] | out | {KIND: DELETE if deleted else INSERT}

    def partial_update(self, rows: Sequence[Row]) -> Row:
        fields = self._fields()
        out: Row = dict.fromkeys(self.names)
        filled = added = deleted = False
        last = rows[-1]
        counted: Row | None = None
        for row in rows:
            deleted = False
            if row[KIND] in (0, 2):
                self._update(out, row, fields)
                added = filled = True
                counted = row
                continue
            if not filled:
                out.update({name: row[name] for name in self.names})
                filled = True
            if self._on("ignore-delete"):
                continue
            counted = row
            if self.groups:
                deleted = self._retract(out, row, fields)
            elif not self._on("partial-update.remove-record-on-delete"):
                raise RefusedError("partial-update")
            elif row[KIND] == DELETE:
                deleted = True
            if deleted:
                out.update({name: row[name] for name in self.names})
        out = {name: field.finished(out[name]) if (field := fields[name]) else out[name] for name in out}
        number = counted[SEQUENCE] if counted is not None else 0
        return last | out | {KIND: DELETE if deleted or not added else INSERT, SEQUENCE: number}

    def _update(self, out: Row, row: Row, fields: Mapping[str, Field | None]) -> None:
        grouped: set[str] = set()
        for sequence, members in self.groups.items():
            grouped |= {*sequence, *members}
            if all(row[name] is None for name in sequence):
                continue
            wins = self._compare(row, out, sequence) >= 0
            for name in members:
                field = fields[name]
                if field is not None:
                    out[name] = (field.agg if wins else field.older)(out[name], row[name])
                elif wins:
                    out[name] = row[name]
            if wins:
                out.update({name: row[name] for name in sequence})
        for name in self.names:
            if name not in grouped and row[name] is not None:
                out[name] = row[name]

    def _retract(self, out: Row, row: Row, fields: Mapping[str, Field | None]) -> bool:
        """Whether the row deletes the key."""
        removing = self.options.get("partial-update.remove-record-on-sequence-group", "").split(",")
        counting = [g for g in self.groups if any(row[name] is not None for name in g)]
        wins = {g: self._compare(row, out, g) >= 0 for g in counting}
        if row[KIND] == DELETE and any(wins[g] and set(g) & set(removing) for g in counting):
            return True
        for group in counting:
            for name in self.groups[group]:
                field = fields[name]
                if field is not None:
                    out[name] = field.retract(out[name], row[name])
                elif wins[group]:
                    out[name] = None
            if wins[group]:
                out.update({name: row[name] for name in group})
        return False

    def _compare(self, row: Row, out: Row, names: Sequence[str]) -> int:
        return _compare_rows(row, out, names)
