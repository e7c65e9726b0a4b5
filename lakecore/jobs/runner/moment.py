"""This module parses points in time and durations, as users write them."""

from __future__ import annotations

import pendulum

from lakecore.errors import InvalidInputError
from lakecore.options import parse_duration_ms

__all__ = ["optional_span", "parse_moment", "parse_span"]


def parse_moment(text: str, argument: str, zone: str = "UTC") -> int:
    """Return milliseconds since the epoch. The text is an ISO-8601 date and time (without an offset it is in
    `zone`), or milliseconds.

    Raises InvalidInputError naming `argument`.
    """
    plain = text.strip()
    if plain.isascii() and plain.isdigit() and 4 < len(plain) < 20:
        return int(plain)
    try:
        moment = pendulum.parse(plain, tz=zone)
    except ValueError as err:
        raise InvalidInputError(_advice(argument, text)) from err
    if not isinstance(moment, pendulum.DateTime):
        raise InvalidInputError(_advice(argument, text))
    return int(moment.timestamp() * 1000)


def parse_span(text: str, argument: str) -> int:
    """Return the milliseconds of `7 d`, `1 h`, `PT1H`. Raises InvalidInputError naming `argument`."""
    try:
        return parse_duration_ms(text)
    except ValueError as err:
        raise InvalidInputError(f"{argument} {text!r}: {err}") from err


def optional_span(text: str | None, argument: str) -> int | None:
    """Parse a duration like `parse_span`; None for a text that is missing or empty."""
    return parse_span(text, argument) if text else None


def _advice(argument: str, text: str) -> str:
    return (
        f"{argument} {text!r}: write a date and time such as 2026-11-21T04:00:00Z, or milliseconds since 1970"
    )
