"""Periods of automatic tags: this module converts between the start of a period and the name of its tag.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_duration_ms, parse_enum
from lakecore.types.text import parse_timestamp, timestamp_text

__all__ = ["AutoTagNames", "TagFormatter", "TagPeriod"]


class TagPeriod(Enum):
    """It says how often automatic tags are made (option `tag.creation-period`)."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagFormatter(Enum):
    """It says how the names of automatic tags are written (option `tag.period-formatter`)."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


PERIOD = Option("tag.creation-period", parse_enum(TagPeriod), TagPeriod.DAILY, "How often tags are made.")
FORMATTER = Option(
    "tag.period-formatter", parse_enum(TagFormatter), TagFormatter.WITH_DASHES, "How their names are written."
)
DURATION: Option[int | None] = Option(
    "tag.creation-period-duration", parse_duration_ms, None, "Any period; its names tell minutes."
)

_HOUR = 3_600_000
_LENGTHS = {TagPeriod.DAILY: 24 * _HOUR, TagPeriod.HOURLY: _HOUR, TagPeriod.TWO_HOURS: 2 * _HOUR}
_DAY = {False: (r"(\d{4})(\d\d)(\d\d)", "20260131"), True: (r"(\d{4})-(\d\d)-(\d\d)", "2026-01-31")}
_LAST = 253_402_300_800_000
"""The year 10000: names have four digits for the year."""


@dataclass(frozen=True, slots=True)
class AutoTagNames:
    """This is the naming rule of automatic tags. Times are of a wall clock, counted as if it were UTC."""

    pattern: str
    """This regular expression finds year, month, day and, if present, hour and minute in a name."""
    example: str
    """This is a sample name, used in messages."""
    length_ms: int
    """This is the length of one period in milliseconds."""

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> AutoTagNames:
        """Build the rule from table options. Raises InvalidOptionError."""
        period, formatter, duration = PERIOD.read(raw), FORMATTER.read(raw), DURATION.read(raw)
        if duration is not None:
            if duration < 1:
                raise InvalidOptionError(f"option {DURATION.key}={raw[DURATION.key]!r}: it must be above 0")
            pattern, example = _DAY[False]
            return cls(pattern + r"(\d\d)(\d\d)", example + "0930", duration)
        length = _LENGTHS[period]
        dashes = formatter is TagFormatter.WITH_DASHES or period is TagPeriod.TWO_HOURS
        pattern, example = _DAY[dashes]
        if period is TagPeriod.DAILY:
            return cls(pattern + r"(?: .*)?", example, length)
        if not dashes and formatter is TagFormatter.WITHOUT_DASHES_AND_SPACES:
            return cls(pattern + r"(\d\d)", example + "09", length)
        return cls(pattern + r" (\d\d)", example + " 09", length)

    def time_of(self, name: str) -> int | None:
        """Return the time in a name, in nanoseconds since the epoch; None for the name of another tag."""
        match = re.fullmatch(self.pattern, name, re.ASCII)
        if match is None:
            return None
        year, month, day, hour, minute = (*match.groups(), "00", "00")[:5]
        try:
            return parse_timestamp(f"{year}-{month}-{day} {hour}:{minute}:00")
        except ValueError:
            return None

    def name_of(self, local_ms: int) -> str | None:
        """Return the name of the period that begins at `local_ms`; None before 1970 or after 9999."""
        if not 0 <= local_ms < _LAST:
            return None
        text = timestamp_text(local_ms * 1_000_000, 0)
        year, month, day, hour, minute = re.split("[- :]", text)[:5]
        dash = "-" if "-" in self.example else ""
        clock = {4: hour + minute, 3: f" {hour}", 2: hour}.get(
            len(self.example) - len(_DAY[bool(dash)][1]), ""
        )
        return dash.join((year, month, day)) + clock

    def floor(self, local_ms: int) -> int:
        """Return when the period that contains `local_ms` began."""
        return local_ms // self.length_ms * self.length_ms
