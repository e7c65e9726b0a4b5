"""Names of automatic tags: the time that such a name tells. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakecore.options import Option, parse_duration_ms, parse_enum
from lakecore.types.text import parse_timestamp

__all__ = ["AutoTagNames"]


class TagPeriod(Enum):
    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagFormatter(Enum):
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

_DAY = {False: (r"(\d{4})(\d\d)(\d\d)", "20260131"), True: (r"(\d{4})-(\d\d)-(\d\d)", "2026-01-31")}


@dataclass(frozen=True, slots=True)
class AutoTagNames:
    """`pattern` finds year, month, day and perhaps hour and minute; `example` is one for messages."""

    pattern: str
    example: str

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> AutoTagNames:
        """Raises InvalidOptionError."""
        period, formatter = PERIOD.read(raw), FORMATTER.read(raw)
        if DURATION.read(raw) is not None:
            pattern, example = _DAY[False]
            return cls(pattern + r"(\d\d)(\d\d)", example + "0930")
        dashes = formatter is TagFormatter.WITH_DASHES or period is TagPeriod.TWO_HOURS
        pattern, example = _DAY[dashes]
        if period is TagPeriod.DAILY:
            return cls(pattern + r"(?: .*)?", example)
        if not dashes and formatter is TagFormatter.WITHOUT_DASHES_AND_SPACES:
            return cls(pattern + r"(\d\d)", example + "09")
        return cls(pattern + r" (\d\d)", example + " 09")

    def time_of(self, name: str) -> int | None:
        """Nanoseconds since the epoch of the time in a name; None for the name of another tag."""
        match = re.fullmatch(self.pattern, name, re.ASCII)
        if match is None:
            return None
        year, month, day, hour, minute = (*match.groups(), "00", "00")[:5]
        try:
            return parse_timestamp(f"{year}-{month}-{day} {hour}:{minute}:00")
        except ValueError:
            return None
