"""This module translates conditions of Spark into predicates. Pure.

Only what means the same in both is translated; Spark evaluates the rest. Not translated are conditions on
nested fields, and on FLOAT and DOUBLE columns: for Spark NaN equals NaN and is above all numbers, and for
predicates NaN equals nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.predicate.literals import Literal, comparison, membership
from lakecore.predicate.tree import (
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Or,
    Predicate,
    StartsWith,
    negated,
)
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

__all__ = ["MICRO_DIGITS", "predicate_of"]

MICRO_DIGITS = 6
"""Spark's times have so many digits of a second."""

_OPERATORS = {
    "EqualTo": Comparison.EQ,
    "EqualNullSafe": Comparison.EQ,
    "GreaterThan": Comparison.GT,
    "GreaterThanOrEqual": Comparison.GE,
    "LessThan": Comparison.LT,
    "LessThanOrEqual": Comparison.LE,
}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_WILD = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def predicate_of(condition: Any, row_type: RowType) -> Predicate | None:
    """Return the predicate that is true for the same rows as a `Filter` of Spark; None if there is none."""
    name = type(condition).__name__
    if name == "Not":
        return _negation(condition.child, row_type)
    field = _field(condition, row_type)
    if field is None:
        return None
    if name in ("IsNull", "IsNotNull"):
        return (IsNull if name == "IsNull" else IsNotNull)(field.name)
    try:
        return _of_values(name, field, condition.value)
    except (InvalidInputError, UnsupportedError):  # no value of the column's type: Spark has its own rules
        return None


def _negation(child: Any, row_type: RowType) -> Predicate | None:
    predicate = predicate_of(child, row_type)
    name = type(child).__name__
    if predicate is None or name == "Not":
        return None
    if name == "EqualNullSafe":  # true or false, never unknown
        null = IsNull(child.attribute[0])
        return negated(predicate) if child.value is None else Or((negated(predicate), null))
    if name == "In" and any(value is None for value in child.value):
        return In(child.attribute[0], ())  # unknown wherever it is not false
    return negated(predicate)


def _field(condition: Any, row_type: RowType) -> DataField | None:
    path: Sequence[str] = condition.attribute
    if len(path) != 1 or path[0] not in row_type.names:
        return None
    field = row_type.field(path[0])
    blob = isinstance(field.type, AtomicType) and field.type.root is TypeRoot.BLOB
    return None if blob else field


def _of_values(name: str, field: DataField, value: Any) -> Predicate | None:
    if name == "In":
        values = [_literal(field, one) for one in value if one is not None]
        literals = [one for one in values if one is not None]
        return membership(field, literals, within=True) if len(literals) == len(values) else None
    if name == "EqualNullSafe" and value is None:
        return IsNull(field.name)
    literal = _literal(field, value)
    if literal is None:
        return None
    if name in _OPERATORS:
        return comparison(field, _OPERATORS[name], literal)
    return _text_match(name, field.name, value) if isinstance(value, str) else None


def _text_match(name: str, column: str, text: str) -> Predicate | None:
    if name == "StringStartsWith":
        return StartsWith(column, text)
    pattern = "%" + text.translate(_WILD)
    ends = {"StringEndsWith": pattern, "StringContains": pattern + "%"}
    return Like(column, ends[name]) if name in ends else None


def _literal(field: DataField, value: Any) -> Literal | None:
    """Return the value as a literal; None if the column is compared in another way, or has another type."""
    if not isinstance(field.type, AtomicType):
        return None
    root = field.type.root
    if root is TypeRoot.BOOLEAN:
        return value if isinstance(value, bool) else None
    if root in _WHOLE:
        return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
    if root in _TEXTS:
        return value if isinstance(value, str) else None
    if root in _BYTES:
        return bytes(value) if isinstance(value, bytes | bytearray) else None
    return _time_literal(field.type, value)


def _time_literal(data_type: AtomicType, value: Any) -> Literal | None:
    if data_type.root is TypeRoot.DATE:
        return value.isoformat() if type(value) is date else None
    if data_type.root not in _TIMES or data_type.precision > MICRO_DIGITS or not isinstance(value, datetime):
        return None
    if (value.tzinfo is not None) != (data_type.root is TypeRoot.TIMESTAMP_LTZ):
        return None
    plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(sep=" ", timespec="microseconds")
