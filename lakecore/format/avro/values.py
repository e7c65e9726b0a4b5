"""This module converts Avro bytes to Python values and back, one value at a time: for small files and single
records.

Every count and length is checked against the bytes that are left, so damage ends in an error, soon and small.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from lakecore.format.avro.schema import AvroArray, AvroMap, AvroNode, AvroPrimitive, AvroRecord, AvroUnion

__all__ = ["Decode", "Encode", "Skip", "decoder", "encoder", "read_long", "skip_function", "write_long"]

Buffer = bytes | memoryview
Decode = Callable[[Buffer, int], tuple[Any, int]]
Skip = Callable[[Buffer, int], int]
Encode = Callable[[bytearray, Any], None]

_CONTINUES = 128
_MAX_SHIFT = 63
_LOW = (1 << 64) - 1


def read_long(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position behind it. Raises IndexError past the end, ValueError when
    it is too long.
    """
    byte = data[at]
    at += 1
    if byte < _CONTINUES:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < _CONTINUES:
            value &= _LOW
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > _MAX_SHIFT:
            raise ValueError("an integer takes more than ten bytes")


def write_long(out: bytearray, value: int) -> None:
    """Append a zigzag varint of a signed 64-bit value."""
    value = (value << 1) ^ (value >> 63)
    while value >= _CONTINUES:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def decoder(node: AvroNode) -> Decode:
    """Return a function from (data, position) to (value, position behind). Records become dicts.

    The function raises IndexError, ValueError or struct.error on damage.
    """
    match node:
        case AvroPrimitive():
            return _ATOM_DECODERS[node.kind] if node.kind != "fixed" else _fixed_decoder(node.size)
        case AvroRecord():
            return _decode_record(node)
        case AvroArray(items):
            return _decode_blocks(decoder(items), list)
        case AvroMap(values):
            return _decode_blocks(_pair(decoder(values)), dict)
        case AvroUnion(branches):
            return _decode_union([decoder(branch) for branch in branches])


def skip_function(node: AvroNode) -> Skip:
    """Return a function from (data, position) to the position behind the value."""
    read = decoder(node)
    return lambda data, at: read(data, at)[1]


def _read_bytes(data: Buffer, at: int) -> tuple[bytes, int]:
    length, at = read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise ValueError(f"a value claims {length} bytes, but {len(data) - at} are left")
    return bytes(data[at : at + length]), at + length


def _read_text(data: Buffer, at: int) -> tuple[str, int]:
    value, at = _read_bytes(data, at)
    return value.decode(), at


def _read_boolean(data: Buffer, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _unpacker(code: str) -> Decode:
    layout = struct.Struct(code)
    return lambda data, at: (layout.unpack_from(data, at)[0], at + layout.size)


def _fixed_decoder(size: int) -> Decode:
    def read(data: Buffer, at: int) -> tuple[bytes, int]:
        if size > len(data) - at:
            raise ValueError(f"a value claims {size} bytes, but {len(data) - at} are left")
        return bytes(data[at : at + size]), at + size

    return read


_ATOM_DECODERS: dict[str, Decode] = {
    "null": lambda data, at: (None, at),
    "boolean": _read_boolean,
    "int": read_long,
    "long": read_long,
    "enum": read_long,
    "float": _unpacker("<f"),
    "double": _unpacker("<d"),
    "bytes": _read_bytes,
    "string": _read_text,
}


def _decode_record(node: AvroRecord) -> Decode:
    readers = tuple((field.name, decoder(field.type)) for field in node.fields)

    def read(data: Buffer, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in readers:
            values[name], at = reader(data, at)
        return values, at

    return read


def _pair(value: Decode) -> Decode:
    def read(data: Buffer, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_text(data, at)
        element, at = value(data, at)
        return (key, element), at

    return read


def _decode_blocks(item: Decode, make: Callable[[list[Any]], Any]) -> Decode:
    def read(data: Buffer, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        while True:
            count, at = read_long(data, at)
            if count == 0:
                return make(values), at
            if count < 0:
                count = -count
                _, at = read_long(data, at)
            if count > len(data) - at:
                raise ValueError(f"an array or map claims {count} items, but {len(data) - at} bytes are left")
            for _ in range(count):
                value, at = item(data, at)
                values.append(value)

    return read


def _decode_union(branches: list[Decode]) -> Decode:
    def read(data: Buffer, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(branches):
            raise ValueError(f"a union of {len(branches)} branches has no branch {index}")
        return branches[index](data, at)

    return read


def encoder(node: AvroNode) -> Encode:
    """Return a function that appends a value. Unions must be [null, T]; records take dicts with every
    field.
    """
    match node:
        case AvroRecord(fields):
            return _encode_record([(field.name, encoder(field.type)) for field in fields])
        case AvroArray(items):
            return _encode_array(encoder(items))
        case AvroUnion((AvroPrimitive("null"), inner)):
            return _encode_optional(encoder(inner))
        case AvroPrimitive("int" | "long"):
            return write_long
        case AvroPrimitive("bytes"):
            return _write_bytes
        case AvroPrimitive("string"):
            return lambda out, value: _write_bytes(out, value.encode())
        case _:
            raise ValueError(f"there is no encoder for {node}")


def _write_bytes(out: bytearray, value: bytes) -> None:
    write_long(out, len(value))
    out += value


def _encode_record(fields: list[tuple[str, Encode]]) -> Encode:
    def write(out: bytearray, value: Any) -> None:
        for name, put in fields:
            put(out, value[name])

    return write


def _encode_array(item: Encode) -> Encode:
    def write(out: bytearray, value: Any) -> None:
        if len(value):
            write_long(out, len(value))
            for part in value:
                item(out, part)
        out.append(0)

    return write


def _encode_optional(inner: Encode) -> Encode:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            inner(out, value)

    return write
