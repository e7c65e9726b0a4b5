"""This module parses the time at which a job must stop: the text of `--until` and of the operators'
`until`.
"""

from __future__ import annotations

import re

import pendulum

from lakecore.errors import InvalidInputError

__all__ = ["parse_until"]

_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})")


def parse_until(text: str, now_ms: int, zone: str = "UTC") -> int:
    """Return milliseconds since the epoch.

    `HH:MM` is the next such time after `now_ms`; any other text is an ISO-8601 date and time. Text without an
    offset is in `zone`. Raises InvalidInputError.
    """
    now = pendulum.from_timestamp(now_ms / 1000, tz=zone)
    match = _TIME_OF_DAY.fullmatch(text.strip())
    try:
        if match:
            at = now.at(int(match[1]), int(match[2]))
            return _millis(at if at > now else at.add(days=1))
        moment = pendulum.parse(text.strip(), tz=zone)
    except ValueError as err:
        raise InvalidInputError(
            f"until {text!r}: write HH:MM, or a date and time such as 2026-11-21T04:00:00Z"
        ) from err
    if not isinstance(moment, pendulum.DateTime):
        raise InvalidInputError(
            f"until {text!r}: write HH:MM, or a date and time such as 2026-11-21T04:00:00Z"
        )
    return _millis(moment)


def _millis(moment: pendulum.DateTime) -> int:
    return int(moment.timestamp() * 1000)
