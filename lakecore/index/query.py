"""This module defines the query of an index, in the values it stores. A query is made from one condition of a
predicate.

Values of a fixed width are whole numbers in the order of their type (floats by their total order, timestamps
in milli- or microseconds); texts and bytes are bytes. An answer is a superset of the rows for which the
condition is true: rows are always filtered again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

from lakecore.data_class import dataclass
from lakecore.index.values import COARSE_DIGITS, is_text, stored_value
from lakecore.predicate.tree import (
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    NotIn,
    StartsWith,
    equal_values,
)
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["Among", "Nulls", "Present", "Query", "Range", "Without", "query_of"]

_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_BYTE_END = 0xFF
_MAX_VALUES = 1000
_MOST_VALUES = 32


@dataclass(frozen=True, slots=True)
class Nulls:
    """This query asks for rows that have no value."""


@dataclass(frozen=True, slots=True)
class Present:
    """This query asks for rows that have a value."""


@dataclass(frozen=True, slots=True)
class Among:
    """This query asks for rows that have one of `values`."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """This query asks for rows with a value that is none of `values`."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """This query asks for rows with a value from `low` to `high`; None is no bound. An open end excludes
    the bound itself.
    """

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False


Query: TypeAlias = Nulls | Present | Among | Without | Range


def query_of(leaf: Leaf, data_type: AtomicType) -> Query | None:
    """Return the query for a column stored as `data_type`, or None where indexes cannot help.

    The same is asked of many files. Not so for floats: -0.0 and 0.0 are equal, their questions are not.
    """
    return _query(leaf, data_type) if data_type.root in _FLOATS else _known_query(leaf, data_type)


@lru_cache(_MOST_VALUES)
def _known_query(leaf: Leaf, data_type: AtomicType) -> Query | None:
    return _query(leaf, data_type)


def _query(leaf: Leaf, data_type: AtomicType) -> Query | None:
    match leaf:
        case IsNull():
            return Nulls()
        case IsNotNull():
            return Present()
        case Like():
            return Present()
        case StartsWith(prefix=prefix):
            return _prefix(prefix.encode()) if is_text(data_type) else None
        case Compare(op=op, value=value):
            return None if _is_nan(value) else _compare(op, value, data_type)
        case In(values=values):
            return None if any(map(_is_nan, values)) else _among(_exact(values, data_type))
        case NotIn(values=values):
            return None if any(map(_is_nan, values)) else _without(values, data_type)


def _among(stored: tuple[Any, ...]) -> Query:
    """Return the query for stored values. Each value costs a search, so many of them are searched as a
    range.
    """
    return Among(stored) if len(stored) <= _MAX_VALUES else Range(low=min(stored), high=max(stored))


def _is_nan(value: Any) -> bool:
    """Return whether a value is NaN, which equals nothing in a predicate, but is a value of an index."""
    return bool(value != value)


def _exact(values: tuple[Any, ...], data_type: AtomicType) -> tuple[Any, ...]:
    """Return the values that are equal to one of `values`, as they are stored."""
    stored_values = (stored_value(value, data_type) for value in equal_values(values, data_type))
    return tuple(dict.fromkeys(stored_values))


def _coarse(data_type: AtomicType) -> bool:
    """Return whether several values of the column are one value of the index."""
    return data_type.root in _TIMESTAMPS and data_type.precision > COARSE_DIGITS


def _without(values: tuple[Any, ...], data_type: AtomicType) -> Query:
    if _coarse(data_type) or len(values) > _MAX_VALUES:
        return Present()
    return Without(tuple(stored_value(value, data_type) for value in values))


def _compare(op: Comparison, value: Any, data_type: AtomicType) -> Query:
    if op is Comparison.EQ:
        return Among(_exact((value,), data_type))
    if op is Comparison.NE:
        return _without((value,), data_type)
    closed = _coarse(data_type) or (data_type.root in _FLOATS and value == 0)
    stored = _exact((value,), data_type)
    if op in (Comparison.LT, Comparison.LE):
        return Range(high=max(stored), high_open=op is Comparison.LT and not closed)
    return Range(low=min(stored), low_open=op is Comparison.GT and not closed)


def _prefix(prefix: bytes) -> Query:
    """Return the range of texts that begin with `prefix`: they lie between it and the next bytes of that
    length.
    """
    stem = prefix.rstrip(bytes([_BYTE_END]))
    after = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
    return Range(low=prefix, high=after, high_open=True)
