"""This module has a lookup file: the local copy of one data file, in blocks that are searched by their first
keys.

Why Arrow blocks of our own and no embedded store: measured on 1 million rows of five columns (two busy
cores), 1 million keys at once took 0.2 s, with lmdb 3.4 s, RocksDB 7.9 s and SQLite 11.7 s, because a store
of single rows makes Python values of each; the copy was made in 0.2 s, by the others in 1.0 to 4.4 s; one
warm key took 13 us, in the others 2 to 12 us.

The keys of blocks, their places and the bloom filter stay in memory (about a byte a row), blocks are read
when they are needed and kept by the cache of the process. The bloom filter is asked before a block is read,
and not for blocks that are in memory, where a search is cheaper. A lookup of many keys costs a binary search
each, and reads each block once at most, then again for the rows where the cache is too small to keep it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.lookup.query.block import Block, BlockPlace, DamagedCopyError, NotInMemoryError, decode
from lakecore.lookup.query.block_cache import BlockCache
from lakecore.lookup.query.key_filter import KeyFilter
from lakecore.lookup.query.local_disk import StoredFile
from lakecore.lookup.query.packed_keys import KeyColumns, OneKey, Widths
from lakecore.types.datatypes import RowType

__all__ = ["FileIndex", "Hits", "LookupFile"]

Ints = np.ndarray[Any, Any]

_WIDEST_KEY = 256
_MOST_PADDING = 4
"""Packed keys that take more bytes than `_WIDEST_KEY`, and so many times the bytes of their texts, are
compared as Python values, which costs some 20 us a key: one long text makes all packed keys as long.
"""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Hits:
    """These are the rows of some keys in one file."""

    positions: Ints
    """This is the position of the row of each key in the data file; -1 where it has none."""
    kinds: Ints
    sequences: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndex:
    """It says what is in the blocks of a lookup file, and where they are."""

    key_names: tuple[str, ...]
    key_type: RowType
    places: tuple[BlockPlace, ...]
    starts: Ints
    """This is the position of the first row of each block, and the number of rows at the end."""
    firsts: KeyColumns
    """These are the first keys of the blocks."""
    widths: Widths
    text_bytes: int
    """These are the bytes of the texts of all keys."""
    filter: KeyFilter | None

    @property
    def is_wide(self) -> bool:
        """Return whether packed keys would be mostly padding."""
        width = sum(self.widths)
        return width > _WIDEST_KEY and width * int(self.starts[-1]) > _MOST_PADDING * self.text_bytes


class LookupFile:
    """It finds rows of one data file by key and by position. Several threads may use it."""

    def __init__(self, stored: StoredFile, index: FileIndex, blocks: BlockCache) -> None:
        self.stored = stored
        self._index = index
        self._blocks = blocks
        self._number = next(_numbers)
        self._wide = index.is_wide

    @property
    def size(self) -> int:
        """Return its bytes on disk."""
        return self.stored.size

    def remove(self) -> None:
        """Remove the local copy. Who reads from it can go on."""
        self.stored.remove()
        self._forget()

    def discard(self) -> None:
        """Remove the local copy, which is damaged, also where other processes share it."""
        self.stored.discard()
        self._forget()

    def _forget(self) -> None:
        self._blocks.drop((self._number, at) for at in range(len(self._index.places)))

    def find_one(self, key: OneKey, *, in_memory: bool = False) -> tuple[Block, int, int] | None:
        """Return the block of one key, its row there and its position in the data file; None without one.

        With `in_memory` no block is read: NotInMemoryError is raised in its place.
        """
        if self._wide:
            value = key.values()[0]
            at = bisect_right(self._first_values, value) - 1
        else:
            value = key.plain(self._index.widths)
            at = bisect_right(self._plain_firsts, value) - 1
        if at < 0:
            return None
        block = self._blocks.find((self._number, at))
        if block is None:
            bloom = self._index.filter
            if bloom is not None and not bloom.may_have(key.hashes)[0]:
                return None
            if in_memory:
                raise NotInMemoryError
            block = self._block(at)
        row = block.row_of_value(value) if self._wide else block.row(value)
        return None if row < 0 else (block, row, int(self._index.starts[at]) + row)

    def find(self, keys: KeyColumns) -> Hits:
        """Return the rows of `keys`."""
        count = len(keys)
        hits = Hits(np.full(count, -1, np.int64), np.zeros(count, np.int8), np.zeros(count, np.int64))
        values = keys.values() if self._wide else None
        for at, rows in _groups_of(self._blocks_of(keys, values)):
            block = self._blocks.find((self._number, at))
            if block is None:
                rows = self._filter(keys, rows)
                if not len(rows):
                    continue
                block = self._block(at)
            if values is None:
                block_rows = block.rows(keys.packed(self._index.widths)[rows])
            else:
                block_rows = np.array([block.row_of_value(values[row]) for row in rows.tolist()], np.int64)
            have = block_rows >= 0
            rows, block_rows = rows[have], block_rows[have]
            hits.positions[rows] = self._index.starts[at] + block_rows
            if block.kinds is not None:
                hits.kinds[rows] = block.kinds[block_rows]
            if block.sequences is not None:
                hits.sequences[rows] = block.sequences[block_rows]
        return hits

    def rows(self, positions: Ints, columns: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Yield the rows at these positions, with their places in `positions`."""
        blocks = np.searchsorted(self._index.starts, positions, "right") - 1
        for at, rows in _groups_of(blocks):
            batch = self._block(at).batch.select(list(columns))
            yield rows, batch.take(pa.array(positions[rows] - self._index.starts[at]))

    def _block(self, at: int) -> Block:
        """Return a block. Raises DamagedCopyError when it cannot be read back as it was written."""
        return self._blocks.get((self._number, at), lambda: self._read(at))

    def _read(self, at: int) -> Block:
        index = self._index
        place = index.places[at]
        try:
            batch = decode(self.stored.read(place.offset, place.length), place)
        except (DamagedCopyError, OSError, pa.ArrowException) as err:
            raise DamagedCopyError(self) from err
        return Block(batch, index.key_names, index.key_type, () if self._wide else index.widths)

    def _blocks_of(self, keys: KeyColumns, values: list[tuple[Any, ...]] | None) -> Ints:
        """Return the block that may have each key; -1 for none."""
        if values is not None:
            return np.array([bisect_right(self._first_values, value) - 1 for value in values], np.int64)
        return np.searchsorted(self._firsts, keys.packed(self._index.widths), "right") - 1

    def _filter(self, keys: KeyColumns, rows: Ints) -> Ints:
        return rows if self._index.filter is None else rows[self._index.filter.may_have(keys.hashes[rows])]

    @cached_property
    def _firsts(self) -> Ints:
        return self._index.firsts.packed(self._index.widths)

    @cached_property
    def _plain_firsts(self) -> list[Any]:
        return list(self._firsts.tolist())

    @cached_property
    def _first_values(self) -> list[tuple[Any, ...]]:
        return self._index.firsts.values()


def _groups_of(numbers: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each number that is not negative, with its places. Up to 65536 blocks sort in linear time."""
    small = len(numbers) and int(numbers.max()) < (1 << 15)
    order = np.argsort(numbers.astype(np.int16) if small else numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-2))
    for low, high in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        if ordered[low] >= 0:
            yield int(ordered[low]), order[low:high]
