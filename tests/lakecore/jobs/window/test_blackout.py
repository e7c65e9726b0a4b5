"""The days and hours at which no maintenance starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs.window.blackout import BlackoutCalendar

BERLIN_IN_MARCH = {"days": "2026-03-29", "hours": "01:00-04:00", "time_zone": "Europe/Berlin"}
"""In this night the clock goes forward from 02:00 to 03:00."""


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("blackout", "moment", "end"),
    [
        ({"days": "Mon-Fri", "hours": "08:00-18:00"}, "2026-11-24T07:59", None),  # a Tuesday
        ({"days": "Mon-Fri", "hours": "08:00-18:00"}, "2026-11-24T08:00", "2026-11-24T18:00"),
        ({"days": "Mon-Fri", "hours": "08:00-18:00"}, "2026-11-24T18:00", None),
        ({"days": "Mon-Fri", "hours": "08:00-18:00"}, "2026-11-28T12:00", None),  # a Saturday
        ({"days": "Fri-Mon"}, "2026-11-28T12:00", "2026-12-01T00:00"),
        ({"days": "Sat, Sun"}, "2026-11-28T12:00", "2026-11-30T00:00"),
        ({"days": "Fri", "hours": "22:00-06:00"}, "2026-11-28T05:59", "2026-11-28T06:00"),
        ({"days": "Fri", "hours": "22:00-06:00"}, "2026-11-27T05:59", None),
        ({"hours": "00:00-24:00", "days": "2026-12-24"}, "2026-12-24T23:59", "2026-12-25T00:00"),
        ({"days": "2026-12-24..2026-12-26"}, "2026-12-24T00:00", "2026-12-27T00:00"),
        ({"days": "12-24..01-02"}, "2027-01-01T12:00", "2027-01-03T00:00"),
        ({"days": "12-24..01-02"}, "2027-01-03T12:00", None),
        ({"days": "02-29"}, "2028-02-29T12:00", "2028-03-01T00:00"),
        ({"days": "last day"}, "2027-02-28T12:00", "2027-03-01T00:00"),
        ({"days": "last day, day 1..day 3"}, "2026-11-30T12:00", "2026-12-04T00:00"),
        ({"days": "2026-11-24", "time_zone": "Asia/Tokyo"}, "2026-11-23T15:00", "2026-11-24T15:00"),
        ({"days": "2026-11-24", "time_zone": "Asia/Tokyo"}, "2026-11-24T15:00", None),
        (BERLIN_IN_MARCH, "2026-03-29T01:30", "2026-03-29T02:00"),
    ],
    ids=str,
)
def test_when_work_may_start(blackout: dict[str, Any], moment: str, end: str | None) -> None:
    closed = BlackoutCalendar.parse([blackout]).closed_at(ms(moment))
    assert (closed and closed.end_ms) == (end and ms(end))


def test_the_text_names_the_blackout_its_reason_and_its_end() -> None:
    calendar = BlackoutCalendar.parse(
        [{"days": "Sat,Sun"}, {"days": "Fri", "hours": "20:00-24:00", "why": "stock-taking"}]
    )
    closed = calendar.closed_at(ms("2026-11-27T21:00"))
    assert closed is not None
    assert closed.text == "the black-out 'Fri 20:00-24:00 (stock-taking)' ends at 2026-11-30 00:00 UTC"


def test_the_next_blackout_ends_a_window() -> None:
    calendar = BlackoutCalendar.parse([{"days": "Mon-Fri", "hours": "08:00-18:00"}])
    assert calendar.next_start_ms(ms("2026-11-27T12:00")) == ms("2026-11-30T08:00")
    assert BlackoutCalendar.parse([{"days": "2020-01-01"}]).next_start_ms(ms("2026-11-27T12:00")) is None
    assert BlackoutCalendar.parse(None).next_start_ms(0) is None


def test_a_calendar_without_a_free_hour_has_no_end() -> None:
    closed = BlackoutCalendar.parse([{"days": "Mon-Sun"}]).closed_at(ms("2026-11-27T12:00"))
    assert closed is not None
    assert closed.end_ms is None
    assert "does not end within 400 days" in closed.text


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("Mon", "write a list"),
        ({"days": "Mon"}, "write a list"),
        (["Mon"], "write a table"),
        ([{"day": "Mon"}], "has no 'day'; it has days, hours, why, time_zone"),
        ([{"why": "because"}], "name days or hours"),
        ([{"days": "Montag"}], "days 'montag' are unknown"),
        ([{"days": "Mon..2026-01-01"}], "are unknown"),
        ([{"days": "2026-02-30"}], "no day of the calendar"),
        ([{"days": "13-01"}], "no day of the calendar"),
        ([{"days": "2026-12-26..2026-12-24"}], "end before they begin"),
        ([{"days": "day 32"}], "are unknown"),
        ([{"days": "Mon", "hours": "8-18"}], "write them as 08:00-18:00"),
        ([{"hours": "08:61-09:00"}], "write them as"),
        ([{"hours": "08:00-08:00"}], "write them as"),
        ([{"hours": "25:00-26:00"}], "write them as"),
        ([{"days": "Mon", "time_zone": "Mars/Base"}], "time_zone 'Mars/Base' is unknown"),
    ],
    ids=str,
)
def test_a_wrong_blackout_is_refused_in_words(raw: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        BlackoutCalendar.parse(raw)
