"""This module knows the days and hours at which no maintenance may start: the black-outs of a calendar.

A black-out names days and, if it is not the whole day, hours: `{"days": "Mon-Fri", "hours": "08:00-18:00"}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.jobs.window.days import DayPattern, parse_days

__all__ = ["BlackoutCalendar", "ClosedTime"]

_KEYS = ("days", "hours", "why", "time_zone")
_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAY_MINUTES = 24 * 60
_HORIZON_DAYS = 400
"""A black-out that is farther away, or that lasts longer, has no effect on what starts today."""


@dataclass(frozen=True, slots=True)
class ClosedTime:
    """This is a time at which nothing may start."""

    end_ms: int | None
    """It ends then, in milliseconds since the epoch; None: not within the next 400 days."""
    text: str
    """It says which black-out this is, and when it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blackout:
    days: DayPattern
    first_minute: int
    last_minute: int
    """It is the end, in minutes since midnight; beyond 24 hours it is on the next day."""
    zone: str
    name: str

    def span(self, day: date) -> tuple[int, int]:
        """Return when the black-out of a day begins and ends, in milliseconds since the epoch."""
        return self._at(day, self.first_minute), self._at(day, self.last_minute)

    def _at(self, day: date, minute: int) -> int:
        days, rest = divmod(minute, _DAY_MINUTES)
        at = datetime.combine(day + timedelta(days=days), time(rest // 60, rest % 60), ZoneInfo(self.zone))
        return int(at.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class BlackoutCalendar:
    """These are the black-outs of a lake; without any, work may always start."""

    blackouts: tuple[_Blackout, ...] = ()

    @classmethod
    def parse(cls, raw: Sequence[Mapping[str, Any]] | None) -> BlackoutCalendar:
        """Read black-outs as users write them. Raises InvalidInputError, which names the entry."""
        if not raw:
            return cls()
        if isinstance(raw, str | bytes | Mapping) or not isinstance(raw, Sequence):
            raise InvalidInputError(f"blackouts {raw!r}: write a list of black-outs")
        return cls(tuple(_parse(one) for one in raw))

    def is_closed(self, now_ms: int) -> bool:
        """Return whether a moment is within a black-out."""
        return any(start <= now_ms < end for start, end, _ in self._spans(now_ms, 2))

    def closed_at(self, now_ms: int) -> ClosedTime | None:
        """Return the black-out of a moment, or None. Black-outs that follow each other count as one."""
        now = [(end, one) for start, end, one in self._spans(now_ms, 2) if start <= now_ms < end]
        if not now:
            return None
        end_ms, first = max(now, key=lambda pair: pair[0])
        for start, later_ms, _ in self._spans(now_ms, _HORIZON_DAYS):
            if start <= end_ms < later_ms:
                end_ms = later_ms
        if end_ms - now_ms > _HORIZON_DAYS * _DAY_MINUTES * 60_000:
            return ClosedTime(None, f"the black-out {first.name} does not end within {_HORIZON_DAYS} days")
        end = f"{datetime.fromtimestamp(end_ms / 1000, ZoneInfo(first.zone)):%Y-%m-%d %H:%M %Z}"
        return ClosedTime(end_ms, f"the black-out {first.name} ends at {end}")

    def next_start_ms(self, now_ms: int) -> int | None:
        """Return when the next black-out begins, in milliseconds since the epoch, or None."""
        for start, end, _ in self._spans(now_ms, _HORIZON_DAYS):
            if start >= now_ms and end > start:
                return start
        return None

    def _spans(self, now_ms: int, days: int) -> Iterator[tuple[int, int, _Blackout]]:
        """Yield the black-outs from two days before a moment on, ordered by their beginning."""
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        for number in range(-2, days + 1):
            day = today + timedelta(days=number)
            spans = [(*one.span(day), one) for one in self.blackouts if one.days.has(day)]
            yield from sorted(spans, key=lambda span: span[:2])


def _parse(raw: Any) -> _Blackout:
    if not isinstance(raw, Mapping):
        raise InvalidInputError(f"black-out {raw!r}: write a table such as {{days = 'Mon-Fri'}}")
    strange = sorted(str(key) for key in set(raw) - set(_KEYS))
    if strange:
        raise InvalidInputError(f"a black-out has no {strange[0]!r}; it has {', '.join(_KEYS)}")
    if not (raw.get("days") or raw.get("hours")):
        raise InvalidInputError(f"black-out {dict(raw)!r}: name days or hours")
    days, hours = str(raw.get("days") or ""), str(raw.get("hours") or "")
    zone = str(raw.get("time_zone") or "UTC")
    try:
        ZoneInfo(zone)
    except (ValueError, KeyError, OSError) as err:
        raise InvalidInputError(f"black-out: time_zone {zone!r} is unknown") from err
    first, last = _minutes(hours)
    name = " ".join(part for part in (days, hours, f"({raw['why']})" if raw.get("why") else "") if part)
    return _Blackout(days=parse_days(days), first_minute=first, last_minute=last, zone=zone, name=repr(name))


def _minutes(text: str) -> tuple[int, int]:
    """Return the first minute of a day and the one after the last. Raises InvalidInputError."""
    if not text.strip():
        return 0, _DAY_MINUTES
    match = _HOURS.fullmatch(text.strip())
    if match:
        first, last = (int(match[at]) * 60 + int(match[at + 1]) for at in (1, 3))
        minutes_are_valid = max(int(match[2]), int(match[4])) < 60
        if minutes_are_valid and first < _DAY_MINUTES and last <= _DAY_MINUTES and first != last:
            return first, last if last > first else last + _DAY_MINUTES
    raise InvalidInputError(f"black-out: hours {text!r}: write them as 08:00-18:00 or 22:00-06:00")
