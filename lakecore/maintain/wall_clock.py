"""This module computes wall clocks of time zones, as the format's options name them: `UTC`, `Europe/Berlin`,
`GMT-08:00`, `+8`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["WallClock"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")


@dataclass(frozen=True)
class WallClock:
    """It translates between instants and what a clock on the wall shows, both in milliseconds.

    Local milliseconds are counted as if the clock were in UTC.
    """

    zone: tzinfo

    @classmethod
    def of(cls, name: str) -> WallClock:
        """Return the wall clock of a time zone. Raises InvalidInputError."""
        match = _OFFSET.fullmatch(name.strip().upper())
        try:
            if match is not None:
                minutes = int(match[2]) * 60 + int(match[3] or 0)
                return cls(timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes)))
            return cls(UTC if name.strip() in ("Z", "UTC", "GMT", "UT") else ZoneInfo(name.strip()))
        except (ZoneInfoNotFoundError, ValueError, OSError) as err:
            raise InvalidInputError(
                f"time zone {name!r} is unknown; write for example UTC, Europe/Berlin or GMT+08:00"
            ) from err

    def local_ms(self, utc_ms: int) -> int | None:
        """Return what the wall clock shows at a time, or None beyond the years that calendars know."""
        try:
            at = (_EPOCH + timedelta(milliseconds=utc_ms)).astimezone(self.zone)
        except (OverflowError, ValueError):
            return None
        return utc_ms + _millis(at.utcoffset())

    def utc_ms(self, local_ms: int) -> int:
        """Return when the wall clock shows a time; the first time where it does so twice, the leap where it
        never does.
        """
        wall = (_EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=self.zone)
        return local_ms - _millis(wall.utcoffset())


def _millis(offset: timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds() * 1000)
