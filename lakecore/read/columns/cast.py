"""This module casts values from one atomic type to another, by the format's rules for changed column
types.

Each rule was compared with what Java Paimon 1.4.2 reads. Integers wrap when narrowed; floats to integers cut
the fraction and saturate; to DECIMAL rounds half up and gives null where the value does not fit; texts become
what `lakecore.read.columns.texts` makes of them; CHAR pads and VARCHAR cuts; timestamps lose digits, and
before 1970 whole seconds and days are cut towards 1970. Between TIMESTAMP and TIMESTAMP WITH LOCAL TIME ZONE
there is no rule: the zone of the session is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.read.columns.texts import decimal_value, text_value
from lakecore.row.values import array_values, values_array
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import INTEGER_BITS, MAX_LENGTH, AtomicType, TypeRoot
from lakecore.types.text import value_text

__all__ = ["cast_atomic"]

_FLOATS = frozenset((TypeRoot.FLOAT, TypeRoot.DOUBLE))
_TEXTS = frozenset((TypeRoot.CHAR, TypeRoot.VARCHAR))
_BYTES = frozenset((TypeRoot.BINARY, TypeRoot.VARBINARY))
_TIMESTAMPS = frozenset((TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ))
_FAMILIES = {
    **dict.fromkeys(INTEGER_BITS, "integer"),
    **dict.fromkeys(_FLOATS, "float"),
    **dict.fromkeys(_TEXTS, "text"),
    **dict.fromkeys(_BYTES, "bytes"),
    TypeRoot.DECIMAL: "decimal",
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "instant",
}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY_SECONDS = 86_400
_MILLI_DIGITS = 3
_DAY_MILLIS = 86_400_000

Rule = Callable[[pa.Array, AtomicType, AtomicType], pa.Array]


def cast_atomic(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Cast a canonical column to another type. Raises UnsupportedError when there is no rule,
    InvalidInputError for text that is no value of `new`.
    """
    rule = _RULES.get((_FAMILIES.get(old.root), _FAMILIES.get(new.root)))
    if rule is None:
        raise UnsupportedError(
            f"a column changed from {old} to {new}; this release has no rule to convert it"
        )
    return rule(array, old, new)


