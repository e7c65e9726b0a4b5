"""This module infers the types that fit most values of VARIANT columns, by the first rows of a file. It
costs Python for each.

Rules of the format's writers: whole numbers and decimals widen, values of other types do not mix; a field is
kept when enough rows have it, and all columns together have a budget of stored columns. Types that Java does
not read as typed columns (times, bytes) stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.format.variant.shred import SCALARS, UNTYPED
from lakecore.row.variant import VariantKeys, array_elements, object_fields
from lakecore.types.datatypes import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, RowType, TypeRoot

__all__ = ["Evidence", "Limits", "infer_types"]

_BIGINT = AtomicType(TypeRoot.BIGINT)
_STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
_BYTES = AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
_SHORT, _OBJECT, _ARRAY = 1, 2, 3
_NULL = 0
_WHOLE = range(3, 7)
_DECIMALS = range(8, 11)
_PRIMITIVES: dict[int, AtomicType] = {
    1: AtomicType(TypeRoot.BOOLEAN),
    2: AtomicType(TypeRoot.BOOLEAN),
    7: AtomicType(TypeRoot.DOUBLE),
    14: AtomicType(TypeRoot.FLOAT),
    15: _BYTES,
    16: _STRING,
}
_MOST_FIELDS = 1000
_MIDDLE_DIGITS, _MOST_DIGITS = 18, 38
_ANY_WHOLE = AtomicType(TypeRoot.DECIMAL, precision=19)


@dataclass(frozen=True, slots=True)
class Limits:
    """These are the limits of inference."""

    width: int
    """This is the number of columns that the fields and elements of a file may take."""
    depth: int
    """This is the depth of nesting that is considered."""
    share: float
    """At least this share of the rows must have a field."""


@dataclass(frozen=True, slots=True)
class _Object:
    """Fields by name, each with how often it was there."""

    fields: dict[str, tuple[_Seen, int]]


@dataclass(frozen=True, slots=True)
class _List:
    element: _Seen


_Seen: TypeAlias = "AtomicType | _Object | _List | None"
"""What values look like. None: all of them are null; VARIANT: they differ."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """It says what the values of one column look like, and how many there are."""

    kind: _Seen = None
    values: int = 0

    @classmethod
    def of(cls, rows: Iterable[tuple[bytes, bytes]], limits: Limits) -> Evidence:
        """Return the evidence of rows (value and metadata). What is no variant looks like nothing else."""
        shape: _Seen = None
        count = 0
        for value, metadata in rows:
            try:
                value_shape = _kind_of(value, VariantKeys.of(metadata), limits.depth)
            except (ValueError, IndexError, KeyError):
                value_shape = UNTYPED
            shape, count = _merge(shape, value_shape), count + 1
        return cls(shape, count)


def infer_types(columns: Iterable[Evidence], limits: Limits) -> list[DataType]:
    """Return the type of each column, in their order; VARIANT means that it is not shredded."""
    budget = _Budget(limits.width)
    return [budget.type_of(column.kind, math.ceil(column.values * limits.share)) for column in columns]


def _kind_of(value: bytes, keys: VariantKeys, depth: int) -> _Seen:
    basic, header = value[0] & 3, value[0] >> 2
    if basic == _SHORT:
        return _STRING
    if basic in (_OBJECT, _ARRAY) and depth <= 0:
        return UNTYPED
    if basic == _OBJECT:
        parts = object_fields(value, keys)
        return _Object({name: (_kind_of(part, keys, depth - 1), 1) for name, part in parts.items()})
    if basic == _ARRAY:
        element: _Seen = None
        for part in array_elements(value):
            element = _merge(element, _kind_of(part, keys, depth - 1))
        return _List(UNTYPED if element is None else element)
    if header == _NULL:
        return None
    if header in _WHOLE:
        return _whole(int.from_bytes(value[1:], "little", signed=True))
    if header in _DECIMALS:
        return _decimal(int.from_bytes(value[2:], "little", signed=True), value[1])
    return _PRIMITIVES.get(header, UNTYPED)


def _whole(number: int) -> AtomicType:
    digits = len(str(abs(number)))
    return _BIGINT if digits > _MIDDLE_DIGITS else AtomicType(TypeRoot.DECIMAL, precision=digits)


def _decimal(number: int, scale: int) -> AtomicType:
    return AtomicType(TypeRoot.DECIMAL, precision=max(len(str(abs(number))), scale), scale=scale)


def _merge(first: _Seen, second: _Seen) -> _Seen:
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, _Object) and isinstance(second, _Object):
        return _merged_objects(first, second)
    if isinstance(first, _List) and isinstance(second, _List):
        return _List(_merge(first.element, second.element))
    if isinstance(first, AtomicType) and isinstance(second, AtomicType):
        return _merged_scalars(first, second)
    return UNTYPED


def _merged_objects(first: _Object, second: _Object) -> _Object:
    """Return the fields of both objects. Rule of the format: no more fields than the limit, by the order of
    their names.
    """
    fields = dict(first.fields)
    for name, (shape, count) in second.fields.items():
        before, times = fields.get(name, (None, 0))
        fields[name] = _merge(before, shape), times + count
    if len(fields) > _MOST_FIELDS:
        fields = {name: fields[name] for name in sorted(fields, key=_order)[:_MOST_FIELDS]}
    return _Object(fields)


def _merged_scalars(first: AtomicType, second: AtomicType) -> AtomicType:
    if first == second:
        return first
    roots = {first.root, second.root}
    if roots == {TypeRoot.DECIMAL, TypeRoot.BIGINT}:
        other = first if first.root is TypeRoot.DECIMAL else second
        if not other.scale and other.precision <= _MIDDLE_DIGITS:
            return _BIGINT
        return _wider(other, _ANY_WHOLE)
    return _wider(first, second) if roots == {TypeRoot.DECIMAL} else UNTYPED


def _wider(first: AtomicType, second: AtomicType) -> AtomicType:
    scale = max(first.scale, second.scale)
    digits = max(first.precision - first.scale, second.precision - second.scale) + scale
    return UNTYPED if digits > _MOST_DIGITS else AtomicType(TypeRoot.DECIMAL, precision=digits, scale=scale)


def _order(name: str) -> bytes:
    """Return the sort key of a name: names are ordered by their UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


