"""This module adds to a survey what jobs and writers did since the last one. Pure.

A survey takes over what the last one knew, and adds the attempts that ended since then: it reads the ledger
of a few hours, not of a week.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import printable
from lakecore.maintain.attempts.record import DAY_MS, Attempt, AttemptState

__all__ = [
    "DayActivity",
    "LastAttempt",
    "Lateness",
    "commits_by_hour",
    "lateness_after",
    "newest_attempts",
    "rhythm_from_json",
    "with_ended",
]

_DAYS = 14
_HOURS = 24
_HOUR_MS = 3_600_000
_MEMORY = 0.8
"""The share of the rhythm that a day of observation leaves of what was known before."""
_JOBS = 40
_TRIED = frozenset({AttemptState.DONE, AttemptState.NOTHING, AttemptState.LEFT})
_FAILED = frozenset({AttemptState.FAILED, AttemptState.REFUSED, AttemptState.KILLED})


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """This is the newest attempt of a job on a table."""

    job: str
    state: str
    started_ms: int

    @classmethod
    def from_json(cls, raw: Any) -> LastAttempt:
        """Build it from its JSON. Raises ValueError, TypeError, KeyError."""
        return cls(_word(raw["job"]), _word(raw["state"]), _whole(raw["started_ms"]))


@dataclass(frozen=True, slots=True)
class Lateness:
    """It says for how many nights in a row a window ended before the table was compacted."""

    nights: int = 0
    night_ms: int = 0
    """This is when the last of these attempts began."""

    @classmethod
    def from_json(cls, raw: Any) -> Lateness:
        """Build it from its JSON. Raises ValueError, TypeError, KeyError."""
        return cls(_whole(raw["nights"]), _whole(raw["night_ms"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DayActivity:
    """These are sums over the attempts of a lake that ended on a day (UTC)."""

    day: int
    """It counts days since 1970."""
    attempts: int = 0
    failures: int = 0
    core_seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0

    @classmethod
    def from_json(cls, raw: Any) -> DayActivity:
        """Build it from its JSON. Raises ValueError, TypeError, KeyError."""
        numbers = ("day", "attempts", "failures", "bytes_read", "bytes_written")
        whole = {name: _whole(raw[name]) for name in numbers}
        return cls(core_seconds=_number(raw["core_seconds"]), **whole)


def with_ended(days: Iterable[DayActivity], ended: Iterable[Attempt], now_ms: int) -> tuple[DayActivity, ...]:
    """Return the sums with the attempts that ended since they were made, without days that are too old."""
    sums = {one.day: one for one in days}
    for one in ended:
        day = (one.finished_ms or one.started_ms) // DAY_MS
        so_far = sums.get(day, DayActivity(day=day))
        cost = one.cost
        sums[day] = DayActivity(
            day=day,
            attempts=so_far.attempts + 1,
            failures=so_far.failures + (one.state in _FAILED),
            core_seconds=round(so_far.core_seconds + float(cost.get("core_seconds") or 0), 3),
            bytes_read=so_far.bytes_read + int(cost.get("bytes_read") or 0),
            bytes_written=so_far.bytes_written + int(cost.get("bytes_written") or 0),
        )
    return tuple(sums[day] for day in sorted(sums) if now_ms // DAY_MS - _DAYS < day <= now_ms // DAY_MS + 1)


def newest_attempts(before: Sequence[LastAttempt], ended: Iterable[Attempt]) -> tuple[LastAttempt, ...]:
    """Return the newest attempt of each job, with those that ended since."""
    by_job = {one.job: one for one in before}
    for one in ended:
        last = by_job.get(one.job)
        if last is None or last.started_ms <= one.started_ms:
            by_job[one.job] = LastAttempt(printable(one.job, 80), one.state.value, one.started_ms)
    return tuple(sorted(by_job.values(), key=lambda one: -one.started_ms)[:_JOBS])


def lateness_after(before: Lateness, ended: Iterable[Attempt]) -> Lateness:
    """Return for how many nights in a row compactions of the table left something. Two attempts within half a
    day are of one night.
    """
    late = before
    for one in sorted(ended, key=lambda one: one.started_ms):
        if one.job != "compact" or one.state not in _TRIED:
            continue
        if one.state is not AttemptState.LEFT and not one.figures.get("picks_left"):
            late = Lateness()
        elif not late.nights or one.started_ms - late.night_ms > DAY_MS // 2:
            late = Lateness(late.nights + 1, one.started_ms)
        else:
            late = replace(late, night_ms=one.started_ms)
    return late


def commits_by_hour(before: Sequence[float], commits: int, since_ms: int, now_ms: int) -> tuple[float, ...]:
    """Return the usual number of commits in each hour of the day (UTC). `commits` were made since `since_ms`;
    they count evenly for the hours that have passed. What is older counts less with every day.
    """
    rhythm = list(before) if len(before) == _HOURS else [0.0] * _HOURS
    first, last = since_ms // _HOUR_MS, now_ms // _HOUR_MS
    hours = [hour % _HOURS for hour in range(max(first, last - _HOURS + 1), last + 1)]
    if not hours:
        return tuple(rhythm)
    length = max(1, now_ms - since_ms) / _HOUR_MS
    rate = commits / max(1.0, length)
    weight = (1 - _MEMORY) * min(1.0, length / len(hours)) if any(rhythm) else 1.0
    for hour in set(hours):
        rhythm[hour] = round(rhythm[hour] * (1 - weight) + rate * weight, 3)
    return tuple(rhythm)


def rhythm_from_json(raw: Any) -> tuple[float, ...]:
    """Read a rhythm from its JSON: nothing, or 24 numbers. Raises ValueError, TypeError."""
    rhythm = tuple(_number(one) for one in raw)
    if len(rhythm) not in (0, _HOURS):
        raise ValueError("a rhythm has 24 numbers")
    return rhythm


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return printable(value, 80)


def _word(value: Any) -> str:
    """Return a text that many tables have; all of them have the same object."""
    return sys.intern(_text(value))


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError("not a whole number of 0 or more")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise TypeError("not a number of 0 or more")
    return float(value)
