"""This module reads and writes Protocol Buffers without a schema: the footers of ORC files.

A message is a list of fields in their order. What a reader of this module does not know survives a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

from lakecore.data_class import dataclass

__all__ = ["Message", "signed", "unsigned", "varint", "zigzag"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_LONGEST = 10

Value: TypeAlias = int | bytes


@dataclass(slots=True)
class Message:
    """A message has fields. `fields` has number, wire type and value of each field; the value is an int
    for a varint and bytes for anything else.
    """

    fields: list[tuple[int, int, Value]] = field(default_factory=list)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Message:
        """Return the message of these bytes. Raises ValueError when they are not a message."""
        return cls(list(_fields(bytes(data))))

    def encode(self) -> bytes:
        out = bytearray()
        for number, wire, value in self.fields:
            out += varint(number << 3 | wire)
            if isinstance(value, int):
                out += varint(value)
                continue
            out += (varint(len(value)) if wire == _BYTES else b"") + value
        return bytes(out)

    def number(self, number: int, default: int = 0) -> int:
        """Return the last value of a field of varints, or `default` if there is none."""
        value = self.find(number)
        return default if value is None else value

    def find(self, number: int) -> int | None:
        """Return the last value of a field of varints, or None when there is none."""
        values = [value for n, _, value in self.fields if n == number and isinstance(value, int)]
        return values[-1] if values else None

    def all(self, number: int) -> list[bytes]:
        """Return the values of a repeated field of bytes."""
        return [value for n, _, value in self.fields if n == number and isinstance(value, bytes)]

    def ints(self, number: int) -> list[int]:
        """Return the values of a repeated field of varints, packed or not."""
        out: list[int] = []
        for n, _, value in self.fields:
            if n == number:
                out += [value] if isinstance(value, int) else unsigned(value)
        return out

    def messages(self, number: int) -> list[Message]:
        return [Message.decode(value) for value in self.all(number)]

    def without(self, *numbers: int) -> Message:
        """Return the message without these fields."""
        return Message([one for one in self.fields if one[0] not in numbers])

    def add(self, number: int, value: Value) -> Message:
        """Append a field; the same message."""
        self.fields.append((number, _VARINT if isinstance(value, int) else _BYTES, value))
        return self

    def extend(self, number: int, values: Iterable[Message]) -> Message:
        """Append messages; the same message."""
        for value in values:
            self.add(number, value.encode())
        return self


def varint(value: int) -> bytes:
    value &= _WORD
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def unsigned(data: bytes) -> list[int]:
    """Return the values of packed varints. Raises ValueError."""
    out, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        out.append(value)
    return out


def zigzag(value: int) -> int:
    """Return a signed number as the varint of an sint64."""
    return (value << 1 ^ value >> 63) & _WORD


def signed(value: int) -> int:
    """Return the number whose `zigzag` is `value`."""
    return value >> 1 ^ -(value & 1)


def _fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise ValueError(f"a protobuf field has the unknown wire type {wire}")
        if at + size > len(data):
            raise ValueError(f"a protobuf field claims {size} bytes, but {len(data) - at} are left")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for i in range(at, min(at + _LONGEST, len(data))):
        value |= (data[i] & 0x7F) << shift
        if data[i] < 0x80:
            return value & _WORD, i + 1
        shift += 7
    raise ValueError("a varint does not end")
