"""This module compares a typed column with a literal of a request, and makes the comparison exact for the
column's type.

A column of whole steps (integers, decimals, dates, timestamps) compared with a value between two steps or
beyond the type's range becomes an equivalent comparison with a value the type can hold.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.predicate.tree import Compare, Comparison, In, IsNotNull, NotIn, Predicate
from lakecore.types.datatypes import INTEGER_BITS, AtomicType, DataField, MapType, TypeRoot
from lakecore.types.text import parse_value

__all__ = ["Literal", "comparison", "membership"]

Literal = str | Decimal | bool | bytes
"""This is a literal as it was written: quoted text, a number, true/false, 0x bytes."""

_BITS = {**INTEGER_BITS, TypeRoot.DATE: 32, TypeRoot.TIME: 32}
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_NUMBERS = frozenset({*_FLOATS, TypeRoot.DECIMAL, *INTEGER_BITS})
_DECIMALS = Context(prec=60)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The values of a type, which are whole multiples of `step` from `low` to `high` (in steps)."""

    step: Fraction
    low: int
    high: int


def comparison(field: DataField, op: Comparison, literal: Literal) -> Predicate:
    """Return `field op literal`. Raises InvalidInputError when the literal does not fit the column's type."""
    kind = _atomic(field)
    value = _value(field, kind, literal)
    steps = _steps(kind)
    if steps is None:
        return Compare(field.name, op, value)
    return _on_steps(field.name, op, Fraction(value) / steps.step, steps, kind)


def membership(field: DataField, literals: list[Literal], *, within: bool) -> Predicate:
    """Return `field [NOT] IN (literals)`; values that the type cannot represent are left out."""
    kind = _atomic(field)
    steps = _steps(kind)
    values: list[Any] = []
    for literal in literals:
        value = _value(field, kind, literal)
        if steps is not None:
            exact = Fraction(value) / steps.step
            if exact.denominator != 1 or not steps.low <= exact <= steps.high:
                continue
            value = _from_steps(int(exact), steps, kind)
        values.append(value)
    return (In if within else NotIn)(field.name, tuple(dict.fromkeys(values)))


def _atomic(field: DataField) -> AtomicType:
    if not isinstance(field.type, AtomicType) or field.type.root is TypeRoot.VARIANT:
        way = f", or {field.name}['key']" if isinstance(field.type, MapType) else ""
        raise UnsupportedError(
            f"column {field.name}: values of a nested or VARIANT column cannot be compared; use "
            f"IS [NOT] NULL{way}"
        )
    return field.type


def _value(field: DataField, data_type: AtomicType, literal: Literal) -> Any:
    """Return the value of the literal, not yet fitted to the steps of the type."""
    root = data_type.root
    if isinstance(literal, bool):
        return literal if root is TypeRoot.BOOLEAN else _mismatch(field, literal, "true")
    if isinstance(literal, bytes):
        return literal if root in _BYTES else _mismatch(field, literal, "0x00")
    if isinstance(literal, Decimal):
        if root in _FLOATS:
            return float(literal)
        return literal if root in _NUMBERS else _mismatch(field, literal, literal)
    return _from_text(field, data_type, literal)


def _from_text(field: DataField, data_type: AtomicType, text: str) -> Any:
    try:
        if data_type.root in _NUMBERS - set(_FLOATS):
            number = Decimal(text.strip())
            return number if number.is_finite() else parse_value(text, data_type)
        return parse_value(text, data_type)
    except InvalidInputError as err:
        raise InvalidInputError(f"column {field.name}: {err}") from err
    except ArithmeticError as err:
        raise InvalidInputError(
            f"column {field.name}: {text!r} is not a number, as {data_type} needs"
        ) from err


def _mismatch(field: DataField, literal: Literal, text: Any) -> Any:
    hint = (
        "write it in quotes"
        if not isinstance(literal, bool)
        else "only a BOOLEAN can be compared with true or false"
    )
    raise InvalidInputError(
        f"column {field.name} of type {field.type} cannot be compared with {text}: {hint}"
    )


def _steps(data_type: AtomicType) -> _Steps | None:
    root = data_type.root
    if root in _BITS:
        limit = 1 << (_BITS[root] - 1)
        return _Steps(Fraction(1), -limit, limit - 1)
    if root is TypeRoot.DECIMAL:
        limit = 10**data_type.precision - 1
        return _Steps(Fraction(1, 10**data_type.scale), -limit, limit)
    if root in _TIMESTAMPS:
        # Arrow holds whole ticks of milli-, micro- or nanoseconds in 64 bits.
        tick = 1_000_000 if data_type.precision <= 3 else 1000 if data_type.precision <= 6 else 1
        return _Steps(Fraction(tick), -(1 << 63), (1 << 63) - 1)
    return None


def _from_steps(count: int, steps: _Steps, data_type: AtomicType) -> Any:
    if data_type.root is TypeRoot.DECIMAL:
        return Decimal(count).scaleb(-data_type.scale, _DECIMALS)
    return int(count * steps.step)


def _on_steps(
    column: str, op: Comparison, exact: Fraction, steps: _Steps, data_type: AtomicType
) -> Predicate:
    low, rest = exact.__floor__(), exact.denominator != 1
    if exact < steps.low or exact > steps.high:
        below = exact > steps.high
        always = op is Comparison.NE or op in (
            (Comparison.LT, Comparison.LE) if below else (Comparison.GT, Comparison.GE)
        )
        return IsNotNull(column) if always else In(column, ())
    if rest and op in (Comparison.EQ, Comparison.NE):
        return In(column, ()) if op is Comparison.EQ else NotIn(column, ())
    if rest:
        # Between two steps: below it is up to the lower step, above it is beyond the lower step.
        op = Comparison.LE if op in (Comparison.LT, Comparison.LE) else Comparison.GT
    return Compare(column, op, _from_steps(low, steps, data_type))
