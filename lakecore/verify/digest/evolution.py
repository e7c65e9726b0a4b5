"""This module converts old types to the table's types, for comparing values: only changes that keep every
value. It does no IO.

It does not use the reader's rules. Where a change of type can alter a value (text to number, fewer
digits) there is no rule here, and the proof leaves the column out and says so.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.format.canonical import same_lists
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType, TypeRoot

__all__ = ["keeps_values", "widen"]

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.TIME)


def keeps_values(old: DataType, new: DataType) -> bool:
    """Return whether every value of `old` is, unchanged, a value of `new`. A new nested field is null
    everywhere.
    """
    match old, new:
        case RowType(), RowType():
            before = {field.id: field.type for field in old.fields}
            return all(keeps_values(before[f.id], f.type) for f in new.fields if f.id in before)
        case ArrayType(), ArrayType():
            return keeps_values(old.element, new.element)
        case MultisetType(), MultisetType():
            return keeps_values(old.element, new.element)
        case MapType(), MapType():
            return keeps_values(old.key, new.key) and keeps_values(old.value, new.value)
        case AtomicType(), AtomicType():
            return _atomic_keeps(old, new)
    return _bare(old) == _bare(new)


def widen(array: pa.Array, old: DataType, new: DataType) -> pa.Array:
    """Convert a column of `old` so that its hashes are those of the same values as `new`; `keeps_values` must
    hold.

    It is free for flat types other than decimals: hashes do not depend on the width of a value.
    """
    if _bare(old) == _bare(new):
        return array
    match old, new:
        case RowType(), RowType():
            return _widen_row(array, old, new)
        case ArrayType(), ArrayType():
            values = widen(array.values, old.element, new.element)
            return same_lists(array, pa.list_(values.type), values)
        case MapType(), MapType():
            return _widen_map(array, (old.key, old.value), (new.key, new.value))
        case MultisetType(), MultisetType():
            count = AtomicType(TypeRoot.INT)
            return _widen_map(array, (old.element, count), (new.element, count))
    if isinstance(new, AtomicType) and new.root is TypeRoot.DECIMAL:
        return array.cast(pa.decimal128(38, new.scale))
    return array


@dataclass(frozen=True, slots=True)
class _Digits:
    """How many decimal digits a number has before and after the point."""

    before: int
    after: int


def _digits(data_type: AtomicType) -> _Digits | None:
    if data_type.root is TypeRoot.DECIMAL:
        return _Digits(data_type.precision - data_type.scale, data_type.scale)
    whole = _INTEGER_DIGITS.get(data_type.root)
    return None if whole is None else _Digits(whole, 0)


def _atomic_keeps(old: AtomicType, new: AtomicType) -> bool:
    if _bare(old) == _bare(new):
        return True
    few, many = _digits(old), _digits(new)
    if few is not None and many is not None:
        keeps = few.before <= many.before and few.after <= many.after
        return keeps and (new.root is TypeRoot.DECIMAL or old.root is not TypeRoot.DECIMAL)
    if old.root is TypeRoot.FLOAT:
        return new.root is TypeRoot.DOUBLE
    if old.root in _TIMES:
        return new.root is old.root and old.precision <= new.precision
    longer = old.length <= new.length
    text = old.root in _TEXT and new.root is TypeRoot.VARCHAR
    return longer and (text or (old.root in _BYTES and new.root is TypeRoot.VARBINARY))


def _bare(data_type: DataType) -> pa.DataType | tuple[object, ...]:
    """Return what matters of a type for its values: not whether it may be null."""
    if isinstance(data_type, AtomicType):
        return data_type.root, data_type.length, data_type.precision, data_type.scale
    if isinstance(data_type, RowType):
        return tuple((field.id, _bare(field.type)) for field in data_type.fields)
    return arrow_type(data_type) if not _has_row(data_type) else tuple(map(_bare, _parts(data_type)))


def _parts(data_type: DataType) -> tuple[DataType, ...]:
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            return (element,)
        case MapType(key=key, value=value):
            return key, value
    return ()


def _has_row(data_type: DataType) -> bool:
    return isinstance(data_type, RowType) or any(map(_has_row, _parts(data_type)))


def _widen_row(array: pa.Array, old: RowType, new: RowType) -> pa.Array:
    places = {field.id: place for place, field in enumerate(old.fields)}
    children = []
    for field in new.fields:
        place = places.get(field.id)
        if place is None:
            children.append(pa.nulls(len(array)))
        else:
            children.append(widen(array.field(place), old.fields[place].type, field.type))
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, names=list(new.names), mask=mask)


def _widen_map(array: pa.Array, old: tuple[DataType, DataType], new: tuple[DataType, DataType]) -> pa.Array:
    keys, items = widen(array.keys, old[0], new[0]), widen(array.items, old[1], new[1])
    target = pa.map_(keys.type, items.type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return same_lists(array, target, entries)
