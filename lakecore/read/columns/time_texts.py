"""This module parses dates and times of text files and of text columns that became such a type, by the rules
of Paimon's Java readers. It is pure.

They differ from those of SQL literals here (`lakecore.types.text`): a day of a timestamp that its month does
not have is the last one, fractions of a TIME are rounded, and digits alone count days, milliseconds or units.
"""

from __future__ import annotations

import re
from calendar import monthrange

from lakecore.types.text import parse_date

__all__ = ["BLANKS", "UnknownTextError", "date_of", "time_of", "timestamp_of"]

_DIGITS = re.compile(r"-?[0-9]+")
BLANKS = "".join(map(chr, range(33)))
"""These are the characters that Java strips of a text."""
_NUMBER = r"[\x00-\x20]*([0-9]+)[\x00-\x20]*"
_DATE = re.compile(rf"{_NUMBER}(?:-{_NUMBER}(?:-{_NUMBER})?)?")
_TIME = re.compile(rf"{_NUMBER}(?::{_NUMBER}(?::{_NUMBER}(?:\.(.*))?)?)?", re.DOTALL)
_ZONE = re.compile(rf"{_NUMBER}(?::{_NUMBER})?")
_TIMESTAMP = re.compile(
    r"([0-9]{4}|\+[0-9]{5,9})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
)
_INT = 1 << 31
_DAY_SECONDS = 86_400
_UNITS = {0: 1_000_000_000, 3: 1_000_000, 6: 1000, 9: 1}


class UnknownTextError(Exception):
    """Java reads a value from this text by rules that are not known here."""


def date_of(text: str) -> int:
    """Return days since 1970 of `2024-02-29`, of `2024-2`, of a text with a time, and of a number of days.
    Raises ValueError.
    """
    if _DIGITS.fullmatch(text):
        return _int(text)
    head, space, _ = text.partition(" ")
    match = _DATE.fullmatch(head if head and space else text)
    if match is None:
        raise ValueError("it is not a date")
    year, month, day = (1 if part is None else int(part) for part in match.groups())
    if year > 9999:
        raise ValueError("its year is not one of 0 to 9999")
    return parse_date(f"{year:04d}-{month:02d}-{day:02d}")


def time_of(text: str) -> int:
    """Return milliseconds of the day of `12:34:56.789`, `12:34` or `12 `, or of a number of them. Raises
    ValueError, and UnknownTextError for times with a zone or outside of a day.
    """
    millis = _int(text) if _DIGITS.fullmatch(text) else _clock(text)
    if not 0 <= millis < _DAY_SECONDS * 1000:
        raise UnknownTextError(f"{text!r} as a TIME")
    return millis


def _clock(text: str) -> int:
    head, sign, zone = text.partition("-" if "-" in text else "+")
    match = _TIME.fullmatch(head)
    if match is None or (sign and _ZONE.fullmatch(zone) is None):
        raise ValueError("it is not a time")
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if sign or minute > 59 or second > 59 or hour > 23:
        raise UnknownTextError(f"{text!r} as a TIME")
    fraction = (match[4] or "").strip(BLANKS).ljust(4, "0")
    digits = "".join(char if "0" <= char <= "9" else "0" for char in fraction[:3])
    return ((hour * 60 + minute) * 60 + second) * 1000 + int(digits) + (fraction[3] >= "5")


def timestamp_of(text: str, precision: int, *, zoned: bool) -> int:
    """Return nanoseconds since the epoch of `2024-02-29 12:34:56.789`, cut to `precision`; without a zone
    also of a number of seconds, milliseconds, microseconds or nanoseconds.

    Raises ValueError, UnknownTextError.
    """
    if not zoned and _DIGITS.fullmatch(text):
        if precision not in _UNITS or len(text) > 18:
            raise UnknownTextError(f"{text!r} as a TIMESTAMP({precision})")
        return int(text) * _UNITS[precision]
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("it is not a timestamp, as in 2024-02-29 12:34:56.789")
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    fraction = int((match[7] or "").ljust(9, "0"))
    if not (year and 1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError("this day does not exist")
    if not (hour < 24 or (hour, minute, second, fraction) == (24, 0, 0, 0)) or minute > 59 or second > 59:
        raise ValueError("this time does not exist")
    if year > 9999:
        raise UnknownTextError(f"{text!r} as a TIMESTAMP")
    day = min(day, monthrange(year, month)[1])
    days = parse_date(f"{year:04d}-{month:02d}-{day:02d}")
    seconds = days * _DAY_SECONDS + (hour * 60 + minute) * 60 + second
    return seconds * 1_000_000_000 + fraction - fraction % int(10 ** (9 - precision))


def _int(text: str) -> int:
    if len(text) > 11 or not -_INT <= int(text) < _INT:
        raise UnknownTextError(f"{text!r}, which is no 32-bit integer")
    return int(text)
