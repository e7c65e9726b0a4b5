"""This module converts data types to pyarrow types and back. Field ids are carried as field metadata
`PARQUET:field_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.types.datatypes import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    with_nullable,
)

__all__ = [
    "FIELD_ID_KEY",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "arrow_values",
    "row_type_from_arrow",
    "type_from_arrow",
]

FIELD_ID_KEY = b"PARQUET:field_id"

_NESTED_BASE = 536870911
_NESTED_STEP = 1024
_MILLIS_DIGITS, _MICROS_DIGITS = 3, 6
_TOO_FAR = (
    "times with more than six digits lie between 1677-09-21 and 2262-04-11; use TIMESTAMP(6) for others"
)
_COUNT_TYPE = AtomicType(TypeRoot.INT, nullable=False)
_PLAIN: dict[TypeRoot, pa.DataType] = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BLOB: pa.binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of values of `data_type`, without field ids (nested fields carry nullability)."""
    return _convert(data_type, None, 1)


def arrow_schema(row_type: RowType) -> pa.Schema:
    """Return the schema of a batch of such rows; every field, also a nested one, carries its id."""
    return pa.schema([arrow_field(field) for field in row_type.fields])


def arrow_field(field: DataField) -> pa.Field:
    """Return the Arrow field of one column with nullability and ids (its own, and those derived for array,
    map and vector parts).
    """
    return _field(field.name, _convert(field.type, field.id, 1), field.type.nullable, field.id)


