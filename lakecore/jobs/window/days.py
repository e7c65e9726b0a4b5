"""This module reads the days of a black-out: weekdays, dates, days of a year and days of a month. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["DayPattern", "parse_days"]

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_YEAR_DAY = re.compile(r"(\d{2})-(\d{2})")
_MONTH_DAY = re.compile(r"day (\d{1,2})")
_LAST_DAY = "last day"
_LEAP_YEAR = 2024
_FORMS = "Mon, Mon-Fri, 2026-12-24, 2026-12-24..2026-12-26, 12-24..01-02, day 1, day 1..day 3, last day"

DayTest = Callable[[date], bool]


@dataclass(frozen=True, slots=True)
class DayPattern:
    """These are the days for which one of the tests holds."""

    tests: tuple[DayTest, ...]

    def has(self, day: date) -> bool:
        """Return whether a day is one of these."""
        return any(test(day) for test in self.tests)


def parse_days(text: str) -> DayPattern:
    """Read days, split by commas; an empty text means every day. Raises InvalidInputError."""
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not parts:
        return DayPattern((lambda day: True,))
    return DayPattern(tuple(_parse(part) for part in parts))


def _parse(text: str) -> DayTest:
    if text == _LAST_DAY:
        return lambda day: day.day == calendar.monthrange(day.year, day.month)[1]
    first, last = _ends(text)
    for form in (_weekday, _month_day, _year_day, _date):
        low, high = form(first), form(last)
        if low is not None and high is not None:
            return _between(form, low, high, text)
    raise InvalidInputError(f"black-out: days {text!r} are unknown; write one of these forms: {_FORMS}")


def _ends(text: str) -> tuple[str, str]:
    """Return the first and the last day of a range, which are the same for a single day."""
    first, dash, last = text.partition("..")
    if not dash and text[:3] in _WEEKDAYS:
        first, dash, last = text.partition("-")
    return first.strip(), (last if dash else first).strip()


def _between(form: Callable[[str], int | None], low: int, high: int, text: str) -> DayTest:
    """Return the test for a range; one of weekdays or of days of the year may go beyond the end."""
    number = _NUMBERS[form]
    if low <= high:
        return lambda day: low <= number(day) <= high
    if form in (_date, _month_day):
        raise InvalidInputError(f"black-out: days {text!r} end before they begin")
    return lambda day: number(day) >= low or number(day) <= high


def _weekday(text: str) -> int | None:
    return _WEEKDAYS.index(text) if text in _WEEKDAYS else None


def _month_day(text: str) -> int | None:
    match = _MONTH_DAY.fullmatch(text)
    return int(match[1]) if match and 1 <= int(match[1]) <= 31 else None


def _year_day(text: str) -> int | None:
    match = _YEAR_DAY.fullmatch(text)
    return _month_and_day(_calendar_day(f"{_LEAP_YEAR}-{text}")) if match else None


def _date(text: str) -> int | None:
    return _ordinal(_calendar_day(text)) if _DATE.fullmatch(text) else None


def _calendar_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as err:
        raise InvalidInputError(f"black-out: {text!r} is no day of the calendar") from err


def _month_and_day(day: date) -> int:
    return day.month * 100 + day.day


def _ordinal(day: date) -> int:
    return day.toordinal()


_NUMBERS: dict[Callable[[str], int | None], Callable[[date], int]] = {
    _weekday: date.weekday,
    _month_day: lambda day: day.day,
    _year_day: _month_and_day,
    _date: _ordinal,
}
"""The number of a day that each form compares."""
