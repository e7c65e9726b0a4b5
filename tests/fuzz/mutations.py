"""Damaged versions of valid bytes, made by a seeded generator: the same seed makes the same damage."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

__all__ = ["mutate"]

_EDGES = (0, 1, -1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFFFFFFFFFF)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One to three changes; now and then the result equals `data`."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        data = dice.choice(_CHANGES)(data, dice)
    return data


def _place(data: bytes, dice: random.Random) -> int:
    """Anywhere, with more weight on both ends: heads and footers lie there."""
    if not data:
        return 0
    near = min(len(data), 64)
    return dice.choice(
        (dice.randrange(len(data)), dice.randrange(near), len(data) - 1 - dice.randrange(near))
    )


def _flip(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return data
    at = _place(data, dice)
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def _byte(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return (
        data[:at] + bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, dice.randrange(256)))]) + data[at + 1 :]
    )


def _truncate(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return dice.choice((data[:at], data[at:]))


def _splice(data: bytes, dice: random.Random) -> bytes:
    """A stretch copied over, or into, another place."""
    start, at = _place(data, dice), _place(data, dice)
    part = data[start : start + dice.choice((1, 4, 16, 200))]
    return data[:at] + part + data[at + dice.choice((0, len(part))) :]


def _cut(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + data[at + dice.choice((1, 2, 4, 8, 100)) :]


def _number(data: bytes, dice: random.Random) -> bytes:
    """A fixed-width number, which lengths, counts and offsets are, becomes an edge case or moves a little."""
    kind = dice.choice((">b", "<h", ">h", "<i", ">i", "<q", ">q"))
    size = struct.calcsize(kind)
    at = min(_place(data, dice), max(len(data) - size, 0))
    if len(data) < size:
        return data
    (now,) = struct.unpack_from(kind, data, at)
    limit = 1 << (8 * size - 1)
    value = dice.choice((dice.choice(_EDGES), now + dice.choice((-1, 1, 7, 1000)), -now))
    return data[:at] + struct.pack(kind, (value + limit) % (2 * limit) - limit) + data[at + size :]


def _varint(data: bytes, dice: random.Random) -> bytes:
    """A variable-length number of avro or thrift: very long, or without an end."""
    at = _place(data, dice)
    long = dice.choice((b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 12))
    return data[:at] + long + data[at + dice.choice((0, 1, len(long))) :]


def _fill(data: bytes, dice: random.Random) -> bytes:
    at, size = _place(data, dice), dice.choice((4, 16, 512))
    part = data[at : at + size]
    return data[:at] + dice.choice((b"\0", b"\xff", b"\x80")) * len(part) + data[at + size :]


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _byte, _byte, _truncate, _splice, _cut, _number, _number, _varint, _fill,
)  # fmt: skip
