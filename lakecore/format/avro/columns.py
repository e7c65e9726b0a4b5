"""This module converts Avro types to Arrow columns: it chooses the schema to decode with, and converts raw
Python values to the column's type.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass

__all__ = ["AvroColumn", "decimals_from_bytes", "decoding_schema"]

_PRIMITIVE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
# Names are the reverse of Avro's meaning: Paimon calls the wall clock timestamp-*, the instant
# local-timestamp-*. Options can swap them, so readers relabel by the table's type.
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("ms", "UTC"),
    "local-timestamp-micros": pa.timestamp("us", "UTC"),
}
_DECIMAL_BYTES = 16

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class _Kind:
    """An avro type: what fastavro's values load as (`raw`), what the column is, and how to get there."""

    raw: pa.DataType
    final: pa.DataType
    nullable: bool
    convert: Convert | None = None

    def apply(self, array: pa.Array) -> pa.Array:
        return array if self.convert is None else self.convert(array)


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """This column is one top-level field of an avro file."""

    field: pa.Field
    kind: _Kind

    @classmethod
    def of(cls, field: dict[str, Any]) -> AvroColumn:
        """Describe a field of the file's record. Raises ValueError for types that the table format never
        writes.
        """
        kind = _kind(field["type"])
        return cls(pa.field(field["name"], kind.final, kind.nullable), kind)

    def array(self, values: list[Any]) -> pa.Array:
        """Return the column of `values` as fastavro decodes them with `decoding_schema`."""
        return self.kind.apply(pa.array(values, self.kind.raw))


def decoding_schema(record: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that reads the same bytes without logical types and with every map as an array of
    key-value records.
    """
    names = (f"r{n}" for n in count())

    def plain(schema: Any) -> Any:
        if isinstance(schema, list):
            return [plain(branch) for branch in schema]
        if isinstance(schema, str):
            return schema
        match schema["type"]:
            case "record":
                fields = [{"name": f["name"], "type": plain(f["type"])} for f in schema["fields"]]
                return {"type": "record", "name": next(names), "fields": fields}
            case "array":
                return {"type": "array", "items": plain(schema["items"])}
            case "map":
                fields = [
                    {"name": "key", "type": "string"},
                    {"name": "value", "type": plain(schema["values"])},
                ]
                items = {"type": "record", "name": next(names), "fields": fields}
                return {"type": "array", "items": items}
            case "fixed":
                return {"type": "fixed", "name": next(names), "size": schema["size"]}
            case other:
                return plain(other) if not isinstance(other, str) else other

    out = plain(record)
    assert isinstance(out, dict)
    return out


def decimals_from_bytes(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert big-endian two's complement bytes of any length up to 16 to decimals. Raises ValueError if
    longer.
    """
    binary = array.cast(pa.binary())
    rows = len(binary)
    offsets = np.frombuffer(binary.buffers()[1], np.int32)[binary.offset : binary.offset + rows + 1]
    data = binary.buffers()[2]
    source = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    if rows and lengths.max() > _DECIMAL_BYTES:
        raise ValueError(f"a decimal has {lengths.max()} bytes, more than {_DECIMAL_BYTES}")
    place = np.arange(_DECIMAL_BYTES) - (_DECIMAL_BYTES - lengths[:, None])
    index = np.clip(starts[:, None] + np.maximum(place, 0), 0, len(source) - 1)
    wide = np.where(lengths[:, None] > 0, source[index], 0).astype(np.uint8)
    sign = np.where((wide.shape[1] > 0) & (source[np.clip(starts, 0, len(source) - 1)] & 128 > 0), 255, 0)
    wide = np.where(place < 0, np.where(lengths > 0, sign, 0)[:, None], wide).astype(np.uint8)
    little = np.ascontiguousarray(wide[:, ::-1])
    validity = None if binary.null_count == 0 else _validity(binary)
    return pa.Array.from_buffers(data_type, rows, [validity, pa.py_buffer(little)], binary.null_count)


def _validity(array: pa.Array) -> pa.Buffer:
    bits = np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return pa.py_buffer(bits)


def _kind(schema: Any) -> _Kind:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise ValueError(
                f"an avro union has {len(branches)} types besides null, but only one is supported"
            )
        inner = _kind(branches[0])
        return _Kind(inner.raw, inner.final, len(branches) < len(schema), inner.convert)
    if isinstance(schema, str):
        return _primitive(schema)
    return _complex(schema)


def _primitive(name: str) -> _Kind:
    if name not in _PRIMITIVE:
        raise ValueError(f"avro type {name!r} is not supported")
    kind = _PRIMITIVE[name]
    return _Kind(kind, kind, nullable=False)


def _complex(schema: dict[str, Any]) -> _Kind:
    match schema["type"], schema.get("logicalType"):
        case "record", _:
            return _struct([(f["name"], _kind(f["type"])) for f in schema["fields"]])
        case "array", "map":
            fields = {f["name"]: _kind(f["type"]) for f in schema["items"]["fields"]}
            return _map(fields["key"], fields["value"])
        case "array", _:
            return _list(_kind(schema["items"]))
        case "map", _:
            return _map(_primitive("string"), _kind(schema["values"]))
        case _, "decimal":
            final = pa.decimal128(schema["precision"], schema.get("scale", 0))
            return _Kind(pa.binary(), final, False, lambda array: decimals_from_bytes(array, final))
        case _, logical if logical in _LOGICAL:
            final = _LOGICAL[logical]
            raw = _PRIMITIVE[schema["type"]]
            return _Kind(raw, final, False, lambda array: array.view(final))
        case "fixed", _:
            return _Kind(pa.binary(), pa.binary(), nullable=False)
        case name, _:
            return _kind(name)


def _struct(fields: list[tuple[str, _Kind]]) -> _Kind:
    raw = pa.struct([pa.field(name, kind.raw, kind.nullable) for name, kind in fields])
    final = pa.struct([pa.field(name, kind.final, kind.nullable) for name, kind in fields])

    def convert(array: pa.Array) -> pa.Array:
        children = [kind.apply(array.field(i)) for i, (_, kind) in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=list(final), mask=array.is_null())

    return _Kind(raw, final, False, convert)


def _list(element: _Kind) -> _Kind:
    raw = pa.list_(pa.field("element", element.raw, element.nullable))
    final = pa.list_(pa.field("element", element.final, element.nullable))

    def convert(array: pa.Array) -> pa.Array:
        return _relist(array, final, element.apply(array.values))

    return _Kind(raw, final, False, convert)


def _map(key: _Kind, value: _Kind) -> _Kind:
    entries = _struct([("key", key), ("value", value)])
    raw = pa.list_(pa.field("element", entries.raw))
    final = pa.map_(
        pa.field("key", key.final, nullable=False), pa.field("value", value.final, value.nullable)
    )

    def convert(array: pa.Array) -> pa.Array:
        pairs = array.values
        children = [key.apply(pairs.field(0)), value.apply(pairs.field(1))]
        struct = pa.StructArray.from_arrays(children, fields=[final.key_field, final.item_field])
        return _relist(array, final, struct)

    return _Kind(raw, final, False, convert)


def _relist(array: pa.Array, final: pa.DataType, values: pa.Array) -> pa.Array:
    """Return the same lists over other values (of the whole child, not of a slice)."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(final, len(array), buffers, -1, array.offset, children=[values])
