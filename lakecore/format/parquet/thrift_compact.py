"""This module reads and writes the Thrift compact protocol without a schema: parquet footers and page
indexes.

A struct is a dict of field id to Field. What a reader of this module does not know survives a rewrite.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

from lakecore.data_class import dataclass

__all__ = [
    "Field",
    "Struct",
    "ThriftList",
    "WireType",
    "decode_leading_struct",
    "decode_struct",
    "encode_struct",
]

_MAX_DEPTH = 64
_LONG_LIST = 15


class WireType(IntEnum):
    """These are the types as the protocol numbers them. TRUE and FALSE carry their value in the type."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


@dataclass(slots=True)
class Field:
    """This is one value of a struct. `value` is a bool, int, bytes (BINARY, DOUBLE), ThriftList or a
    struct.
    """

    type: WireType
    value: Any


@dataclass(slots=True)
class ThriftList:
    """This is a list or set, which has an element type."""

    type: WireType
    values: list[Any]


Struct: TypeAlias = dict[int, Field]

_INTEGERS = (WireType.I64, WireType.I32, WireType.I16)  # an enum is found faster in a tuple than in a set
_BOOLEANS = (WireType.TRUE, WireType.FALSE)


def decode_struct(data: bytes | memoryview) -> Struct:
    """Return the struct at the start of `data`. Raises ValueError when the bytes are not one."""
    try:
        return _Reader(bytes(data)).struct(0)
    except IndexError as err:
        raise ValueError("the thrift data ends early") from err


def decode_leading_struct(data: bytes) -> tuple[Struct, int]:
    """Return the struct at the start of `data`, and how many bytes it has. Raises ValueError, also when the
    data ends within it.
    """
    reader = _Reader(data)
    try:
        return reader.struct(0), reader.position
    except IndexError as err:
        raise ValueError("the thrift data ends early") from err


def encode_struct(struct: Struct) -> bytes:
    """Return the bytes of a struct, with its fields in the order of their ids."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


_KINDS = {int(kind): kind for kind in WireType}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def position(self) -> int:
        """Return the number of bytes read so far."""
        return self._at

    def struct(self, depth: int) -> Struct:
        if depth > _MAX_DEPTH:
            raise ValueError("the thrift data is nested too deeply")
        out: Struct = {}
        field_id = 0
        while (head := self._byte()) != 0:
            delta = head >> 4
            field_id = field_id + delta if delta else self._zigzag()
            kind = _KINDS.get(head & 15) or WireType(head & 15)
            out[field_id] = Field(kind, self._field_value(kind, depth))
        return out

    def _field_value(self, kind: WireType, depth: int) -> Any:
        return kind is WireType.TRUE if kind in _BOOLEANS else self._value(kind, depth)

    def _value(self, kind: WireType, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind is WireType.BINARY:
            return self._take(self._varint())
        if kind is WireType.STRUCT:
            return self.struct(depth + 1)
        if kind in (WireType.LIST, WireType.SET):
            return self._list(depth)
        if kind is WireType.DOUBLE:
            return self._take(8)
        if kind is WireType.MAP:
            raise ValueError("a thrift map is present, which parquet metadata does not have")
        return self._byte()

    def _list(self, depth: int) -> ThriftList:
        head = self._byte()
        size = head >> 4
        kind = WireType(head & 15)
        if size == _LONG_LIST:
            size = self._varint()
        if size > len(self._data) - self._at:
            raise ValueError(f"a thrift list claims {size} elements in {len(self._data)} bytes")
        if kind in _BOOLEANS:
            return ThriftList(kind, [byte == WireType.TRUE for byte in self._take(size)])
        return ThriftList(kind, [self._value(kind, depth + 1) for _ in range(size)])

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise ValueError("the thrift data ends early")
        self._at += size
        return part

    def _varint(self) -> int:
        value = shift = 0
        data, at = self._data, self._at
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self._at = at
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field_id in sorted(struct):
        field = struct[field_id]
        kind = field.type
        if kind in _BOOLEANS:
            kind = WireType.TRUE if field.value else WireType.FALSE
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field_id)
        if kind not in _BOOLEANS:
            _write_value(out, kind, field.value)
        last = field_id
    out.append(0)


def _write_value(out: bytearray, kind: WireType, value: Any) -> None:
    if kind in _INTEGERS:
        _write_zigzag(out, value)
    elif kind is WireType.BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind is WireType.STRUCT:
        _write_struct(out, value)
    elif kind in (WireType.LIST, WireType.SET):
        _write_list(out, value)
    elif kind is WireType.DOUBLE:
        out += value
    else:
        out.append(value)


def _write_list(out: bytearray, items: ThriftList) -> None:
    size = len(items.values)
    out.append(min(size, _LONG_LIST) << 4 | items.type)
    if size >= _LONG_LIST:
        _write_varint(out, size)
    for value in items.values:
        if items.type in _BOOLEANS:
            out.append(WireType.TRUE if value else WireType.FALSE)
        else:
            _write_value(out, items.type, value)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, (value << 1) ^ (value >> 63))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
