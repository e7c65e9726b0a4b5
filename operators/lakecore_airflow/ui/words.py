"""This module puts numbers into words: sizes, times, lengths of time, money. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = [
    "DAY_MS",
    "age_text",
    "money_text",
    "number_text",
    "size_text",
    "span_text",
    "state_text",
    "time_text",
]

_HOUR_MS = 3_600_000
DAY_MS = 24 * _HOUR_MS


def size_text(size: int | None) -> str:
    """Format a size as the command line does; an unknown one is an empty text."""
    from lakecore.display import size_text as text_of

    return text_of(size) or ""


def time_text(millis: int | None) -> str:
    """Format milliseconds since the epoch as `2026-11-21 09:46:10 UTC`; what is no date is an empty text."""
    if not millis:
        return ""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def span_text(seconds: float | None) -> str:
    """Format a length of time: `0.4 s`, `12 min`, `3.2 h`; an unknown one is an empty text."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def money_text(amount: float | None, currency: str) -> str:
    """Format an amount of money; an unknown one is an empty text."""
    if amount is None:
        return ""
    if 0 < amount < 0.0001:
        return f"< 0.0001 {currency}".strip()
    digits = 2 if amount >= 1 or not amount else 4
    return f"{amount:,.{digits}f} {currency}".strip()


def number_text(value: float | None) -> str:
    """Format a number with separators; an unknown one is an empty text."""
    return "" if value is None else f"{value:,}"


def state_text(state: str) -> str:
    """Return the word for a state of a table; surveys store `held` for a table that is on hold."""
    return "on hold" if state == "held" else state


def age_text(millis: int | None, now_ms: int) -> str:
    """Format how long ago something was: `3 h ago`."""
    if not millis:
        return ""
    past = max(0, now_ms - millis)
    for unit, size in (("d", DAY_MS), ("h", _HOUR_MS), ("min", 60_000)):
        if past >= size:
            return f"{past / size:.0f} {unit} ago"
    return "just now"
