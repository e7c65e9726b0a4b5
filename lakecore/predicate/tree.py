"""This module has filters as frozen trees over column names and internal values (TIMESTAMP is int
nanoseconds).

SQL's three-valued logic: a comparison with a null column is unknown, and unknown rows are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any, TypeAlias

from lakecore.data_class import dataclass
from lakecore.types.datatypes import AtomicType, DataType, TypeRoot

__all__ = [
    "And",
    "AtKey",
    "Compare",
    "Comparison",
    "In",
    "IsNotNull",
    "IsNull",
    "Leaf",
    "Like",
    "Not",
    "NotIn",
    "Or",
    "Predicate",
    "StartsWith",
    "at_key",
    "columns_of",
    "conjunction",
    "conjuncts",
    "equal_values",
    "negated",
    "restricted",
]


_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_ZEROS = (-0.0, 0.0)


class Comparison(Enum):
    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """It compares `column` with a value that is not None."""

    column: str
    op: Comparison
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """One of `values`; without values it is false wherever the column is not null."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NotIn:
    """None of `values`; without values it is true wherever the column is not null."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class IsNotNull:
    column: str


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Like:
    """This is an SQL pattern: `%` is any text, `_` is one character, and a backslash escapes. `matches`
    False is NOT LIKE.
    """

    column: str
    pattern: str
    matches: bool = True


@dataclass(frozen=True, slots=True)
class AtKey:
    """The condition `leaf` holds for the value under `key` of its column, a map; the value is null without
    the key or the map.
    """

    key: Any
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: Predicate


Leaf: TypeAlias = Compare | In | NotIn | IsNull | IsNotNull | StartsWith | Like
Predicate: TypeAlias = Leaf | AtKey | And | Or | Not

_OPPOSITE = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
    Comparison.LE: Comparison.GT,
}
_WILD = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def negated(predicate: Predicate) -> Predicate:
    """Return the predicate that is true where `predicate` is false; unknown stays unknown."""
    match predicate:
        case And(children=children):
            return Or(tuple(negated(child) for child in children))
        case Or(children=children):
            return And(tuple(negated(child) for child in children))
        case Not(child=child):
            return child
        case Compare(column=column, op=op, value=value):
            return Compare(column, _OPPOSITE[op], value)
        case AtKey(key=key, leaf=leaf):
            return at_key(negated(leaf), key)
        case _:
            return _negated_leaf(predicate)


def _negated_leaf(leaf: In | NotIn | IsNull | IsNotNull | StartsWith | Like) -> Predicate:
    match leaf:
        case In(column=column, values=values):
            return NotIn(column, values)
        case NotIn(column=column, values=values):
            return In(column, values)
        case IsNull(column=column):
            return IsNotNull(column)
        case IsNotNull(column=column):
            return IsNull(column)
        case StartsWith(column=column, prefix=prefix):
            return Like(column, prefix.translate(_WILD) + "%", matches=False)
        case Like(column=column, pattern=pattern, matches=matches):
            return Like(column, pattern, not matches)


def at_key(predicate: Predicate, key: Any) -> Predicate:
    """Return a predicate that says of the values of maps under `key` what `predicate` says of columns."""
    match predicate:
        case And(children=children):
            return And(tuple(at_key(child, key) for child in children))
        case Or(children=children):
            return Or(tuple(at_key(child, key) for child in children))
        case Not(child=child):
            return Not(at_key(child, key))
        case AtKey(leaf=leaf):
            return AtKey(key, leaf)
        case _:
            return AtKey(key, predicate)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the names of the columns that the predicate uses."""
    match predicate:
        case And(children=children) | Or(children=children):
            return frozenset().union(*(columns_of(child) for child in children))
        case Not(child=child):
            return columns_of(child)
        case AtKey(leaf=leaf):
            return columns_of(leaf)
        case _:
            return frozenset((predicate.column,))


def equal_values(values: tuple[Any, ...], data_type: DataType) -> tuple[Any, ...]:
    """Return the values of a column of that type that are equal to one of `values`. -0.0 and 0.0 are equal,
    but are stored, hashed and indexed as two values.
    """
    is_float = isinstance(data_type, AtomicType) and data_type.root in _FLOATS
    return (*(value for value in values if value != 0), *_ZEROS) if is_float and 0 in values else values


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Return the predicates that must all hold; none for None."""
    if predicate is None:
        return ()
    match predicate:
        case And(children=children):
            return tuple(part for child in children for part in conjuncts(child))
        case Not(child=child) if isinstance(child, Or | Not):
            return conjuncts(negated(child))
        case _:
            return (predicate,)


def conjunction(parts: tuple[Predicate, ...]) -> Predicate | None:
    """Return the conjunction of `parts`, or None for no parts."""
    return None if not parts else parts[0] if len(parts) == 1 else And(parts)


def restricted(predicate: Predicate | None, columns: Collection[str]) -> Predicate | None:
    """Return what the predicate says of rows of which only `columns` are known: it is never stricter than the
    predicate.
    """
    return conjunction(tuple(part for part in conjuncts(predicate) if columns_of(part) <= set(columns)))
