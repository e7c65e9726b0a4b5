"""This module decides which value column each key of a row takes in the layout shared-shredding. It uses no
Arrow.

Rules of the format: keys have ids, numbered from 0 on in the order in which a file meets them. `plain`: the
keys of a row take the columns from the first on, in their order; `sequential`: in the order of their ids;
`lru`: a key stays in its column until another key needs it, which takes a free one first, then the one that
was used longest ago. Keys that find no column overflow.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

__all__ = ["Placement", "Placer", "placer"]

Ints = np.ndarray[Any, Any]
Placer = Callable[[Ints, Ints], Ints]
"""It maps rows (ascending, one for each entry) and ids to columns; -1 is overflow. It sees the rows of a
file in order.
"""


class Placement(Enum):
    PLAIN = "plain"
    SEQUENTIAL = "sequential"
    LRU = "lru"


def placer(placement: Placement, columns: int) -> Placer:
    """Return the rule for one file of that many columns. An id that a row has twice overflows the second
    time.
    """
    place = _Lru(columns) if placement is Placement.LRU else _leading(placement, columns)

    def placed(rows: Ints, ids: Ints) -> Ints:
        again = _repeat(rows, ids)
        if not again.any():
            return place(rows, ids)
        places = np.full(len(ids), -1, np.int64)
        places[~again] = place(rows[~again], ids[~again])
        return places

    return placed


def _repeat(rows: Ints, ids: Ints) -> Ints:
    order = np.lexsort((ids, rows))
    same = (np.diff(rows[order]) == 0) & (np.diff(ids[order]) == 0)
    again = np.zeros(len(ids), bool)
    again[order[1:][same]] = True
    return again


def _leading(placement: Placement, columns: int) -> Placer:
    def place(rows: Ints, ids: Ints) -> Ints:
        order = np.arange(len(ids)) if placement is Placement.PLAIN else np.lexsort((ids, rows))
        places = np.empty(len(ids), np.int64)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        lengths = np.diff(starts, append=len(rows))
        places[order] = np.arange(len(ids)) - np.repeat(starts, lengths)
        return np.where(places < columns, places, -1)

    return place


class _Lru:
    """While there are no more ids than columns, id and column are the same and no row is looked at alone."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._used = np.full(columns, -1, np.int64)
        self._rows = 0
        self._residents: dict[int, int] | None = None
        self._order: OrderedDict[int, int] = OrderedDict()

    def __call__(self, rows: Ints, ids: Ints) -> Ints:
        if not len(ids):
            return np.empty(0, np.int64)
        if self._residents is None and int(ids.max()) < self._columns:
            np.maximum.at(self._used, ids, rows + self._rows)
            self._rows += int(rows[-1]) + 1
            return ids
        if self._residents is None:
            used = [c for c in range(self._columns) if self._used[c] >= 0]
            self._residents = {c: c for c in used}
            self._order = OrderedDict((c, c) for c in sorted(used, key=lambda c: (self._used[c], c)))
        starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
        columns = np.empty(len(ids), np.int64)
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            places = self._row(sorted(ids[start:end].tolist()), self._residents)
            columns[start:end] = [places[number] for number in ids[start:end].tolist()]
        return columns

    def _row(self, ids: list[int], residents: dict[int, int]) -> dict[int, int]:
        """Return the columns by id. `_order` has the columns in use, from the one used longest ago, and their
        ids.
        """
        places = {number: residents[number] for number in ids if number in residents}
        used = set(places.values())
        for number in ids:
            if number in places:
                continue
            column = self._vacant(used)
            places[number] = column
            if column < 0:
                continue
            used.add(column)
            residents.pop(self._order.get(column, -1), None)
            residents[number] = column
            self._order[column] = number
        for column in sorted(used):
            self._order.move_to_end(column)
        return places

    def _vacant(self, used: set[int]) -> int:
        if len(self._order) < self._columns:
            return len(self._order)  # (columns are taken from the first on, and never given back)
        if len(used) == self._columns:
            return -1
        return next(column for column in self._order if column not in used)
