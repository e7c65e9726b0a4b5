"""The end of a maintenance window."""

from __future__ import annotations

import pendulum
import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs.runner.until import parse_until

NOW = int(pendulum.datetime(2026, 11, 21, 2, 30).timestamp() * 1000)


def _text(millis: int) -> str:
    return pendulum.from_timestamp(millis / 1000).format("YYYY-MM-DD HH:mm")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("05:00", "2026-11-21 05:00"),
        ("02:00", "2026-11-22 02:00"),
        ("02:30", "2026-11-22 02:30"),
        ("2026-11-21T04:00:00Z", "2026-11-21 04:00"),
        ("2026-11-21 04:00+02:00", "2026-11-21 02:00"),
    ],
)
def test_until_is_the_next_such_time_or_a_moment(text: str, at: str) -> None:
    assert _text(parse_until(text, NOW)) == at


def test_a_time_of_day_is_in_the_given_zone() -> None:
    assert _text(parse_until("05:00", NOW, "Europe/Berlin")) == "2026-11-21 04:00"


@pytest.mark.parametrize("text", ["", "soon", "25:00", "12:99", "tomorrow 5"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="HH:MM"):
        parse_until(text, NOW)