class _Budget:
    """Columns that may still be made. One for the values that do not fit, one for those that do."""

    def __init__(self, columns: int) -> None:
        self._remaining = columns

    def type_of(self, values: _Seen, least: int) -> DataType:
        """Return the type of what was seen. `least` is the number of times that a field must have been
        there.
        """
        self._remaining -= 1
        if self._remaining <= 0 or values is None:
            return UNTYPED
        if isinstance(values, _Object):
            return self._row(values, least)
        if isinstance(values, _List):
            return ArrayType(self.type_of(values.element, least))
        if values != UNTYPED:
            self._remaining -= 1
        return _settle(values)

    def _row(self, values: _Object, least: int) -> DataType:
        fields: list[DataField] = []
        for name in sorted(values.fields, key=_order):
            kind, count = values.fields[name]
            if count >= least and self._remaining > 0:
                fields.append(DataField(len(fields), name, self.type_of(kind, least)))
        return RowType(tuple(fields)) if fields else UNTYPED


def _settle(data_type: AtomicType) -> AtomicType:
    """Return the final type: numbers get room for values that follow."""
    if data_type.root is TypeRoot.DECIMAL:
        if not data_type.scale and data_type.precision <= _MIDDLE_DIGITS:
            return _BIGINT
        digits = _MIDDLE_DIGITS if data_type.precision <= _MIDDLE_DIGITS else _MOST_DIGITS
        return AtomicType(TypeRoot.DECIMAL, precision=digits, scale=data_type.scale)
    return data_type if data_type.root in SCALARS else UNTYPED
