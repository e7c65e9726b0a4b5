"""Where each key of a table is: the global index of tables whose keys may move between partitions. Pure.

A key is known by 96 bits of two hashes of its serialised row. Two keys that agree in the first 64 bits only
are noticed and refused, never confused (chances are 1 in 15,000 with 50 million keys, 1 in 40 with a
billion). Memory: 16 bytes a key, at most three times that while it is made or grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.index.xxhash import xxhash64
from lakecore.row.binary_batch import encode_batch
from lakecore.row.hashing import hash_rows
from lakecore.row.values import normal_array
from lakecore.types.datatypes import RowType

__all__ = ["KeyPlaces", "KeyPrints", "key_prints"]

Places = npt.NDArray[np.int32]

_NOWHERE = -1
_MERGE_SHARE = 8
_CHUNK = 1 << 16
_WORD = 8


@dataclass(frozen=True, slots=True)
class KeyPrints:
    """The hashes of the keys of some rows."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.high)

    def take(self, rows: npt.NDArray[Any]) -> KeyPrints:
        return KeyPrints(self.high[rows], self.low[rows])


def key_prints(batch: pa.RecordBatch, key_type: RowType) -> KeyPrints:
    """Of the columns of `key_type`, found by name."""
    columns = [normal_array(batch.column(field.name), field.type) for field in key_type.fields]
    high = np.empty(batch.num_rows, np.uint64)
    for start in range(0, batch.num_rows, _CHUNK):
        rows = encode_batch([column.slice(start, _CHUNK) for column in columns], key_type)
        offsets = pa.py_buffer((rows.starts * _WORD).astype(np.int64))
        words = pa.py_buffer(np.ascontiguousarray(rows.words))
        binary = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), [None, offsets, words])
        high[start : start + _CHUNK] = xxhash64(binary)
    return KeyPrints(high, hash_rows(columns, key_type))


class KeyPlaces:
    """Keys and the number of the place where each is. `table` names the table in errors."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._known = _Sorted(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        self._recent = self._known

    @classmethod
    def of(cls, table: str, keys: Sequence[tuple[KeyPrints, int | Places]]) -> KeyPlaces:
        """Every key with its place: one for all prints of a pair, or one each.

        Raises CorruptDataError when a key is in two of them.
        """
        made = cls(table)
        if keys:
            high = np.concatenate([prints.high for prints, _ in keys])
            low = np.concatenate([prints.low for prints, _ in keys])
            there = [np.broadcast_to(np.asarray(place, np.int32), prints.low.shape) for prints, place in keys]
            places = np.concatenate(there)
            made._known = _Sorted.of(high, low, places)
            twice = np.flatnonzero(made._known.high[1:] == made._known.high[:-1])
            if len(twice):
                at = int(twice[0])
                made.check_same(made._known.low[at : at + 1], made._known.low[at + 1 : at + 2])
                raise CorruptDataError(table, f"{len(twice)} keys are in two places at once")
        return made

    def __len__(self) -> int:
        return len(self._known.high) + len(self._recent.high)

    def all_keys(self) -> Sequence[tuple[KeyPrints, Places]]:
        """Every key with its place, once."""
        return [(KeyPrints(part.high, part.low), part.places) for part in (self._known, self._recent)]

    def find(self, prints: KeyPrints) -> Places:
        """The place of each key, -1 for none. Raises UnsupportedError for keys that only seem equal."""
        found = np.full(len(prints), _NOWHERE, np.int32)
        for part in (self._known, self._recent):
            at, there = part.locate(prints.high)
            self.check_same(part.low[at[there]], prints.low[there])
            found[there] = part.places[at[there]]
        return found

    def put(self, prints: KeyPrints, places: Places) -> None:
        """Set the place of keys, each given once."""
        new = np.ones(len(prints), bool)
        for part in (self._known, self._recent):
            at, there = part.locate(prints.high)
            part.places[at[there]] = places[there]
            new &= ~there
        added = np.flatnonzero(new)
        if len(added):
            self._recent = self._recent.with_more(prints.high[added], prints.low[added], places[added])
        if len(self._recent.high) * _MERGE_SHARE > len(self._known.high):
            recent, self._recent = self._recent, self._recent.empty()
            self._known = self._known.with_more(recent.high, recent.low, recent.places)

    def check_same(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        """The second hashes of keys whose first hashes are equal. Raises UnsupportedError."""
        if (left != right).any():
            raise UnsupportedError(
                f"table {self._table}: two keys have the same 64-bit hash, which this release cannot tell "
                "apart; use another engine"
            )


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Keys in order of their first hash."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.int32]
    places: Places

    @classmethod
    def of(cls, high: npt.NDArray[Any], low: npt.NDArray[Any], places: npt.NDArray[Any]) -> _Sorted:
        order = np.argsort(high, kind="stable")
        return cls(high[order], low[order], places[order].astype(np.int32))

    def empty(self) -> _Sorted:
        return _Sorted(self.high[:0], self.low[:0], self.places[:0])

    def locate(self, wanted: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Where each hash is or would be, and whether it is there."""
        if len(self.high) == 0:
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
        at = np.minimum(np.searchsorted(self.high, wanted), len(self.high) - 1)
        return at, self.high[at] == wanted

    def with_more(self, high: npt.NDArray[Any], low: npt.NDArray[Any], places: npt.NDArray[Any]) -> _Sorted:
        return _Sorted.of(
            np.concatenate([self.high, high]),
            np.concatenate([self.low, low]),
            np.concatenate([self.places, places]),
        )
