"""This module makes values of the texts of a column that became another type, by the rules of Paimon's Java
readers. It is pure.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.read.columns.time_texts import BLANKS, UnknownTextError, date_of, time_of, timestamp_of
from lakecore.types.datatypes import INTEGER_BITS, AtomicType, TypeRoot

__all__ = ["decimal_of", "decimal_value", "float32_of", "float_of", "text_value"]

_BOOLEANS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)
_WHOLE = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?")
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = re.compile(rf"([+-]?)(?:({_DIGITS})[fFdD]?|(NaN|Infinity))")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TIE, _LOW_BITS = 1 << 28, (1 << 29) - 1
_DECIMALS = Context(prec=100)
_MAX_DIGITS = 38


def text_value(text: str, new: AtomicType) -> Any:
    """Return the internal value of a text; null for a DECIMAL that does not fit. Raises InvalidInputError for
    a text that is no value of the type, UnsupportedError for one of which this release does not know what
    Java makes of it.
    """
    try:
        return _RULES[new.root](text, new)
    except (ValueError, ArithmeticError) as err:
        raise InvalidInputError(f"{text!r} is not a value of type {new}: {err}") from err
    except UnknownTextError as err:
        raise UnsupportedError(f"this release does not know how Java reads {err}") from err


def _boolean(text: str, _: AtomicType) -> bool:
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise ValueError("write true or false")
    return value


def _integer(text: str, new: AtomicType) -> int:
    """Return the digits before a point; there need not be any."""
    bits = INTEGER_BITS[new.root]
    match = _WHOLE.fullmatch(text)
    if match is None or text == match[1]:
        raise ValueError("it is not a number")
    digits = match[2].lstrip("0") or "0"
    value = int(match[1] + digits) if len(digits) <= _MAX_DIGITS else 1 << bits
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"it is outside the range of {bits}-bit integers")
    return value


def float_of(text: str) -> float:
    """Return the 64-bit number that Java makes of a text, also of `1.5f` and `Infinity`. Raises ValueError,
    UnknownTextError.
    """
    return float(_number(text))


def float32_of(text: str) -> float:
    """Return the nearest 32-bit number, and raise what `float_of` raises. Where the 64-bit number lies
    between two, the digits decide.
    """
    number = _number(text)
    value = float(number)
    if struct.unpack("<Q", struct.pack("<d", value))[0] & _LOW_BITS == _TIE:
        return float(pa.scalar(number).cast(pa.float32()).as_py())
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _number(text: str) -> str:
    """Return what Python reads of a number as Java writes it."""
    stripped = text.strip(BLANKS)
    match = _FLOAT.fullmatch(stripped)
    if match is None:
        if "0x" in stripped.lower():
            raise UnknownTextError(f"{text!r} as a number")
        raise ValueError("it is not a number")
    return match[1] + (match[2] or match[3])


def decimal_of(text: str, data_type: AtomicType) -> Decimal | None:
    """Return the decimal of a text, rounded half up; None where it does not fit. Raises ValueError,
    ArithmeticError.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("it is not a number")
    return decimal_value(Decimal(text), data_type)


def decimal_value(number: Decimal, data_type: AtomicType) -> Decimal | None:
    """Return the finite `number` with the digits of `data_type`, rounded half up; None where it has too many
    before the point.
    """
    if number and number.adjusted() > _MAX_DIGITS:
        return None
    unit = Decimal(1).scaleb(-data_type.scale)
    rounded = number.quantize(unit, rounding=ROUND_HALF_UP, context=_DECIMALS)
    fits = rounded.copy_abs() < Decimal(10) ** (data_type.precision - data_type.scale)
    return rounded if fits else None


_RULES: dict[TypeRoot, Callable[[str, AtomicType], Any]] = {
    **dict.fromkeys(INTEGER_BITS, _integer),
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.DOUBLE: lambda text, _: float_of(text),
    TypeRoot.FLOAT: lambda text, _: float32_of(text),
    TypeRoot.DECIMAL: decimal_of,
    TypeRoot.DATE: lambda text, _: date_of(text),
    TypeRoot.TIME: lambda text, _: time_of(text),
    TypeRoot.TIMESTAMP: lambda text, new: timestamp_of(text, new.precision, zoned=False),
}
