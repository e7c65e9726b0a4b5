"""This module selects the rows of a sorted file that can hold any of some keys: those of the pages whose
bounds enclose one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakecore.format.parquet.pages import KeyPage
from lakecore.metadata.key_order import comparable
from lakecore.row.values import array_values
from lakecore.types.datatypes import RowType

__all__ = ["KeyPageMarks"]

Key = tuple[Any, ...]
Rows = tuple[int, int]


class KeyPageMarks:
    """These are the pages of one file, marked by batches of keys."""

    def __init__(self, pages: Sequence[KeyPage], key_type: RowType) -> None:
        self._pages = pages
        self._key_type = key_type
        self._lows = [_bound(page.low) for page in pages]
        self._highs = [_bound(page.high) for page in pages]
        self._marks = [False] * len(pages)

    def mark(self, keys: pa.RecordBatch) -> None:
        """Mark the pages of these keys, which are in key order; columns have the names of the key.

        It costs two binary searches for each page that is between the first and the last key.
        """
        if not keys.num_rows:
            return
        rows = _Keys(keys, self._key_type)
        first, last = rows[0], rows[keys.num_rows - 1]
        page = bisect_left(self._lows, first)
        while page > 0 and not _below(self._highs[page - 1], first):
            page -= 1
        for number in range(page, len(self._pages)):
            if self._lows[number] > last:
                return
            if not self._marks[number]:
                self._marks[number] = self._encloses(rows, number)

    def ranges(self) -> list[Rows]:
        """Return the rows [start, stop) of the marked pages, in order, neighbours joined."""
        ranges: list[Rows] = []
        for page, is_marked in zip(self._pages, self._marks, strict=True):
            if not is_marked:
                continue
            start, stop = page.first_row, page.first_row + page.rows
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, stop))
        return ranges

    def _encloses(self, rows: _Keys, number: int) -> bool:
        """Return whether any key is within the bounds of a page: the first one that is not below it."""
        low, high = self._lows[number], self._highs[number]
        at = bisect_left(rows, low)
        return at < len(rows) and rows[at][: len(high)] <= high


class _Keys(Sequence[Key]):
    """Keys of a batch as values that compare in key order, for `bisect`."""

    def __init__(self, batch: pa.RecordBatch, key_type: RowType) -> None:
        self._columns = [(batch.column(field.name), field.type) for field in key_type.fields]
        self._count = int(batch.num_rows)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        return _bound(tuple(array_values(column.slice(row, 1), kind)[0] for column, kind in self._columns))


def _bound(key: Key) -> Key:
    """Encode text as the bytes that page bounds hold."""
    return tuple(comparable(value.encode() if isinstance(value, str) else value) for value in key)


def _below(high: Key, key: Key) -> bool:
    """Return whether a page up to `high` (a key or the beginning of one) ends below `key`."""
    return high < key[: len(high)]
