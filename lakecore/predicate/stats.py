"""This module evaluates predicates on column statistics: which files or row groups can hold a matching
row. In doubt, it keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakecore.data_class import dataclass
from lakecore.predicate.tree import (
    And,
    AtKey,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Or,
    Predicate,
    StartsWith,
    negated,
)
from lakecore.types.arrow import arrow_values

__all__ = ["ColumnStats", "may_match"]

Kept = NDArray[np.bool_]

_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_WILD = "%_\\"
_MAX_LISTED = 64


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds of one column in many files: row i of each array is about file i.

    `minimum` and `maximum` are below or equal, and above or equal, to every value (they may be shortened
    texts); null is unknown. They are in the column's own Arrow type. `null_counts`: -1 is unknown.
    """

    minimum: pa.Array | None = None
    maximum: pa.Array | None = None
    null_counts: NDArray[np.int64] | None = None


def may_match(predicate: Predicate, stats: Mapping[str, ColumnStats], row_counts: NDArray[np.int64]) -> Kept:
    """Return True for each file that may have a row for which the predicate is true.

    Columns that `stats` lacks decide nothing. Vectorised: some 10 ms a condition for a million files.
    """
    match predicate:
        case And(children=children):
            return reduce(np.logical_and, (may_match(child, stats, row_counts) for child in children))
        case Or(children=children):
            return reduce(np.logical_or, (may_match(child, stats, row_counts) for child in children))
        case Not(child=child):
            return may_match(negated(child), stats, row_counts)
        case AtKey():
            return np.ones(len(row_counts), bool)
        case _:
            column = stats.get(predicate.column)
            if column is None:
                return np.ones(len(row_counts), bool)
            return _leaf(predicate, column, row_counts)


def _leaf(
    leaf: Compare | In | NotIn | IsNull | IsNotNull | StartsWith | Like,
    stats: ColumnStats,
    row_counts: NDArray[np.int64],
) -> Kept:
    if isinstance(leaf, IsNull):
        if stats.null_counts is None:
            return np.ones(len(row_counts), bool)
        return np.asarray(stats.null_counts != 0)
    matches = np.ones(len(row_counts), bool)
    if stats.null_counts is not None:
        matches = (stats.null_counts < row_counts) | (stats.null_counts < 0)
    for rule in _rules(leaf, stats):
        if rule is not None:
            matches &= np.asarray(pc.fill_null(rule, True).to_numpy(zero_copy_only=False))
    return matches


def _rules(leaf: Any, stats: ColumnStats) -> list[pa.BooleanArray | None]:
    """Return conditions that each must hold for the file to be kept; null is unknown, None is no
    condition.
    """
    low, high = _without_nan(stats.minimum), _without_nan(stats.maximum)
    match leaf:
        case Compare(op=op, value=value):
            return _compare(op, value, low, high)
        case In(values=values):
            return _membership(values, low, high)
        case NotIn(values=values):
            return [_differs(value, low, high) for value in values[:_MAX_LISTED]]
        case StartsWith(prefix=prefix):
            return _prefix(prefix, low, high)
        case Like(pattern=pattern, matches=True):
            literal = pattern[: min((i for i, c in enumerate(pattern) if c in _WILD), default=len(pattern))]
            return _prefix(literal, low, high) if literal else []
        case _:
            return []


def _without_nan(bounds: pa.Array | None) -> pa.Array | None:
    """Return the bounds, in which NaN is unknown, because it tells nothing."""
    if bounds is None or not pa.types.is_floating(bounds.type):
        return bounds
    return pc.if_else(pc.is_nan(bounds), pa.scalar(None, bounds.type), bounds)


def _scalar(value: Any, bounds: pa.Array) -> pa.Scalar:
    return arrow_values([value], bounds.type)[0]


def _compare(
    op: Comparison, value: Any, low: pa.Array | None, high: pa.Array | None
) -> list[pa.BooleanArray | None]:
    below = None if low is None else pc.less_equal(low, _scalar(value, low))
    above = None if high is None else pc.greater_equal(high, _scalar(value, high))
    match op:
        case Comparison.EQ:
            return [below, above]
        case Comparison.NE:
            return [_differs(value, low, high)]
        case Comparison.LE:
            return [below]
        case Comparison.GE:
            return [above]
        case Comparison.LT:
            return [None if low is None else pc.less(low, _scalar(value, low))]
        case Comparison.GT:
            return [None if high is None else pc.greater(high, _scalar(value, high))]


def _differs(value: Any, low: pa.Array | None, high: pa.Array | None) -> pa.BooleanArray | None:
    """Return the condition that some value differs from `value`, or None (no condition) for floats, which may
    hide NaN that no bound tells.
    """
    if low is None or high is None or pa.types.is_floating(low.type):
        return None
    same = pc.and_(pc.equal(low, _scalar(value, low)), pc.equal(high, _scalar(value, high)))
    return pc.invert(same)


def _membership(
    values: tuple[Any, ...], low: pa.Array | None, high: pa.Array | None
) -> list[pa.BooleanArray | None]:
    values = tuple(value for value in values if value == value)  # NaN equals nothing and has no order
    if not values:
        return [pa.array(np.zeros(len(bounds), bool)) for bounds in (low, high) if bounds is not None][:1]
    if low is None or high is None or len(values) > _MAX_LISTED:
        ordered = sorted(values)
        return [
            *_compare(Comparison.GE, ordered[0], low, high),
            *_compare(Comparison.LE, ordered[-1], low, high),
        ]
    inside = (
        pc.and_(pc.less_equal(low, _scalar(v, low)), pc.greater_equal(high, _scalar(v, high))) for v in values
    )
    return [reduce(pc.or_, inside)]


def _prefix(prefix: str, low: pa.Array | None, high: pa.Array | None) -> list[pa.BooleanArray | None]:
    """Return the conditions of a prefix: texts with it are in [prefix, next text of that length)."""
    after = _next_text(prefix)
    return [
        None if high is None else pc.greater_equal(high, pa.scalar(prefix, high.type)),
        None if low is None or after is None else pc.less(low, pa.scalar(after, low.type)),
    ]


def _next_text(prefix: str) -> str | None:
    """Return the least text above every text with this prefix, or None when there is none."""
    stem = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    if _SURROGATES[0] <= code <= _SURROGATES[1]:
        code = _SURROGATES[1] + 1
    return stem[:-1] + chr(code)
