"""This module converts Arrow schemas to avro schemas, with the names and annotations of the table format,
and columns to raw values.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakecore.errors import UnsupportedError

__all__ = ["avro_schema", "raw_values"]

_ROOT = "org.apache.paimon.avro.generated.record"
_SIMPLE = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "timestamp-millis"},
    pa.timestamp("us"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("ms", "UTC"): {"type": "long", "logicalType": "local-timestamp-millis"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return the record of a file. Raises UnsupportedError for timestamps above microseconds, which avro
    lacks.
    """
    return _record(_ROOT, list(schema))


def raw_values(column: pa.Array) -> list[Any]:
    """Return a column as values that fastavro writes with `avro_columns.decoding_schema`."""
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        return list(column.view(pa.int64()).to_pylist())
    if pa.types.is_date(data_type) or pa.types.is_time(data_type):
        return list(column.view(pa.int32()).to_pylist())
    if pa.types.is_decimal(data_type):
        return [
            None if value is None else _unscaled_bytes(value, data_type.scale) for value in column.to_pylist()
        ]
    if pa.types.is_struct(data_type):
        children = [raw_values(column.field(i)) for i in range(data_type.num_fields)]
        names = [field.name for field in data_type]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*children, strict=True)]
        return _mask(column, rows)
    if pa.types.is_map(data_type):
        pairs = zip(raw_values(column.keys), raw_values(column.items), strict=True)
        return _cut(column, [{"key": key, "value": value} for key, value in pairs])
    if pa.types.is_list(data_type):
        return _cut(column, raw_values(column.values))
    if pa.types.is_fixed_size_list(data_type):
        return raw_values(column.cast(pa.list_(data_type.value_field)))
    return list(column.to_pylist())


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    """Return a record type. Nested records are called `<parent>_<field>`."""
    return {
        "type": "record",
        "name": name,
        "fields": [_field(field, f"{name}_{field.name}") for field in fields],
    }


def _field(field: pa.Field, name: str) -> dict[str, Any]:
    data_type = _optional(field, name)
    return {"name": field.name, "type": data_type} | ({"default": None} if field.nullable else {})


def _optional(field: pa.Field, name: str) -> Any:
    data_type = _type(field.type, name)
    return ["null", data_type] if field.nullable else data_type


def _type(data_type: pa.DataType, name: str) -> Any:
    if data_type in _SIMPLE:
        return _SIMPLE[data_type]
    if pa.types.is_decimal(data_type):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    if pa.types.is_struct(data_type):
        return _record(name, list(data_type))
    if pa.types.is_map(data_type):
        return _map(data_type, name)
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return {"type": "array", "items": _optional(data_type.value_field, name)}
    raise UnsupportedError(
        f"avro files cannot store a column of type {data_type}; use file.format=parquet or orc"
    )


def _map(data_type: pa.DataType, name: str) -> Any:
    """Return the type of a map: with string keys an avro map, with others an array of key-value records (rule
    of the format).
    """
    if pa.types.is_string(data_type.key_type):
        return {"type": "map", "values": _optional(data_type.item_field, f"{name}_value")}
    key = {"name": "key", "type": ["null", _type(data_type.key_type, f"{name}_key")]}
    value = _field(data_type.item_field, f"{name}_value")
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": name, "fields": [key, value | {"name": "value"}]},
    }


def _unscaled_bytes(value: Decimal, scale: int) -> bytes:
    """Return the shortest big-endian two's complement."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * int(10 ** (scale + int(exponent))) * (-1 if sign else 1)
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)


def _mask(column: pa.Array, values: list[Any]) -> list[Any]:
    if column.null_count == 0:
        return values
    return [v if ok else None for v, ok in zip(values, column.is_valid().to_pylist(), strict=True)]


def _cut(column: pa.Array, items: list[Any]) -> list[Any]:
    ends = column.offsets.to_pylist()
    return _mask(column, [items[ends[i] : ends[i + 1]] for i in range(len(column))])