def arrow_values(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return internal values of an atomic type (see `row.values`) as an array of an Arrow type that holds
    them.
    """
    if pa.types.is_timestamp(data_type):
        factor = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}[data_type.unit]
        numbers = [None if v is None else v // factor for v in values]
        try:
            return pa.array(numbers, pa.int64()).view(data_type)
        except OverflowError as err:
            raise OverflowError(_TOO_FAR if data_type.unit == "ns" else str(err)) from err
    if data_type in (pa.date32(), pa.time32("ms")):
        return pa.array(values, pa.int32()).view(data_type)
    return pa.array(values, data_type)


def row_type_from_arrow(schema: pa.Schema) -> RowType:
    """Return the row type of a schema that was made elsewhere. Fields without an id are numbered in order.

    Raises InvalidInputError naming the column when the format has no such type.
    """
    ids = count()
    return RowType(tuple(_data_field(field, ids) for field in schema))


def type_from_arrow(data_type: pa.DataType) -> DataType:
    """Return the data type that holds values of an Arrow type. Raises InvalidInputError if there is none."""
    return _from_arrow(data_type, count())


def _field(name: str, data_type: pa.DataType, nullable: bool, field_id: int | None) -> pa.Field:
    metadata = None if field_id is None else {FIELD_ID_KEY: str(_int32(field_id)).encode()}
    return pa.field(name, data_type, nullable, metadata)


def _int32(value: int) -> int:
    """Return an integer wrapped around as in 32-bit arithmetic, as happens to ids that are derived from very
    large field ids.
    """
    return (value + 2**31) % 2**32 - 2**31


def _convert(data_type: DataType, parent: int | None, depth: int) -> pa.DataType:
    """Return the Arrow type of a data type. `parent` is the id of the enclosing field (None: no ids); `depth`
    counts list and map levels under it.

    Rule of ids without a field (Parquet): element and map value = base + id * 1024 + depth, map key = base -
    id * 1024 - depth.
    """
    up = None if parent is None else _NESTED_BASE + parent * _NESTED_STEP + depth
    down = None if parent is None else _NESTED_BASE - parent * _NESTED_STEP - depth
    match data_type:
        case AtomicType():
            return _atomic(data_type, parent)
        case ArrayType(element=element):
            return pa.list_(_field("element", _convert(element, parent, depth + 1), element.nullable, up))
        case VectorType(element=element, length=length):
            item = _field("element", _convert(element, parent, depth + 1), element.nullable, up)
            return pa.list_(item, length)
        case MapType(key=key, value=value):
            return _map(key, value, (down, up), (parent, depth))
        case MultisetType(element=element):
            return _map(element, _COUNT_TYPE, (down, up), (parent, depth))
        case RowType(fields=fields):
            return pa.struct([arrow_field(f) if parent is not None else _bare(f) for f in fields])


def _bare(field: DataField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), field.type.nullable)


def _map(
    key: DataType, value: DataType, ids: tuple[int | None, int | None], where: tuple[int | None, int]
) -> pa.DataType:
    parent, depth = where
    key_field = _field("key", _convert(key, parent, depth + 1), False, ids[0])
    value_field = _field("value", _convert(value, parent, depth + 1), value.nullable, ids[1])
    return pa.map_(key_field, value_field)


def _atomic(data_type: AtomicType, parent: int | None) -> pa.DataType:
    root = data_type.root
    if root is TypeRoot.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        unit = (
            "ms"
            if data_type.precision <= _MILLIS_DIGITS
            else "us"
            if data_type.precision <= _MICROS_DIGITS
            else "ns"
        )
        return pa.timestamp(unit, "UTC" if root is TypeRoot.TIMESTAMP_LTZ else None)
    if root is TypeRoot.VARIANT:
        ids = (None, None) if parent is None else (0, 1)
        parts = zip(("value", "metadata"), ids, strict=True)
        return pa.struct([_field(name, pa.binary(), False, part) for name, part in parts])
    return _PLAIN[root]


def _data_field(field: pa.Field, ids: Iterator[int]) -> DataField:
    own = (field.metadata or {}).get(FIELD_ID_KEY)
    number = next(ids) if own is None else int(own)
    try:
        kind = _from_arrow(field.type, ids)
    except InvalidInputError as err:
        raise InvalidInputError(f"column {field.name}: {err}") from err
    return DataField(number, field.name, with_nullable(kind, field.nullable))


def _from_arrow(data_type: pa.DataType, ids: Iterator[int]) -> DataType:
    nested = _nested_from_arrow(data_type, ids)
    if nested is not None:
        return nested
    for accepts, make in _FROM_ARROW:
        if accepts(data_type):
            return make(data_type)
    raise InvalidInputError(f"Arrow type {data_type} has no table type; cast the column first")


def _nested_from_arrow(data_type: pa.DataType, ids: Iterator[int]) -> DataType | None:
    if pa.types.is_dictionary(data_type):
        return _from_arrow(data_type.value_type, ids)
    if pa.types.is_fixed_size_list(data_type):
        element = with_nullable(_from_arrow(data_type.value_type, ids), data_type.value_field.nullable)
        return VectorType(element, data_type.list_size)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return ArrayType(
            with_nullable(_from_arrow(data_type.value_type, ids), data_type.value_field.nullable)
        )
    if pa.types.is_map(data_type):
        key = with_nullable(_from_arrow(data_type.key_type, ids), False)
        return MapType(
            key, with_nullable(_from_arrow(data_type.item_type, ids), data_type.item_field.nullable)
        )
    if pa.types.is_struct(data_type):
        return RowType(tuple(_data_field(data_type.field(i), ids) for i in range(data_type.num_fields)))
    return None


def _of(root: TypeRoot, *, length: int = 0) -> Callable[[pa.DataType], DataType]:
    kind = AtomicType(root, length=length)
    return lambda _: kind


def _timestamp_from_arrow(data_type: pa.DataType) -> DataType:
    root = TypeRoot.TIMESTAMP if data_type.tz is None else TypeRoot.TIMESTAMP_LTZ
    return AtomicType(root, precision={"s": 0, "ms": 3, "us": 6, "ns": 9}[data_type.unit])


def _decimal_from_arrow(data_type: pa.DataType) -> DataType:
    if data_type.scale < 0:
        raise InvalidInputError(f"Arrow type {data_type} has a negative scale; cast the column first")
    return AtomicType(TypeRoot.DECIMAL, precision=data_type.precision, scale=data_type.scale)


_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], DataType]], ...] = (
    (pa.types.is_boolean, _of(TypeRoot.BOOLEAN)),
    (pa.types.is_int8, _of(TypeRoot.TINYINT)),
    (lambda k: k in (pa.int16(), pa.uint8()), _of(TypeRoot.SMALLINT)),
    (lambda k: k in (pa.int32(), pa.uint16()), _of(TypeRoot.INT)),
    (lambda k: k in (pa.int64(), pa.uint32()), _of(TypeRoot.BIGINT)),
    (lambda k: k in (pa.float16(), pa.float32()), _of(TypeRoot.FLOAT)),
    (pa.types.is_float64, _of(TypeRoot.DOUBLE)),
    (lambda k: k in _STRINGS or pa.types.is_null(k), _of(TypeRoot.VARCHAR, length=MAX_LENGTH)),
    (lambda k: k in _BYTES, _of(TypeRoot.VARBINARY, length=MAX_LENGTH)),
    (pa.types.is_fixed_size_binary, lambda k: AtomicType(TypeRoot.BINARY, length=k.byte_width)),
    (pa.types.is_date, _of(TypeRoot.DATE)),
    (pa.types.is_time, lambda _: AtomicType(TypeRoot.TIME, precision=3)),
    (pa.types.is_timestamp, _timestamp_from_arrow),
    (lambda k: pa.types.is_decimal(k) and k.bit_width <= 128, _decimal_from_arrow),
)
