"""This module decides which blocks of rows of the largest run of a merge may be copied: no other file of the
merge has keys in their range. It knows blocks of rows by their first keys, and is told the keys of the other
files. Pure.

A block has the keys from its first one to before that of the next block. So ranges of blocks tile the keys:
what lies between two blocks counts for the one before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.key_order import comparable
from lakecore.read.file.key_range import Key, KeyRange, ordered_key, rank
from lakecore.types.datatypes import RowType

__all__ = ["KeyBlock", "KeyBlocks", "in_key_order"]

_LEAST_FREE = 2
"""Copies pay where the blocks that no other file touches have half of the bytes of all blocks."""


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """It stands for rows that follow one another in a file of the run: those of a row group or of pages
    of one, or (`group` None) of a whole file, which must be decoded.
    """

    file: int
    """It is the number of the file in the unit."""
    group: int | None
    first_key: Key
    size: int


def in_key_order(blocks: Sequence[KeyBlock]) -> bool:
    """Return whether each block begins above the one before."""
    return all(_order(left.first_key) < _order(right.first_key) for left, right in pairwise(blocks))


class KeyBlocks:
    """It has the blocks of a run, and knows of which of them other files have keys. `bounds` are the keys of
    the unit: blocks that are not within them belong to nobody, and are decoded.
    """

    def __init__(self, blocks: Sequence[KeyBlock], bounds: KeyRange, key_type: RowType) -> None:
        self._blocks = tuple(blocks)
        self._firsts = [_order(block.first_key) for block in blocks]
        self._key_type = key_type
        low = None if bounds.low is None else _order(bounds.low)
        high = None if bounds.high is None else _order(bounds.high)
        numbers = range(len(blocks))
        self._free = {
            number
            for number in numbers
            if blocks[number].group is not None and self._is_inside(number, low, high)
        }
        self._size = sum(blocks[number].size for number in numbers if self._meets(number, low, high))
        self._free_size = sum(blocks[number].size for number in self._free)
        self.keys_before = False
        """It tells whether other files have keys below the first block."""

    @property
    def has_half(self) -> bool:
        """Return whether enough blocks are free for copies to pay."""
        return bool(self._free) and self._free_size * _LEAST_FREE >= self._size

    def mark(self, keys: pa.RecordBatch) -> None:
        """Take away the blocks of keys of another file, which are in order. It costs a binary search a
        block.
        """
        row = 0
        while row < keys.num_rows:
            number = bisect_right(self._firsts, ordered_key(keys, row, self._key_type)) - 1
            if number < 0:
                self.keys_before = True
            elif number in self._free:
                self.discard((number,))
            if number + 1 == len(self._blocks):
                return
            row += max(1, rank(keys.slice(row), self._blocks[number + 1].first_key, self._key_type))

    def discard(self, numbers: Iterable[int]) -> None:
        """Take away free blocks that are not copied for another reason."""
        for number in numbers:
            self._free.discard(number)
            self._free_size -= self._blocks[number].size

    def ranges(self) -> tuple[range, ...]:
        """Return the numbers of free blocks, those that follow one another together."""
        ranges: list[range] = []
        for number in sorted(self._free):
            if ranges and ranges[-1].stop == number:
                ranges[-1] = range(ranges[-1].start, number + 1)
            else:
                ranges.append(range(number, number + 1))
        return tuple(ranges)

    def _end(self, number: int) -> Key | None:
        """Return the key before which a block ends; None for the last one."""
        return self._firsts[number + 1] if number + 1 < len(self._firsts) else None

    def _is_inside(self, number: int, low: Key | None, high: Key | None) -> bool:
        first, end = self._firsts[number], self._end(number)
        if low is not None and first[: len(low)] < low:
            return False
        if high is None:
            return True
        return end is not None and (end[: len(high)] < high or end == high)

    def _meets(self, number: int, low: Key | None, high: Key | None) -> bool:
        first, end = self._firsts[number], self._end(number)
        below = low is not None and end is not None and end[: len(low)] <= low
        return not below and not (high is not None and first[: len(high)] >= high)


def _order(key: Key) -> tuple[Any, ...]:
    return tuple(map(comparable, key))
