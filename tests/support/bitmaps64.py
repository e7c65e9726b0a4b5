"""Small 64-bit bitmaps as Java's Roaring64Bitmap serialises them, united from bitmaps of one key."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable

from pyroaring import BitMap

from lakecore.row.roaring.bitmap32 import containers
from lakecore.row.roaring.bitmap64 import union64

__all__ = ["bitmap64"]


def bitmap64(numbers: Iterable[tuple[int, int]]) -> bytes:
    """Numbers as their upper 48 bits (signed) and their lower 16 bits."""
    by_key: dict[int, list[int]] = {}
    for key, low in numbers:
        by_key.setdefault(key, []).append(low)
    return functools.reduce(
        lambda a, b: union64(a, b, "test"), (_one_key(*item) for item in by_key.items()), b"\0"
    )


def _one_key(key: int, lows: list[int]) -> bytes:
    found = BitMap(lows)
    found.run_optimize()
    ((_, container),), _ = containers(found.serialize())
    leaf = struct.pack("<BhB", 4, 0, 0) + (key % (1 << 48)).to_bytes(6, "big") + struct.pack("<q", 0)
    body = struct.pack("<iBiBBi", 1, 0xFE, 1, 1, container.kind, container.cardinality) + container.body
    return struct.pack("<Bq", 1, 1) + leaf + body + struct.pack("<qii", 1, 0, 0)
