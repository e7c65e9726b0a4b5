"""This module has the offsets of time zones as Java's `TimeZone` has them, for whole columns.

They are those of the tz database, but before 1900 every zone keeps what is its standard offset today (checked
with all zones of Java 17). Fixed zones are written GMT+08:00.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from lakecore.errors import UnsupportedError

__all__ = ["BASE_SECONDS", "base_seconds", "is_named", "offsets"]

BASE_SECONDS = 1_420_070_400
"""This is 2015-01-01 00:00:00 in UTC in seconds; ORC counts from it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_FIRST = -2_208_988_800  # 1900-01-01
_CYCLE = 146_097 * _DAY  # 400 years, after which the rules of a calendar come again
_LAST = _FIRST + _CYCLE + 200 * 366 * _DAY
_STEP = 20 * _DAY  # there are zones with two changes in a month, but none with two within it
_STANDARD = (datetime(2037, 1, 1, tzinfo=UTC), datetime(2037, 7, 1, tzinfo=UTC))
_FIXED = re.compile(r"GMT([+-])(\d{1,2}):?(\d{2})?")
_SHORT = MappingProxyType(
    {
        "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
        "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
        "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
        "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
        "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
        "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
        "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
        "VST": "Asia/Ho_Chi_Minh",
    }
)  # fmt: skip
"""Names that Java has and the tz database has not."""

Seconds = npt.NDArray[np.int64]


def is_named(zone: str) -> bool:
    """Return whether the zone is in the tz database, which pyarrow uses too. "" stands for UTC."""
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def offsets(zone: str, seconds: Seconds) -> Seconds:
    """Return the seconds to add to UTC at these instants. Raises UnsupportedError for an unknown zone."""
    starts, values = _table(zone)
    if len(starts) == 1:
        return np.full(len(seconds), values[0])
    late = np.maximum(seconds - (_LAST - _CYCLE), 0) // _CYCLE * _CYCLE
    result: Seconds = values[np.searchsorted(starts, seconds - late, side="right") - 1]
    return result


def base_seconds(zone: str) -> int:
    """Return the second 2015-01-01 00:00:00 in that zone. Raises UnsupportedError."""
    return BASE_SECONDS - int(offsets(zone, np.array([BASE_SECONDS]))[0])


@lru_cache(maxsize=32)
def _table(zone: str) -> tuple[Seconds, Seconds]:
    """Return the instants from which an offset holds, and the offsets. It takes a tenth of a second per
    zone.
    """
    fixed = _FIXED.fullmatch(zone)
    if zone in ("", "UTC", "GMT", "Z") or fixed:
        return np.array([np.iinfo(np.int64).min]), np.array([_fixed_offset(fixed)])
    try:
        rules = ZoneInfo(_SHORT.get(zone, zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise UnsupportedError(
            f"time zone {zone!r} is not in the tz database; install a newer tz database"
        ) from err
    standard = min(_offset(rules, moment) for moment in _STANDARD)
    starts, values = [int(np.iinfo(np.int64).min)], [standard]
    at, value = _FIRST, _at(rules, _FIRST)
    starts, values = [*starts, at], [*values, value]
    while at < _LAST:
        after = _at(rules, at + _STEP)
        if after != value:
            starts.append(_change(rules, at, at + _STEP, value))
            values.append(after)
            value = after
        at += _STEP
    return np.array(starts), np.array(values)


def _change(rules: ZoneInfo, low: int, high: int, before: int) -> int:
    """Return the first second with another offset than `before`, which `low` has and `high` has not."""
    while high - low > 1:
        middle = (low + high) // 2
        if _at(rules, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _at(rules: ZoneInfo, seconds: int) -> int:
    return _offset(rules, _EPOCH + timedelta(seconds=seconds))


def _offset(rules: ZoneInfo, moment: datetime) -> int:
    local = moment.astimezone(rules).utcoffset()
    return 0 if local is None else int(local.total_seconds())


def _fixed_offset(match: re.Match[str] | None) -> int:
    if match is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
    return -seconds if match[1] == "-" else seconds
