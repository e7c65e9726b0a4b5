"""This module has the periods in which a lookup table is not refreshed (option
`lookup.refresh.time-periods-blacklist`).

Rule of Paimon's RefreshBlacklist: `start->end,start->end`, in the local time of the process, minutes exact,
and both ends belong to the period.
"""

from __future__ import annotations

import time
from datetime import datetime

__all__ = ["Periods", "may_refresh", "parse_periods"]

Periods = tuple[tuple[int, int], ...]
"""These are periods, in milliseconds since the epoch."""

_FORM = "%Y-%m-%d %H:%M"


def parse_periods(text: str) -> Periods:
    """Parse `2026-01-01 00:00->2026-01-01 06:00,…`. Raises ValueError, as parsers of options do."""
    return tuple(_parse_one(part) for part in text.split(",")) if text.strip() else ()


def may_refresh(periods: Periods, now_ms: int) -> bool:
    """Return whether no period has the time."""
    return not any(start <= now_ms <= end for start, end in periods)


def _parse_one(text: str) -> tuple[int, int]:
    parts = text.split("->")
    if len(parts) != 2:
        raise ValueError("write start->end,start->end with times like 2026-01-31 23:59")
    start, end = (_millis(part) for part in parts)
    if start > end:
        raise ValueError(f"the period {text.strip()} ends before it starts")
    return start, end


def _millis(text: str) -> int:
    try:
        parsed_time = datetime.strptime(text.strip(), _FORM)  # noqa: DTZ007 - mktime takes the zone of the process
    except ValueError as err:
        raise ValueError(f"{text.strip()!r} is not a time like 2026-01-31 23:59") from err
    return int(time.mktime(parsed_time.timetuple())) * 1000
