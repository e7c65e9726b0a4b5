"""This module checks that the rows of a merge are in merge order: by key, and within a key by sequence. It
does no IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.verify.rules.order import Bools, Rank, compare_neighbours, key_at, ranks

__all__ = ["check_merge_order"]


def check_merge_order(
    unit: str, keys: Sequence[pa.Array], order: Sequence[pa.Array], *, descending: bool
) -> tuple[Bools, int]:
    """Return which rows share their key with the next one, and the number of ties.

    `order` holds the sequence fields, to which `descending` applies, then the sequence number. A tie is a
    pair of neighbours equal in key and order. Raises ProofError for rows out of order.
    """
    above, same = compare_neighbours([rank for key in keys for rank in ranks(key)])
    if above.any():
        row = int(above.argmax())
        raise ProofError(
            unit, f"key {key_at(keys, row)} comes before key {key_at(keys, row + 1)}, which is out of order"
        )
    pairs = np.flatnonzero(same)
    if not len(pairs):
        return same, 0
    later, equal = _compare_pairs(_order_ranks(order, descending), pairs)
    if later.any():
        row = int(pairs[later.argmax()])
        raise ProofError(unit, f"rows of key {key_at(keys, row)} are not in the order of their sequence")
    return same, int(equal.sum())


def _order_ranks(order: Sequence[pa.Array], descending: bool) -> list[Rank]:
    *fields, number = order
    return [rank for field in fields for rank in ranks(field, descending=descending)] + [*ranks(number)]


def _compare_pairs(columns: Sequence[Rank], pairs: Any) -> tuple[Bools, Bools]:
    """Return (row > next row, row == next row) for the rows in `pairs`."""
    if len(pairs) * 4 > len(columns[0].values):
        above, same = compare_neighbours(columns)
        return above[pairs], same[pairs]
    both = np.stack((pairs, pairs + 1), axis=1).ravel()
    picked = [Rank(_pick(column.values, both), column.falling) for column in columns]
    above, same = compare_neighbours(picked)
    return above[::2], same[::2]


def _pick(values: Any, rows: Any) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