def _arrow(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return array.cast(arrow_type(new), safe=False)


def _float_to_integer(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    """Convert to INT or BIGINT first, saturating (NaN is 0), then wrap: the arithmetic of the format's
    writers.
    """
    bits = max(INTEGER_BITS[new.root], 32)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    numbers = np.trunc(array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False))
    inside = np.where(np.isnan(numbers) | (numbers >= high) | (numbers <= low), 0, numbers).astype(np.int64)
    values = np.where(numbers >= high, high, np.where(numbers <= low, low, inside))
    return _with_nulls(values, array).cast(arrow_type(new), safe=False)


def _with_nulls(values: Any, array: pa.Array) -> pa.Array:
    mask = np.asarray(pc.is_null(array)) if array.null_count else None
    return pa.array(values, mask=mask)


def _to_decimal(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Round half up; the result is null where there are too many digits before the point."""
    widened = old.root is TypeRoot.DECIMAL and old.scale == new.scale and old.precision <= new.precision
    if widened:
        return array.cast(arrow_type(new))
    return values_array([_decimal(value, new) for value in array.to_pylist()], new)


def _decimal(value: Any, data_type: AtomicType) -> Decimal | None:
    if value is None:
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise InvalidInputError(f"{value} is not a value of type {data_type}")
    return decimal_value(number, data_type)


def _decimal_to_integer(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    bits = INTEGER_BITS[new.root]
    wrap = 1 << bits

    def convert(number: Decimal) -> int:
        whole = int(number)
        return (whole + wrap // 2) % wrap - wrap // 2

    values = [None if value is None else convert(value) for value in array.to_pylist()]
    return values_array(values, new)


def _decimal_to_float(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return pa.array([None if v is None else float(v) for v in array.to_pylist()], arrow_type(new))


def _to_boolean(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    return pc.not_equal(array, pa.scalar(0).cast(array.type))


def _from_boolean(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    numbers = array.cast(pa.int8())
    return _to_decimal(numbers, old, new) if new.root is TypeRoot.DECIMAL else numbers.cast(arrow_type(new))


def _to_text(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    if old.root in INTEGER_BITS or old.root is TypeRoot.BOOLEAN:
        texts = array.cast(pa.string())
    elif old.root in _TEXTS:
        texts = array
    else:
        text = _time_text if old.root is TypeRoot.TIME else value_text
        texts = pa.array([None if v is None else text(v, old) for v in array_values(array, old)], pa.string())
    return _fit_text(texts, new)


def _time_text(millis: int, data_type: AtomicType) -> str:
    """Format a time; zeros at the end of the fraction are left out, except for the first digit."""
    text = value_text(millis, data_type)
    seconds, point, fraction = text.partition(".")
    return f"{seconds}.{fraction.rstrip('0') or '0'}" if point else text


def _fit_text(texts: pa.Array, new: AtomicType) -> pa.Array:
    if new.length == MAX_LENGTH:
        return texts
    cut = pc.utf8_slice_codeunits(texts, 0, new.length)
    return pc.utf8_rpad(cut, new.length, " ") if new.root is TypeRoot.CHAR else cut


def _from_text(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return values_array([None if text is None else text_value(text, new) for text in array.to_pylist()], new)


def _text_to_bytes(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _fit_bytes(array.cast(pa.binary()), new)


def _bytes_to_bytes(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _fit_bytes(array, new)


def _bytes_to_text(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    """Convert without cutting or padding. Java keeps bytes that are no text, which no Arrow text may have."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as err:
        raise UnsupportedError(
            "a column of bytes became text, but this release cannot hold bytes that are not UTF-8 as text"
        ) from err


def _fit_bytes(array: pa.Array, new: AtomicType) -> pa.Array:
    if new.length == MAX_LENGTH:
        return array
    fixed = new.root is TypeRoot.BINARY
    values = [
        None if v is None else v[: new.length].ljust(new.length, b"\0") if fixed else v[: new.length]
        for v in array.to_pylist()
    ]
    return pa.array(values, pa.binary())


def _timestamp(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Change the precision: more digits keep the value; fewer cut it, to milliseconds towards the past, from
    there towards 1970.
    """
    target = arrow_type(new)
    if new.precision < old.precision:
        numbers = array.view(pa.int64())
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        digits = _UNIT_DIGITS[array.type.unit]
        values = _cut_past(values, 10 ** (digits - max(new.precision, _MILLI_DIGITS)))
        values = _cut_to_zero(values, 10 ** (digits - min(new.precision, digits)))
        array = _with_nulls(values, numbers).view(array.type)
    try:
        return array.cast(target)
    except pa.ArrowInvalid as err:
        raise UnsupportedError(f"a timestamp of {old} does not fit {new} in nanoseconds: {err}") from err


def _cut_past(values: Any, unit: int) -> Any:
    return values - np.mod(values, unit)


def _cut_to_zero(values: Any, unit: int) -> Any:
    return values - np.fmod(values, unit)


def _millis(array: pa.Array) -> Any:
    """Return whole milliseconds of timestamps, cut towards the past; 0 for null."""
    values = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.floor_divide(values, 10 ** (_UNIT_DIGITS[array.type.unit] - _MILLI_DIGITS))


def _timestamp_to_date(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    days = _cut_to_zero(_millis(array), _DAY_MILLIS) // _DAY_MILLIS
    return _with_nulls(days, array).cast(pa.int32()).view(pa.date32())


def _timestamp_to_time(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    """Convert to a time of day. Before 1970 the format has no sound rule: such values are refused."""
    millis = _millis(array)
    if (millis < 0).any():
        raise UnsupportedError(
            "a TIMESTAMP before 1970 cannot become a TIME: this release has no rule to convert it"
        )
    return _with_nulls(np.mod(millis, _DAY_MILLIS), array).cast(pa.int32()).view(pa.time32("ms"))


def _timestamp_to_integer(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    """Convert to seconds since 1970."""
    seconds = _cut_to_zero(_millis(array), 1000) // 1000
    return _with_nulls(seconds, array).cast(arrow_type(new), safe=False)


def _integer_to_timestamp(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Convert from seconds since 1970."""
    return _scale(array.cast(pa.int64()), 0, old, new)


def _date_to_timestamp(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    seconds = pc.multiply(array.view(pa.int32()).cast(pa.int64()), _DAY_SECONDS)
    return _scale(seconds, 0, old, new)


def _time_to_timestamp(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Put the time on the first day of 1970; digits are kept up to milliseconds, whatever the precision
    says.
    """
    return _scale(array.view(pa.int32()).cast(pa.int64()), _MILLI_DIGITS, old, new)


def _scale(numbers: pa.Array, digits: int, old: AtomicType, new: AtomicType) -> pa.Array:
    target = arrow_type(new)
    try:
        return pc.multiply_checked(numbers, 10 ** (_UNIT_DIGITS[target.unit] - digits)).view(target)
    except pa.ArrowInvalid as err:
        raise UnsupportedError(f"a value of {old} does not fit {new}: {err}") from err


_RULES: dict[tuple[str | None, str | None], Rule] = {
    ("integer", "integer"): _arrow,
    ("integer", "float"): _arrow,
    ("float", "float"): _arrow,
    ("float", "integer"): _float_to_integer,
    ("decimal", "decimal"): _to_decimal,
    ("integer", "decimal"): _to_decimal,
    ("float", "decimal"): _to_decimal,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "float"): _decimal_to_float,
    ("integer", "boolean"): _to_boolean,
    ("boolean", "integer"): _from_boolean,
    ("boolean", "float"): _from_boolean,
    ("boolean", "decimal"): _from_boolean,
    ("text", "boolean"): _from_text,
    ("text", "integer"): _from_text,
    ("text", "float"): _from_text,
    ("text", "decimal"): _from_text,
    ("text", "date"): _from_text,
    ("text", "time"): _from_text,
    ("text", "timestamp"): _from_text,
    ("text", "bytes"): _text_to_bytes,
    ("bytes", "bytes"): _bytes_to_bytes,
    ("bytes", "text"): _bytes_to_text,
    ("timestamp", "timestamp"): _timestamp,
    ("instant", "instant"): _timestamp,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("instant", "integer"): _timestamp_to_integer,
    ("integer", "timestamp"): _integer_to_timestamp,
    ("integer", "instant"): _integer_to_timestamp,
    ("date", "timestamp"): _date_to_timestamp,
    ("time", "timestamp"): _time_to_timestamp,
    **{
        (family, "text"): _to_text
        for family in ("integer", "float", "decimal", "boolean", "text", "date", "time", "timestamp")
    },
}
