"""This module says how long to wait before a request is sent again. It asks the clock, and nothing else."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from lakecore.clock import Clock

__all__ = ["pause_after"]

_FIRST = 0.2
_LONGEST = 10.0
_LONGEST_ASKED = 60.0


def pause_after(number: int, retry_after: str | None, clock: Clock) -> float:
    """Return the seconds to wait after the try of that number, the first is 0.

    `retry_after` is the header Retry-After: seconds, or a date. It is obeyed up to a minute. Otherwise the
    pause doubles from 0.2 up to 10 seconds, with up to half of it at random, so that callers do not come at
    once.
    """
    seconds = _seconds_until(retry_after, clock.now_ms()) if retry_after else None
    if seconds is not None:
        return min(seconds, _LONGEST_ASKED)
    noise = int(clock.fresh_id()[:8], 16) / 2**32
    return float(min(_FIRST * 2**number, _LONGEST) * (1 + noise / 2))


def _seconds_until(text: str, now_ms: int) -> float | None:
    if text.isascii() and text.strip().isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(moment - now_ms / 1000, 0.0)
