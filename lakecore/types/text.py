"""This module converts values to text and back: SQL literals, partition values, JSON. It uses arithmetic
only, for any year, in UTC.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.types.datatypes import INTEGER_BITS, AtomicType, DataType, TypeRoot
from lakecore.types.float_text import java_float_text

__all__ = [
    "date_text",
    "fraction_text",
    "parse_date",
    "parse_time",
    "parse_timestamp",
    "parse_value",
    "time_text",
    "timestamp_text",
    "value_text",
]

_DAY_SECONDS = 86_400
_SECOND_NANOS = 1_000_000_000
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)
_DECIMALS = Context(prec=60)

_DATE_LIMIT = 1 << 31
_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_WHOLE = re.compile(r"[+-]?\d{1,40}")
_ZONE = re.compile(r"\s*(Z|UTC|[+-]\d{2}:?\d{2})$", re.IGNORECASE)


def date_text(days: int) -> str:
    """Return `YYYY-MM-DD` for a day that is counted from 1970-01-01."""
    year, month, day = _civil(days)
    return f"{_year_text(year)}-{month:02d}-{day:02d}"


def time_text(millis: int, digits: int = 3) -> str:
    """Return `HH:MM:SS` and `digits` digits of the fraction."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{rest:03d}"[: len(text) + 1 + digits] if digits else text


def timestamp_text(nanos: int, digits: int | None = None, separator: str = " ") -> str:
    """Return `YYYY-MM-DD HH:MM:SS[.fraction]`. With `digits` None the fraction has as many digits as it
    needs: none, 3, 6 or 9.
    """
    seconds, fraction = divmod(nanos, _SECOND_NANOS)
    days, second = divmod(seconds, _DAY_SECONDS)
    text = f"{date_text(days)}{separator}{time_text(second * 1000, 0)}"
    return text + fraction_text(fraction, digits)


def fraction_text(nanos: int, digits: int | None) -> str:
    """Return the fraction of a second, as in `.123`, from nanoseconds; `digits` is as in `timestamp_text`."""
    if digits is None:
        digits = 0 if not nanos else 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
    return f".{nanos:09d}"[: digits + 1] if digits else ""


def parse_date(text: str) -> int:
    """Parse `YYYY-MM-DD`, or a plain number of days, as days since 1970-01-01. Raises ValueError."""
    if re.fullmatch(r"-?\d{1,7}", text):
        return int(text)
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("this is not a date; write YYYY-MM-DD")
    year, month, day = (int(part) for part in match.groups())
    days = _days(year, month, day)
    if _civil(days) != (year, month, day):
        raise ValueError("this day does not exist")
    if not -_DATE_LIMIT <= days < _DATE_LIMIT:
        raise ValueError("it is outside the range of DATE")
    return days


def parse_time(text: str) -> int:
    """Parse `HH:MM[:SS[.fraction]]` as milliseconds of the day. Raises ValueError."""
    return _time_nanos(text) // 1_000_000


def parse_timestamp(text: str) -> int:
    """Parse `YYYY-MM-DD[ HH:MM[:SS[.fraction]]][zone]` as nanoseconds since the epoch. Raises ValueError."""
    zone = _ZONE.search(text) if len(text) > len("YYYY-MM-DD") else None
    offset = 0
    if zone is not None:
        text = text[: zone.start()]
        digits = re.sub(r"\D", "", zone[1])
        if digits:
            offset = (int(digits[:2]) * 60 + int(digits[2:])) * (-60 if zone[1][0] == "-" else 60)
    day, _, clock = text.strip().replace("T", " ", 1).partition(" ")
    if _DATE.fullmatch(day) is None:
        raise ValueError("this is not a timestamp; write YYYY-MM-DD HH:MM:SS")
    nanos = _time_nanos(clock.strip()) if clock.strip() else 0
    return (parse_date(day) * _DAY_SECONDS - offset) * _SECOND_NANOS + nanos


def value_text(value: Any, data_type: DataType) -> str:
    """Return the text of an atomic value that a SQL cast to string gives (LTZ in UTC).

    Raises UnsupportedError for arrays, maps, rows.
    """
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"text of a value of type {data_type}")
    root = data_type.root
    if root in _TEXTS:
        return str(value)
    if root is TypeRoot.BOOLEAN:
        return "true" if value else "false"
    if root is TypeRoot.DATE:
        return date_text(value)
    if root is TypeRoot.TIME:
        return time_text(value, min(data_type.precision, 3))
    if root in _TIMESTAMPS:
        return timestamp_text(value, data_type.precision)
    if root is TypeRoot.DECIMAL:
        return f"{value:f}"
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return java_float_text(value, single=root is TypeRoot.FLOAT)
    if root in _BYTES:
        return bytes(value).decode("utf-8", "replace")
    return str(value)


def parse_value(text: str, data_type: DataType) -> Any:
    """Parse `text` as a value of a type. Raises InvalidInputError that names the text and the type."""
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"text {text!r} as a value of type {data_type}")
    try:
        return _parse(text, data_type)
    except (ValueError, InvalidOperation) as err:
        raise InvalidInputError(f"{text!r} is not a value of type {data_type}: {err}") from err


def _parse(text: str, data_type: AtomicType) -> Any:
    root = data_type.root
    if root in _TEXTS:
        return text
    if root in _BYTES:
        return bytes.fromhex(text[2:]) if text[:2].lower() == "0x" else text.encode()
    text = text.strip()
    if root in INTEGER_BITS:
        return _parse_int(text, INTEGER_BITS[root])
    if root is TypeRoot.BOOLEAN:
        return _parse_bool(text)
    if root is TypeRoot.DATE:
        return parse_date(text)
    if root is TypeRoot.TIME:
        return int(text) if text.isdecimal() else parse_time(text)
    if root in _TIMESTAMPS:
        return parse_timestamp(text)
    if root is TypeRoot.DECIMAL:
        return _parse_decimal(text, data_type)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _parse_float(text)
    raise ValueError("values of this type have no text")


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError as err:
        raise ValueError("it is not a number") from err


def _parse_int(text: str, bits: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError("it is not a whole number")
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"it is outside the range of {bits}-bit integers")
    return value


def _parse_bool(text: str) -> bool:
    value = {"true": True, "false": False, "t": True, "f": False, "1": True, "0": False}.get(text.lower())
    if value is None:
        raise ValueError("write true or false")
    return value


def _parse_decimal(text: str, data_type: AtomicType) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError("it is not a finite number")
    scaled = value.quantize(Decimal(1).scaleb(-data_type.scale, _DECIMALS), context=_DECIMALS)
    if scaled != value:
        raise ValueError(f"it has more than {data_type.scale} digits after the point")
    if scaled.copy_abs() >= Decimal(10) ** (data_type.precision - data_type.scale):
        raise ValueError(f"it has more than {data_type.precision - data_type.scale} digits before the point")
    return scaled


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}"


def _time_nanos(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("this is not a time; write HH:MM:SS")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("this time does not exist")
    return (hour * 3600 + minute * 60 + second) * _SECOND_NANOS + int((match[4] or "").ljust(9, "0"))


# The proleptic Gregorian calendar in whole eras of 400 years (146097 days) counted from 1 March.


def _days(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    index = (5 * of_year + 2) // 153
    month = (index + 2) % 12 + 1
    return era * 400 + year_of_era + (month <= 2), month, of_year - (153 * index + 2) // 5 + 1
