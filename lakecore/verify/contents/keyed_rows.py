"""This module collects what is known of the rows of one key-value file, batch by batch: order, bounds,
sequence numbers, deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.metadata.row_kind import RowKind
from lakecore.row.values import array_values
from lakecore.types.datatypes import DataField
from lakecore.verify.rules.order import KeyValues, compare_neighbours, key_at, ranks

__all__ = ["KeyedRows"]

_RETRACTS = [int(kind) for kind in RowKind if kind.retracts]


class KeyedRows:
    """It checks rows of which batches of covered columns are added in file order. It keeps only the ends
    of a batch.

    `key` has the columns that order the rows, nulls first. `in_order` tells whether keys strictly increase so
    far; with `repeats` they do not fall (changelog files). `first_key` and `last_key` are values to compare;
    `first` and `last` are the same keys as internal values (empty before the first row). `low` and `high` are
    sequence numbers.
    """

    def __init__(self, key: Sequence[DataField], *, repeats: bool = False) -> None:
        self._repeats = repeats
        self._key = tuple(key)
        self.in_order = True
        self.deletes = 0
        self.low = self.high = 0
        self.first: list[Any] = []
        self.last: list[Any] = []
        self.first_key: KeyValues | None = None
        self.last_key: KeyValues | None = None

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add columns: key columns first, sequence number and kind last."""
        if not len(columns[0]):
            return
        keys = columns[: len(self._key)]
        numbers, kinds = columns[-2].to_numpy(), columns[-1].to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        first = key_at(keys, 0)
        above, same = compare_neighbours([rank for key in keys for rank in ranks(key)])
        if self.last_key is None:
            self.first_key, self.first = first, self._values(keys, 0)
            self.low, self.high = low, high
        else:
            self.in_order &= self.last_key < first or (self._repeats and self.last_key == first)
        self.in_order &= not bool((above if self._repeats else above | same).any())
        self.last_key, self.last = key_at(keys, -1), self._values(keys, len(keys[0]) - 1)
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.deletes += int(np.isin(kinds, _RETRACTS).sum())

    def _values(self, keys: Sequence[pa.Array], row: int) -> list[Any]:
        pairs = zip(keys, self._key, strict=True)
        return [array_values(key[row : row + 1], field.type)[0] for key, field in pairs]
