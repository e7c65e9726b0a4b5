"""This module has an index from 64-bit hashes to places of rows: sorted blocks, of which only the first and
the last hash stay in memory.

It is built in bounded memory: hashes are sorted some millions at a time and cut into parts by their first
bits; then part by part is sorted. Only rows that share one hash must fit into memory at once, with 16 bytes
each.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.lookup.tables.blocks import BlockCache, BlockStore

__all__ = ["HashIndex", "HashIndexBuilder"]

Hashes: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.int64]
Sorted: TypeAlias = tuple[Hashes, Places]

_PER_BLOCK = 1 << 15
_BUFFER = 1 << 22
_PARTS = 256
_PART_SHIFT = np.uint64(56)


class HashIndex:
    """It never changes. Several threads may search it."""

    def __init__(self, store: BlockStore, firsts: Hashes, lasts: Hashes, cache: BlockCache[Any]) -> None:
        self._store = store
        self._firsts, self._lasts = firsts, lasts
        self._cache = cache

    def find(self, hashes: Hashes) -> tuple[Places, Places]:
        """Return the pairs of an index into `hashes` and the place of a row with that hash, in no order.

        It reads each block that a hash may be in once.
        """
        order = np.argsort(hashes, kind="stable")
        sought = hashes[order]
        block = np.searchsorted(self._lasts, sought, "left")
        last = np.searchsorted(self._firsts, sought, "right") - 1
        queries: list[Places] = []
        places: list[Places] = []
        while len(active := np.flatnonzero(block <= last)):
            for number in np.unique(block[active]).tolist():
                rows = active[block[active] == number] if len(active) > 1 else active
                block_places = self._in_block(number, sought[rows])
                queries.append(order[rows[block_places[0]]])
                places.append(block_places[1])
            block = block + 1
        if not queries:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(queries), np.concatenate(places)

    def close(self) -> None:
        """Forget the blocks that the cache has of this index."""
        self._cache.drop(self._store)

    def _in_block(self, number: int, sought: Hashes) -> tuple[Places, Places]:
        hashes, places = self._cache.get(self._store, number, lambda: self._load(number))
        low = np.searchsorted(hashes, sought, "left")
        counts = np.searchsorted(hashes, sought, "right") - low
        rows = np.repeat(np.arange(len(sought)), counts)
        ends = np.cumsum(counts)
        within = np.arange(len(rows)) - np.repeat(ends - counts, counts)
        return rows, places[np.repeat(low, counts) + within]

    def _load(self, number: int) -> tuple[Sorted, int]:
        data = self._store.read(number)
        return _halves(data), data.size


class HashIndexBuilder:
    """It takes hashes and places, and makes an index."""

    def __init__(self, directory: str | None, cache: BlockCache[Any]) -> None:
        self._directory = directory
        self._cache = cache
        self._hashes: list[Hashes] = []
        self._places: list[Places] = []
        self._count = 0
        self._spilled: BlockStore | None = None
        self._parts: list[list[int]] = [[] for _ in range(_PARTS)]
        self._store = BlockStore(directory)
        self._firsts: list[np.uint64] = []
        self._lasts: list[np.uint64] = []

    def add(self, hashes: Hashes, places: Places) -> None:
        """Add the rows at `places`."""
        self._hashes.append(hashes)
        self._places.append(places)
        self._count += len(hashes)
        if self._count >= _BUFFER and self._directory is not None:
            self._spill()

    def finish(self) -> HashIndex:
        """Return the index of all rows that were added."""
        if self._spilled is None:
            self._write(*self._sort())
        else:
            self._spill()
            for numbers in self._parts:
                parts = [_halves(self._spilled.read(number)) for number in numbers]
                if parts:
                    self._write(*_in_order([part[0] for part in parts], [part[1] for part in parts]))
            self._spilled = None
        firsts, lasts = np.array(self._firsts, np.uint64), np.array(self._lasts, np.uint64)
        return HashIndex(self._store, firsts, lasts, self._cache)

    def _sort(self) -> Sorted:
        hashes, places = self._hashes, self._places
        self._hashes, self._places, self._count = [], [], 0
        return _in_order(hashes, places)

    def _spill(self) -> None:
        """Write what is in memory, cut into parts by the first bits of the hash."""
        self._spilled = self._spilled or BlockStore(self._directory)
        hashes, places = self._sort()
        cuts = np.searchsorted(hashes >> _PART_SHIFT, np.arange(_PARTS + 1, dtype=np.uint64))
        for part in range(_PARTS):
            low, high = int(cuts[part]), int(cuts[part + 1])
            if high > low:
                self._parts[part].append(self._spilled.append(_pair(hashes[low:high], places[low:high])))

    def _write(self, hashes: Hashes, places: Places) -> None:
        for low in range(0, len(hashes), _PER_BLOCK):
            high = low + _PER_BLOCK
            self._store.append(_pair(hashes[low:high], places[low:high]))
            self._firsts.append(hashes[low])
            self._lasts.append(hashes[min(high, len(hashes)) - 1])


def _in_order(hashes: list[Hashes], places: list[Places]) -> Sorted:
    if not hashes:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    together, rows = np.concatenate(hashes), np.concatenate(places)
    order = np.argsort(together, kind="stable")
    return together[order], rows[order]


def _pair(hashes: Hashes, places: Places) -> bytes:
    return hashes.astype("<u8").tobytes() + places.astype("<i8").tobytes()


def _halves(data: Any) -> Sorted:
    words = np.frombuffer(data, "<u8")
    half = len(words) // 2
    return words[:half], words[half:].view("<i8")
