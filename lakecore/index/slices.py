"""This module stores numbers as bit slices: bitmap i holds the rows whose number has bit i set. Comparing
is set algebra.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.row.roaring.bitmap32 import BITSET_BYTES, MAX_ARRAY, PLAIN

__all__ = ["Slices", "add_bits"]

_HEAD = struct.Struct("<IIHHI")


@dataclass(frozen=True, slots=True)
class Slices:
    """`rows` are those that have a number (0 or more). `slices` begin with the lowest bit."""

    rows: BitMap
    slices: Sequence[BitMap]

    def equal(self, value: int) -> BitMap:
        if value < 0 or value >> len(self.slices):
            return BitMap()
        matches = self.rows.copy()
        for i, rows in enumerate(self.slices):
            matches = matches & rows if value >> i & 1 else matches - rows
        return matches

    def below(self, value: int) -> BitMap:
        """Return the rows with a number less than `value`."""
        if value <= 0:
            return BitMap()
        if value >> len(self.slices):
            return self.rows.copy()
        less, same = BitMap(), self.rows.copy()
        for i in range(len(self.slices) - 1, -1, -1):
            if value >> i & 1:
                less |= same - self.slices[i]
                same &= self.slices[i]
            else:
                same -= self.slices[i]
        return less

    def within(self, low: int, high: int) -> BitMap:
        """Return the rows with a number from `low` to `high`, both included."""
        return self.below(high + 1) - self.below(low)


def add_bits(slices: Sequence[BitMap], rows: npt.NDArray[np.uint32], numbers: npt.NDArray[np.uint64]) -> None:
    """Add rows, in order, with their numbers; there is a slice for every bit that occurs.

    Memory: a byte for each bit of the numbers of 65,536 rows, whose containers are made at once.
    """
    keys = rows >> 16
    for key in np.unique(keys).tolist():
        first, end = np.searchsorted(keys, [key, key + 1])
        planes = _planes(rows[first:end] - np.uint32(key << 16), numbers[first:end], len(slices))
        counts = np.bitwise_count(planes).sum(axis=1, dtype=np.int64)
        for bitmap, plane, count in zip(slices, planes, counts.tolist(), strict=False):
            if count:
                bitmap |= _container(key, plane, count)


def _planes(
    places: npt.NDArray[np.uint32], numbers: npt.NDArray[np.uint64], bits: int
) -> npt.NDArray[np.uint8]:
    """Return a bit set over the places for each bit, the lowest first, which is a transposed matrix of
    bits.
    """
    width = (bits + 7) // 8
    first, end = int(places[0]), int(places[-1]) + 1
    dense = np.zeros((end, width), np.uint8)
    used = slice(first, end) if end - first == len(places) else places
    dense[used] = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    turned = np.ascontiguousarray(np.unpackbits(dense, axis=1, bitorder="little").T)
    return np.packbits(turned, axis=1, bitorder="little")


def _container(key: int, plane: npt.NDArray[np.uint8], count: int) -> BitMap:
    """Return the bitmap of `count` rows whose upper halves are `key`, from the bits of the lower ones."""
    if count > MAX_ARRAY:
        body = plane.tobytes().ljust(BITSET_BYTES, b"\0")
    else:
        body = np.flatnonzero(np.unpackbits(plane, bitorder="little")).astype("<u2").tobytes()
    return BitMap.deserialize(_HEAD.pack(PLAIN, 1, key, count - 1, _HEAD.size) + body)
