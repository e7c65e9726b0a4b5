"""This module is the only place that reads the time and makes fresh ids. Pass a `Clock` where either is
needed.
"""

from __future__ import annotations

import time
import uuid
from typing import Protocol

__all__ = ["Clock", "SystemClock", "epoch_ms", "local_ms"]


def local_ms(now_ms: int) -> int:
    """Return what the clock on the wall shows at `now_ms`, in milliseconds since it showed
    1970-01-01T00:00.

    It takes the time zone of the process, as Java writers do for the creation time of files.
    """
    return now_ms + time.localtime(now_ms / 1000).tm_gmtoff * 1000


def epoch_ms(local_ms: int) -> int:
    """Return when the clock on the wall showed `local_ms`, in milliseconds since the epoch."""
    seconds, millis = divmod(local_ms, 1000)
    return int(time.mktime((*time.gmtime(seconds)[:8], -1))) * 1000 + millis


class Clock(Protocol):
    """A clock tells the time, waits and makes fresh names."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; they never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def fresh_id(self) -> str:
        """Return a new random UUID as text."""


class SystemClock:
    """This clock is the machine's."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def fresh_id(self) -> str:
        return str(uuid.uuid4())
