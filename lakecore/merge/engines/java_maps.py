"""This module computes in which order Java's HashMap and HashSet list their entries.

Functions like `collect` (distinct) and `nested_update` put the elements of an array into such a map, and what
is read back in another order is another array. An entry's place is its hash modulo the size of the table,
which doubles as entries come; entries of one place keep the order in which they came.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lakecore.row.values import array_values
from lakecore.types.datatypes import AtomicType, DataType, TypeRoot

__all__ = ["JavaMap", "identities", "java_hashes"]

V = TypeVar("V")

_FIRST_SIZE = 16
_LONGEST_LIST = 8
_TREE_SIZE = 64
_MASK = 0xFFFFFFFF
_NANOS = 1_000_000
_INTS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


class JavaMap(Generic[V]):
    """Entries by key; iterating values follows the order described above. The table never shrinks."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[int, V]] = {}
        self._size = _FIRST_SIZE
        self._first_is_last = False
        self._lengths: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def put(self, key: Hashable, code: int, value: V) -> None:
        """Put a value under a key. `code` is Java's hash of the key. An entry that exists keeps its place."""
        spread = code ^ (code & _MASK) >> 16
        is_present = key in self._entries
        self._entries[key] = (spread, value)
        if not is_present:
            self._count(spread, _LONGEST_LIST)
            self._grow_if_full()

    def compute(self, key: Hashable, code: int, make: Callable[[], V]) -> V:
        """Return the value of the key if there is one, else that of `make` (computeIfAbsent), which is placed
        before the others.

        A map takes its entries by `put` or by this, not by both.
        """
        self._grow_if_full()
        current = self._entries.get(key)
        if current is not None:
            return current[1]
        spread = code ^ (code & _MASK) >> 16
        self._first_is_last = True
        self._entries[key] = (spread, value := make())
        self._count(spread, _LONGEST_LIST - 1)
        return value

    def _count(self, spread: int, longest: int) -> None:
        place = spread & (self._size - 1)
        length = self._lengths.get(place, 0)
        self._lengths[place] = length + 1
        if length >= longest and self._size < _TREE_SIZE:
            self._grow()

    def _grow_if_full(self) -> None:
        if len(self._entries) * 4 > self._size * 3:
            self._grow()

    def remove(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._lengths[entry[0] & (self._size - 1)] -= 1

    def values(self) -> Iterator[V]:
        entries = list(self._entries.values())
        if self._first_is_last:
            entries.reverse()
        entries.sort(key=lambda entry: entry[0] & (self._size - 1))
        return (value for _, value in entries)

    def _grow(self) -> None:
        self._size *= 2
        self._lengths.clear()
        for spread, _ in self._entries.values():
            place = spread & (self._size - 1)
            self._lengths[place] = self._lengths.get(place, 0) + 1


def identities(values: pa.Array, data_type: DataType) -> list[Hashable]:
    """Return what makes two values equal in a Java map: content, or the bits of floats; two byte arrays are
    never equal.
    """
    plain = array_values(values, data_type)
    if not isinstance(data_type, AtomicType) or data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return [None if value is None else repr(value) for value in plain]
    if data_type.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return [None if value is None else object() for value in plain]
    return plain


def java_hashes(values: pa.Array, data_type: DataType) -> list[int]:
    """Return the `hashCode` of each value; it is 0 for null, and where Java's depends on the object alone
    (bytes, nested).
    """
    function = _hash_function(data_type)
    if function is None:
        return [0] * len(values)
    return [0 if value is None else function(value) & _MASK for value in array_values(values, data_type)]


def _hash_function(data_type: DataType) -> Callable[[Any], int] | None:
    if not isinstance(data_type, AtomicType):
        return None
    root = data_type.root
    if root in _INTS:
        return int
    if root in _TIMESTAMPS:
        return _timestamp
    if root is TypeRoot.DECIMAL:
        return lambda value: _decimal(value, data_type.scale)
    return _BY_ROOT.get(root)


def _fold_bits(bits: int) -> int:
    return bits ^ (bits & 0xFFFFFFFFFFFFFFFF) >> 32


def _float(value: float) -> int:
    return 0x7FC00000 if value != value else int.from_bytes(struct.pack("<f", value), "little")


def _double(value: float) -> int:
    bits = 0x7FF8 << 48 if value != value else int.from_bytes(struct.pack("<d", value), "little")
    return _fold_bits(bits)


def _timestamp(nanos: int) -> int:
    millis, rest = divmod(nanos, _NANOS)
    return 31 * (millis ^ millis >> 32) + rest


def _decimal(value: Decimal, scale: int) -> int:
    unscaled = int(value.scaleb(scale))
    size, total = abs(unscaled), 0
    for shift in range((size.bit_length() + 31) // 32 * 32 - 32, -32, -32):
        total = (total * 31 + (size >> shift & _MASK)) & _MASK
    return 31 * (-total if unscaled < 0 else total) + scale


def _text(value: str) -> int:
    """Return the hash of a text: Murmur3 over whole words, then over single, signed bytes."""
    data = value.encode()
    whole = len(data) & ~3
    code = 42
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        code = _mix(code, word)
    for byte in struct.unpack(f"{len(data) - whole}b", data[whole:]):
        code = _mix(code, byte & _MASK)
    code ^= len(data)
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    return code ^ code >> 16


def _mix(code: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) * 0x1B873593 & _MASK
    code ^= word
    code = (code << 13 | code >> 19) & _MASK
    return (code * 5 + 0xE6546B64) & _MASK


_BY_ROOT: dict[TypeRoot, Callable[[Any], int]] = {
    TypeRoot.BOOLEAN: lambda value: 1231 if value else 1237,
    TypeRoot.BIGINT: _fold_bits,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _double,
    TypeRoot.CHAR: _text,
    TypeRoot.VARCHAR: _text,
}
