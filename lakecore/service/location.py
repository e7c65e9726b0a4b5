"""This module chooses the server of a bucket. Pure. Source: Paimon's ChannelComputer and MurmurHashUtils."""

from __future__ import annotations

import struct

__all__ = ["partition_hash", "server_of"]

_MASK = 0xFFFFFFFF
_SEED = 42
_ARITY = 4


def server_of(partition: bytes, bucket: int, servers: int) -> int:
    """Return the number of the server of a bucket, in [0, `servers`). `partition` is a serialised row."""
    code = partition_hash(partition)
    first = min(abs(code), 0x7FFFFFFF) % servers
    return (first + bucket) % servers


def partition_hash(partition: bytes) -> int:
    """Return Java's hash of a serialised row: Murmur3 over its words, without the number of fields."""
    data = partition[_ARITY:]
    code = _SEED
    for (word,) in struct.iter_unpack("<I", data[: len(data) // 4 * 4]):
        mixed = _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
        code = (_rotate(code ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    code ^= len(data)
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    return code - (1 << 32) if code >> 31 else code


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
