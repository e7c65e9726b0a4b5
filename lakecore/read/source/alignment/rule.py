"""This module decides when a stream waits for slower streams of its group, so that their watermarks stay
close. Pure.

The rule is Flink's: a stream whose watermark is ahead of the lowest one of the group by more than the
largest drift reads nothing. A stream that has read nothing yet is the slowest. Streams that are idle, that
have ended, or whose rows have no watermark hold nobody back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_duration_ms

__all__ = [
    "ALIGNMENT_OPTIONS",
    "GROUP",
    "IDLE_TIMEOUT",
    "AlignmentRule",
    "Standing",
    "StreamState",
    "Wait",
    "hold_back",
    "wait_of",
]

GROUP: Option[str | None] = Option(
    "scan.watermark.alignment.group",
    str.strip,
    None,
    "Streams with this name of a group wait for each other.",
)
MAX_DRIFT: Option[int | None] = Option(
    "scan.watermark.alignment.max-drift",
    parse_duration_ms,
    None,
    "A stream whose watermark is ahead of the lowest one of its group by more waits (ms).",
)
UPDATE_INTERVAL = Option(
    "scan.watermark.alignment.update-interval",
    parse_duration_ms,
    1000,
    "Time between two looks at the watermarks of a group (ms).",
)
IDLE_TIMEOUT: Option[int | None] = Option(
    "scan.watermark.idle-timeout",
    parse_duration_ms,
    None,
    "A stream without rows for so long holds back no other stream of its group (ms).",
)
ALIGNMENT_OPTIONS: tuple[Option[Any], ...] = (GROUP, MAX_DRIFT, UPDATE_INTERVAL, IDLE_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentRule:
    """It says to which group a stream belongs. Times are in milliseconds."""

    group: str
    max_drift_ms: int
    update_interval_ms: int
    idle_timeout_ms: int | None

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> AlignmentRule | None:
        """Parse the options, None without a group. Raises InvalidOptionError for a group without a drift, and
        for options that have no effect without a group.
        """
        group, drift = GROUP.read(raw), MAX_DRIFT.read(raw)
        interval, idle = UPDATE_INTERVAL.read(raw), IDLE_TIMEOUT.read(raw)
        if group is None:
            for option in (MAX_DRIFT, UPDATE_INTERVAL, IDLE_TIMEOUT):
                if option.key in raw:
                    raise InvalidOptionError(
                        f"option {option.key}={raw[option.key]!r}: it has no effect without {GROUP.key}; "
                        "give both, or leave it out"
                    )
            return None
        if not group:
            raise InvalidOptionError(f"option {GROUP.key} is empty; give the name of a group")
        if drift is None:
            raise InvalidOptionError(
                f"option {GROUP.key}={group!r}: it needs {MAX_DRIFT.key}, such as '1 min'; give both"
            )
        return cls(group=group, max_drift_ms=drift, update_interval_ms=interval, idle_timeout_ms=idle)


class Standing(Enum):
    """It says what a stream means for the others of its group."""

    BEFORE_FIRST = "before-first"
    """It has read nothing yet, and holds back all that have a watermark."""
    READING = "reading"
    """It holds back those that are ahead of its watermark."""
    WITHOUT_WATERMARK = "without-watermark"
    """Its rows have no watermark: it neither waits nor holds others back."""
    IDLE = "idle"
    """It had no rows for longer than its timeout, and holds nobody back."""
    ENDED = "ended"
    """It has reached its bound, and holds nobody back."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """It is what a stream tells the others of its group."""

    table: str
    standing: Standing
    watermark: int | None = None
    """It is in milliseconds, and None before the first watermark."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It says for which stream another one waits."""

    watermark: int
    slowest: StreamState

    def __str__(self) -> str:
        """Return the reason as a clause."""
        if self.slowest.watermark is None:
            return (
                f"its watermark is {self.watermark}, and the stream of {self.slowest.table} has read nothing"
            )
        return (
            f"its watermark is {self.watermark}, and that of the stream of {self.slowest.table} is "
            f"{self.slowest.watermark}"
        )


def wait_of(watermark: int | None, others: Iterable[StreamState], max_drift_ms: int) -> Wait | None:
    """Return for whom a stream with this watermark waits, None if it may read."""
    if watermark is None:
        return None
    lowest = min(hold_back(others), key=_height, default=None)
    if lowest is None or _height(lowest) + max_drift_ms >= watermark:
        return None
    return Wait(watermark, lowest)


def hold_back(others: Iterable[StreamState]) -> list[StreamState]:
    """Return the streams that others wait for."""
    return [one for one in others if one.standing in (Standing.BEFORE_FIRST, Standing.READING)]


def _height(state: StreamState) -> float:
    return float("-inf") if state.watermark is None else state.watermark
