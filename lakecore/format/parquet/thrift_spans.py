"""This module finds the fields of thrift structs (compact protocol) without decoding what is inside them, and
puts structs together again of the bytes that were found. No IO.

It is for footers of which a few numbers change: all else is copied as bytes, so that nothing which this
release does not know gets lost. `thrift_compact` decodes whole structs, and takes some five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from lakecore.format.parquet.thrift_compact import WireType

__all__ = [
    "NOTHING_INSIDE",
    "Fields",
    "Inside",
    "Span",
    "binary",
    "binary_value",
    "encode_changed",
    "list_of",
    "number",
    "struct_list",
    "walk",
]


Span: TypeAlias = tuple[int, int, int, Any]
"""This is one field of a struct: its type, where the bytes of its value begin and end, and the value: an int,
what `Inside` made of a nested field, or None for other nested fields and for bytes.
"""
Fields: TypeAlias = dict[int, Span]
"""These are the fields of a struct by their numbers."""
Inside: TypeAlias = Mapping[int, Callable[[bytes, int], tuple[Any, int]]]
"""These functions decode nested fields of a struct: they return a value, and where it ends."""

NOTHING_INSIDE: Inside = {}

_TRUE, _FALSE = int(WireType.TRUE), int(WireType.FALSE)
_BINARY, _STRUCT = int(WireType.BINARY), int(WireType.STRUCT)
_FIRST_NUMBER, _LAST_NUMBER = int(WireType.I16), int(WireType.I64)
_LONG_LIST = 15
_MOST_BYTES = 10
"""Bytes of the longest number."""
_MAX_DEPTH = 32


def walk(data: bytes, at: int, inside: Inside = NOTHING_INSIDE) -> tuple[Fields, int]:
    """Return the fields of the struct that begins at `at`, and where it ends. Raises ValueError, and
    IndexError where the data ends within it.
    """
    fields: Fields = {}
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            field += head >> 4
        else:
            field, at = _number(data, at)
        start, value = at, None
        if _FIRST_NUMBER <= kind <= _LAST_NUMBER:
            raw = data[at]
            at += 1
            if raw > 127:
                raw, at = _decode_varint(data, start)
            value = (raw >> 1) ^ -(raw & 1)
        elif field in inside:
            value, at = inside[field](data, at)
        else:
            at = _SKIPS[kind](data, at, 0)
        fields[field] = (kind, start, at, value)
    if at >= len(data):
        raise ValueError("the thrift data ends early")
    return fields, at + 1


def struct_list(inside: Inside) -> Callable[[bytes, int], tuple[list[Fields], int]]:
    """Return a function that finds the fields of all structs of a list."""

    def decode(data: bytes, at: int) -> tuple[list[Fields], int]:
        count, kind, at = _list_head(data, at)
        if count and kind != _STRUCT:
            raise ValueError(f"a thrift list has elements of type {kind} instead of structs")
        structs = []
        for _ in range(count):
            fields, at = walk(data, at, inside)
            structs.append(fields)
        return structs, at

    return decode


def binary(data: bytes, span: Span) -> bytes:
    """Return the content of a field of bytes. Raises ValueError for another type."""
    kind, start, stop, _ = span
    if kind != _BINARY:
        raise ValueError(f"a thrift field has type {kind} instead of bytes")
    size, at = _decode_varint(data, start)
    if at + size != stop:
        raise ValueError("a thrift field of bytes has another length than it says")
    return data[at:stop]


def number(value: int) -> bytes:
    """Return the bytes of a number."""
    return _encode_varint((value << 1) ^ (value >> 63))


def binary_value(data: bytes) -> bytes:
    """Return the bytes of a value of bytes: its length, and itself."""
    return _encode_varint(len(data)) + data


def list_of(structs: list[bytes]) -> bytes:
    """Return the bytes of a list of structs."""
    count = len(structs)
    if count < _LONG_LIST:
        return bytes([count << 4 | _STRUCT]) + b"".join(structs)
    return bytes([_LONG_LIST << 4 | _STRUCT]) + _encode_varint(count) + b"".join(structs)


def encode_changed(data: bytes, fields: Fields, changes: Mapping[int, tuple[int, bytes] | None]) -> bytes:
    """Return the bytes of a struct with the fields of another, but for `changes`: a type and the bytes of a
    value, or None for a field that is left out.
    """
    out = bytearray()
    last = 0
    for field in sorted(fields.keys() | changes.keys()):
        if field in changes:
            change = changes[field]
            if change is None:
                continue
            kind, value = change
        else:
            kind, start, stop, _ = fields[field]
            value = data[start:stop]
        delta = field - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            out += number(field)
        out += value
        last = field
    out.append(0)
    return bytes(out)


def _encode_varint(unsigned: int) -> bytes:
    out = bytearray()
    while unsigned > 127:
        out.append(unsigned & 127 | 128)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _decode_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + _MOST_BYTES]:
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a thrift number does not end")


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of elements of a list, their type, and where the first one begins."""
    head = data[at]
    at += 1
    count = head >> 4
    if count == _LONG_LIST:
        count, at = _decode_varint(data, at)
    if count > len(data) - at:
        raise ValueError(f"a thrift list claims {count} elements in {len(data)} bytes")
    return count, head & 15, at


def _skip_nothing(data: bytes, at: int, depth: int) -> int:
    return at


def _skip_byte(data: bytes, at: int, depth: int) -> int:
    return at + 1


def _skip_double(data: bytes, at: int, depth: int) -> int:
    return at + 8


def _skip_number(data: bytes, at: int, depth: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1


def _skip_binary(data: bytes, at: int, depth: int) -> int:
    size = data[at]
    if size < 128:
        return at + 1 + size
    size, at = _decode_varint(data, at)
    return at + size


def _skip_list(data: bytes, at: int, depth: int) -> int:
    count, kind, at = _list_head(data, at)
    if kind in (_TRUE, _FALSE):
        return at + count
    skip = _SKIPS[kind]
    for _ in range(count):
        at = skip(data, at, depth + 1)
    return at


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise ValueError("the thrift data is nested too deeply")
    while head := data[at]:
        at += 1
        if head < 16:
            at = _skip_number(data, at, depth)
        at = _SKIPS[head & 15](data, at, depth + 1)
    return at + 1


def _refuse(data: bytes, at: int, depth: int) -> int:
    raise ValueError("the thrift data has a type that parquet metadata does not have")


_SKIPS: Final[tuple[Callable[[bytes, int, int], int], ...]] = (
    _refuse, _skip_nothing, _skip_nothing, _skip_byte, _skip_number, _skip_number, _skip_number, _skip_double,
    _skip_binary, _skip_list, _skip_list, _refuse, _skip_struct, _refuse, _refuse, _refuse,
)  # fmt: skip
"""These functions return where a value ends, by its type."""
