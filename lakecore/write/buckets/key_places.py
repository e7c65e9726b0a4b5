"""This module has the global index of tables whose keys may move between partitions: the place of each
key. It is pure.

A key is identified by 96 bits of two hashes of its serialised row; keys that agree in the first 64 only
(there are some in one of 40 tables with a billion keys) are two keys. The chance that two agree in all bits
is 1 in 100 billion with a billion keys; then the later one is taken for the other. Memory: 16 bytes a key, at
most three times that while it is built or grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.index.xxhash import xxhash64
from lakecore.row.binary_batch import encode_batch
from lakecore.row.hashing import hash_rows
from lakecore.row.values import normal_array
from lakecore.types.datatypes import RowType

__all__ = ["KeyHashes", "KeyPlaces", "hash_keys"]

Places = npt.NDArray[np.int32]

_NOWHERE = -1
_MERGE_SHARE = 8
_CHUNK = 1 << 16
_WORD = 8


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """These are the hashes of the keys of some rows."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.high)

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Return the rows in order of their hashes; rows of one key keep their order."""
        order = np.argsort(self.high, kind="stable")
        high, low = self.high[order], self.low[order]
        if ((high[1:] == high[:-1]) & (low[1:] != low[:-1])).any():
            order = np.lexsort((self.low, self.high))
        return order.astype(np.int64)

    @property
    def firsts(self) -> npt.NDArray[np.bool_]:
        """Return the mask of the first row of each key; the rows must be ordered."""
        first = np.ones(len(self), bool)
        first[1:] = (self.high[1:] != self.high[:-1]) | (self.low[1:] != self.low[:-1])
        return first

    def take(self, rows: npt.NDArray[Any]) -> KeyHashes:
        return KeyHashes(self.high[rows], self.low[rows])


def hash_keys(batch: pa.RecordBatch, key_type: RowType) -> KeyHashes:
    """Hash the columns of `key_type`, found by name."""
    columns = [normal_array(batch.column(field.name), field.type) for field in key_type.fields]
    high = np.empty(batch.num_rows, np.uint64)
    for start in range(0, batch.num_rows, _CHUNK):
        rows = encode_batch([column.slice(start, _CHUNK) for column in columns], key_type)
        offsets = pa.py_buffer((rows.starts * _WORD).astype(np.int64))
        words = pa.py_buffer(np.ascontiguousarray(rows.words))
        binary = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), [None, offsets, words])
        high[start : start + _CHUNK] = xxhash64(binary)
    return KeyHashes(high, hash_rows(columns, key_type))


class KeyPlaces:
    """It has keys and the number of the place of each. `table` names the table in errors."""

    def __init__(self, table: str) -> None:
        self._table = table
        nothing = KeyHashes(np.zeros(0, np.uint64), np.zeros(0, np.int32))
        self._sorted = _SortedKeys(nothing, np.zeros(0, np.int32))
        self._recent = self._sorted

    @classmethod
    def of(cls, table: str, keys: Sequence[tuple[KeyHashes, int | Places]]) -> KeyPlaces:
        """Build the index of keys and their places: one place for all prints of a pair, or one each.

        Raises CorruptDataError when a key is in two of them.
        """
        key_places = cls(table)
        if keys:
            high = np.concatenate([prints.high for prints, _ in keys])
            low = np.concatenate([prints.low for prints, _ in keys])
            there = [np.broadcast_to(np.asarray(place, np.int32), prints.low.shape) for prints, place in keys]
            places = np.concatenate(there)
            key_places._sorted = _SortedKeys.of(KeyHashes(high, low), places)
            if twice := int((~key_places._sorted.prints.firsts).sum()):
                raise CorruptDataError(table, f"{twice} keys are in two partitions or buckets at once")
        return key_places

    def __len__(self) -> int:
        return len(self._sorted.prints) + len(self._recent.prints)

    def all_keys(self) -> Sequence[tuple[KeyHashes, Places]]:
        """Return every key with its place, once."""
        return [(part.prints, part.places) for part in (self._sorted, self._recent)]

    def find(self, prints: KeyHashes) -> Places:
        """Return the place of each key, -1 for none."""
        numbers = np.full(len(prints), _NOWHERE, np.int32)
        for part in (self._sorted, self._recent):
            at, there = part.locate(prints)
            numbers[there] = part.places[at[there]]
        return numbers

    def put(self, prints: KeyHashes, places: Places) -> None:
        """Set the place of keys, each given once."""
        new = np.ones(len(prints), bool)
        for part in (self._sorted, self._recent):
            at, there = part.locate(prints)
            part.places[at[there]] = places[there]
            new &= ~there
        added = np.flatnonzero(new)
        if len(added):
            self._recent = self._recent.with_more(prints.take(added), places[added])
        if len(self._recent.prints) * _MERGE_SHARE > len(self._sorted.prints):
            recent, self._recent = self._recent, self._recent.empty()
            self._sorted = self._sorted.with_more(recent.prints, recent.places)


@dataclass(frozen=True, slots=True)
class _SortedKeys:
    """Keys in order of their hashes."""

    prints: KeyHashes
    places: Places

    @classmethod
    def of(cls, prints: KeyHashes, places: npt.NDArray[Any]) -> _SortedKeys:
        order = prints.order
        return cls(prints.take(order), places[order].astype(np.int32))

    def empty(self) -> _SortedKeys:
        return _SortedKeys(self.prints.take(np.zeros(0, np.int64)), self.places[:0])

    def locate(self, hashes: KeyHashes) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return where each key is or may be, and whether it exists. It needs as many passes as keys share a
        first hash.
        """
        high, low = self.prints.high, self.prints.low
        if len(high) == 0:
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
        at = np.minimum(np.searchsorted(high, hashes.high), len(high) - 1)
        same = high[at] == hashes.high
        there = same & (low[at] == hashes.low)
        open_rows = np.flatnonzero(same & ~there)
        while len(open_rows):
            at[open_rows] += 1
            open_rows = open_rows[at[open_rows] < len(high)]
            open_rows = open_rows[high[at[open_rows]] == hashes.high[open_rows]]
            is_equal = low[at[open_rows]] == hashes.low[open_rows]
            there[open_rows[is_equal]] = True
            open_rows = open_rows[~is_equal]
        return np.minimum(at, len(high) - 1), there

    def with_more(self, prints: KeyHashes, places: npt.NDArray[Any]) -> _SortedKeys:
        both = KeyHashes(
            np.concatenate([self.prints.high, prints.high]), np.concatenate([self.prints.low, prints.low])
        )
        return _SortedKeys.of(both, np.concatenate([self.places, places]))
