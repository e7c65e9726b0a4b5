"""This module finds the time that the values of a partition stand for. It is pure: it has no zone, and
times are milliseconds as if in UTC.

Spec: a pattern puts column values into a text (`$dt $hour:00:00`; by default the first column), a formatter
reads it. Without a formatter that is `year-month-day[ hour:minute:second[.fraction]]`, any number of
digits, values out of range carried over. With one, the letters y M d H m s S of Java's patterns; a day
beyond its month is its last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lakecore.errors import InvalidInputError

__all__ = ["check_formatter", "time_of"]

_DEFAULT = re.compile(
    r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
)
_LETTERS = "yuMdHmsS"
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def time_of(
    names: Sequence[str], values: Sequence[str | None], pattern: str | None, formatter: str | None
) -> int | None:
    """Return milliseconds, or None when the values stand for no time (null, or a text that cannot be
    parsed).
    """
    if pattern is None:
        text = values[0] if values else None
    else:
        text = pattern
        for name, value in zip(names, values, strict=True):
            if value is None and f"${name}" in text:
                return None
            text = text.replace(f"${name}", value or "")
    if text is None:
        return None
    match = (_DEFAULT if formatter is None else _compile(formatter)).fullmatch(text)
    if match is None:
        return None
    return _millis(match.groupdict(), lenient=formatter is None)


def check_formatter(formatter: str) -> None:
    """Raise InvalidInputError for letters that are not supported."""
    _compile(formatter)


def _compile(formatter: str) -> re.Pattern[str]:
    out, place = "", 0
    for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", formatter):
        if match.start() != place:
            break
        place = match.end()
        letter, length = match[2], len(match[0])
        if letter is None:
            out += re.escape((match[1] or "'") if match[0].startswith("'") else match[0])
        elif letter not in _LETTERS:
            break
        else:
            out += _group(letter, length, formatter[place : place + 1])
    else:
        if place == len(formatter):
            try:
                return re.compile(out)
            except re.error as err:
                raise InvalidInputError(f"timestamp-formatter {formatter!r}: {err}") from err
    raise InvalidInputError(
        f"timestamp-formatter {formatter!r}: only y M d H m s S and quoted text of Java's "
        "patterns are supported"
    )


def _group(letter: str, length: int, following: str) -> str:
    name = "y" if letter == "u" else letter
    adjacent = following.isalpha()
    if length == 1 and letter != "S":
        return rf"(?P<{name}>\d{{1,{19 if letter in 'yu' else 2}}})"
    if letter in "yu" and length >= 4 and not adjacent:
        return rf"(?P<{name}>\d{{{length},19}})"
    return rf"(?P<{name}>\d{{{length}}})"


def _millis(parts: Mapping[str, str | None], *, lenient: bool) -> int | None:
    numbers = {name: int(text) for name, text in parts.items() if text is not None and name != "S"}
    if not {"y", "M", "d"} <= set(numbers):
        return None
    year, month, day = numbers["y"], numbers["M"], numbers["d"]
    hour, minute, second = numbers.get("H", 0), numbers.get("m", 0), numbers.get("s", 0)
    if not lenient:
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
            return None
        day = min(day, _length(year, month))
    fraction = int(((parts.get("S") or "") + "000")[:3])
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    days = _days(year, month) + day - 1
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction


def _length(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _LENGTHS[month - 1] + leap


def _days(year: int, month: int) -> int:
    """Return the days from 1970-01-01 to the first of a month."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps - 719162 + sum(_length(year, m) for m in range(1, month))
