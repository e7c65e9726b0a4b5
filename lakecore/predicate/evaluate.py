"""This module evaluates predicates on Arrow batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.predicate.tree import (
    And,
    AtKey,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    Not,
    NotIn,
    Or,
    Predicate,
    StartsWith,
    negated,
)
from lakecore.types.arrow import arrow_values

__all__ = ["COMPARE", "mask"]

COMPARE: dict[Comparison, Callable[..., Any]] = {
    Comparison.EQ: pc.equal,
    Comparison.NE: pc.not_equal,
    Comparison.LT: pc.less,
    Comparison.LE: pc.less_equal,
    Comparison.GT: pc.greater,
    Comparison.GE: pc.greater_equal,
}


def mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return True for the rows of `batch` that satisfy the predicate; unknown is false. NaN equals nothing,
    and -0.0 equals 0.0, in lists (IN), too.

    Columns are found by name and may be of any Arrow type that holds the column's values.
    """
    return pc.fill_null(_evaluate(predicate, batch), False)


def _evaluate(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return the value of the predicate for each row, in three-valued logic: null is unknown."""
    match predicate:
        case And(children=children):
            return reduce(pc.and_kleene, (_evaluate(child, batch) for child in children))
        case Or(children=children):
            return reduce(pc.or_kleene, (_evaluate(child, batch) for child in children))
        case Not(child=child):
            return _evaluate(negated(child), batch)
        case AtKey(key=key, leaf=leaf):
            return _leaf(leaf, _map_values(batch.column(leaf.column), key))
        case _:
            return _leaf(predicate, batch.column(predicate.column))


def _map_values(maps: pa.MapArray, key: Any) -> pa.Array:
    """Return, per row, the last value under `key`; null where the map or the key is missing."""
    return pc.map_lookup(maps, arrow_values([key], maps.type.key_type)[0], "last")


def _leaf(leaf: Leaf, column: pa.Array) -> pa.BooleanArray:
    match leaf:
        case IsNull():
            return pc.is_null(column)
        case IsNotNull():
            return pc.is_valid(column)
        case _:
            return _compare(leaf, _plain(column))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _compare(leaf: Compare | In | NotIn | StartsWith | Like, column: pa.Array) -> pa.BooleanArray:
    match leaf:
        case Compare(op=op, value=value):
            return COMPARE[op](column, arrow_values([value], column.type)[0])
        case In(values=values):
            return _membership(column, values)
        case NotIn(values=values):
            return pc.invert(_membership(column, values))
        case StartsWith(prefix=prefix):
            return pc.starts_with(column, prefix)
        case Like(pattern=pattern, matches=matches):
            result = pc.match_like(column, pattern)
            return result if matches else pc.invert(result)


def _membership(column: pa.Array, values: tuple[Any, ...]) -> pa.BooleanArray:
    listed = arrow_values(values, column.type)
    if pa.types.is_floating(column.type):  # as `=` compares them, but `is_in` does not
        zero = pa.scalar(0.0, column.type)
        listed = pc.add(listed.filter(pc.invert(pc.is_nan(listed))), zero)
        column = pc.add(column, zero)  # -0.0 becomes 0.0
    matches = pc.is_in(column, listed)
    return pc.if_else(pc.is_valid(column), matches, pa.scalar(None, pa.bool_()))
