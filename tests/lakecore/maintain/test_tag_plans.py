"""Periods, their names, and which snapshot gets which tag, case by case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.maintain.auto_tags.options import auto_rule, num_retained
from lakecore.maintain.auto_tags.plan import AutoTag, Moment, next_tags, surplus
from lakecore.maintain.batch_tags.plan import Period, Point, Series, last_before, plan, retire
from lakecore.maintain.wall_clock import WallClock
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.types.text import parse_timestamp
from tests.support import datadriven

TESTDATA = Path(__file__).parent / "testdata"
HOUR = 3_600_000


def millis(text: str) -> int:
    return parse_timestamp(text) // 1_000_000


def next_answer(case: datadriven.Case) -> str:
    """Lines: a snapshot and its time on the wall."""
    period = case.args["period"]
    options = {
        "tag.creation-period-duration" if period[0].isdigit() else "tag.creation-period": period,
        "tag.period-formatter": case.args.get("formatter", "with_dashes"),
        "tag.creation-delay": f"{case.args.get('delay', 0)} min",
        "tag.automatic-completion": case.args.get("completes", "false"),
    }
    rule = auto_rule(options)
    newest = None
    if "newest" in case.args:
        name, snapshot = case.args["newest"].replace("_", " ").split("/")
        newest = AutoTag(name, (rule.names.time_of(name) or 0) // 1_000_000, int(snapshot))
    rows = [line.split(" ", 1) for line in case.input]
    moments = [Moment(int(n), None if time == "none" else millis(time)) for n, time in rows]
    return ", ".join(f"{tag.name} of {tag.snapshot}" for tag in next_tags(rule, newest, moments))


def batch_answer(case: datadriven.Case) -> str:
    """A series whose periods take ten hours from 1970 on; tags are called by the hour they begin at."""
    names = {f"{hour}": _TEN.name_of(hour * HOUR) for hour in range(0, 100, 10)}
    hours = {name: hour for hour, name in names.items()}
    points, tags = [], {}
    for first, *rest in (line.split() for line in case.input):
        if first == "tag":
            tags[names.get(rest[0], rest[0])] = int(rest[1])
        else:
            clock = None if rest[0] == "?" else int(rest[0]) * HOUR
            points.append(Point(int(first.lstrip("~")), clock, not first.startswith("~")))
    over = int(case.args["over"])
    periods = [
        Period(names[f"{h}"], h * HOUR, (h + 10) * HOUR) for h in range(0, over + 9 - (over + 9) % 10, 10)
    ]
    duties = plan(periods, points, tags, over_ms=over * HOUR)
    most = int(case.args["most"]) if "most" in case.args else None
    duties, gone = retire(duties, _TEN, tags, most)
    lines = []
    for duty in duties:
        text = f"{hours[duty.period.name]} {duty.state.value}"
        if duty.state.value in ("new", "there"):
            text += f" {duty.snapshot or duty.current}"
        elif duty.state.value == "other":
            text += f" {duty.snapshot} not {duty.current}"
        else:
            text += f": {duty.why}"
        lines.append(text)
    return "\n".join([*lines, *(["goes " + " ".join(hours[name] for name in gone)] if gone else [])])


_TEN = Series(AutoTagNames.from_options({"tag.creation-period-duration": "10 h"}), "eod-{period}")


def test_automatic_tags(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "auto_tags.txt", next_answer, rewrite)


def test_batch_tags(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "batch_tags.txt", batch_answer, rewrite)


def test_what_is_left_of_a_history_answers_as_all_of_it_or_not_at_all() -> None:
    """Random histories; the oldest snapshots have expired but for some that tags or changelogs know."""
    for seed in range(400):
        random = Random(seed)
        times = sorted(random.choices(range(30), k=random.randint(1, 12)))
        every = [Point(n, time, True) for n, time in enumerate(times, 1)]
        first = random.randint(1, len(every))
        known = [
            replace(p, taggable=p.snapshot >= first or random.random() < 0.6)
            for p in every
            if p.snapshot >= first or random.random() < 0.5
        ]
        for end in range(0, 32, 3):
            truth, answer = last_before(every, end), last_before(known, end)
            assert (truth.snapshot or 0) == sum(time < end for time in times)
            assert answer.snapshot in (truth.snapshot, None), (seed, end)
            assert not answer.empty or truth.empty, (seed, end)
            if known == every:
                assert answer == truth, (seed, end)


def test_what_is_too_many_goes_by_the_age_of_snapshots() -> None:
    tags = [AutoTag("b", 20, 3), AutoTag("a", 10, 9), AutoTag("c", 30, 1)]
    assert [surplus(tags, most) for most in (None, 3, 2, 1)] == [(), (), ("c",), ("c", "b")]


@pytest.mark.parametrize(
    ("period", "formatter", "name"),
    [
        ("daily", "with_dashes", "2026-03-05"),
        ("daily", "without_dashes", "20260305"),
        ("daily", "without_dashes_and_spaces", "20260305"),
        ("hourly", "with_dashes", "2026-03-05 08"),
        ("hourly", "without_dashes", "20260305 08"),
        ("hourly", "without_dashes_and_spaces", "2026030508"),
        ("two-hours", "without_dashes_and_spaces", "2026-03-05 08"),
        ("15 min", "with_dashes", "202603050845"),
    ],
)
def test_a_period_is_named_and_its_name_is_read(period: str, formatter: str, name: str) -> None:
    key = "tag.creation-period-duration" if period[0].isdigit() else "tag.creation-period"
    names = AutoTagNames.from_options({key: period, "tag.period-formatter": formatter})
    begins = names.floor(millis("2026-03-05 08:59"))
    assert names.name_of(begins) == name
    series = Series(names, "x{period}y")
    assert (names.time_of(name), series.time_of(f"x{name}y")) == (begins * 1_000_000, begins)
    assert [series.time_of(other) for other in (name, f"x{name}", f"{name}y", "xy", "x")] == [None] * 5


def test_only_names_that_the_series_would_give_are_its_tags() -> None:
    daily = Series(AutoTagNames.from_options({}))
    assert daily.time_of("2026-03-05") is not None
    assert [daily.time_of(name) for name in ("2026-03-05 x", "2026-02-30", "20260305")] == [None] * 3


@pytest.mark.parametrize(
    ("zone", "utc", "wall"),
    [
        ("UTC", "2026-03-29 00:30", "2026-03-29 00:30"),
        ("Europe/Berlin", "2026-03-29 00:59", "2026-03-29 01:59"),
        ("Europe/Berlin", "2026-03-29 01:00", "2026-03-29 03:00"),
        ("GMT-08:00", "2026-03-29 01:00", "2026-03-28 17:00"),
        ("UTC+5:30", "2026-03-29 01:00", "2026-03-29 06:30"),
        ("+8", "2026-03-29 01:00", "2026-03-29 09:00"),
    ],
)
def test_wall_clocks(zone: str, utc: str, wall: str) -> None:
    clock = WallClock.of(zone)
    assert clock.local_ms(millis(utc)) == millis(wall)
    assert clock.utc_ms(millis(wall)) == millis(utc)


def test_an_hour_that_a_wall_shows_twice_or_never() -> None:
    berlin = WallClock.of("Europe/Berlin")
    assert berlin.utc_ms(millis("2026-10-25 02:30")) == millis("2026-10-25 00:30")
    assert berlin.utc_ms(millis("2026-03-29 02:00")) == millis("2026-03-29 01:00")
    assert berlin.local_ms(2**63 - 1) is None


@pytest.mark.parametrize("zone", ["Mars/Base", "", "GMT+25:00", "../etc/passwd"])
def test_zones_that_there_are_not(zone: str) -> None:
    with pytest.raises(InvalidInputError, match="time zone"):
        WallClock.of(zone)


@pytest.mark.parametrize(
    "options",
    [
        {"tag.creation-period": "weekly"},
        {"tag.creation-period-duration": "0 s"},
        {"tag.creation-period": "hourly", "tag.creation-delay": "1 h"},
        {"tag.num-retained-max": "0"},
        {"tag.automatic-completion": "maybe"},
    ],
    ids=str,
)
def test_options_that_cannot_be(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match="option tag"):
        assert (auto_rule(options), num_retained(options)) is None


def test_a_name_needs_its_period() -> None:
    for pattern in ("eod", "{period}{period}"):
        with pytest.raises(InvalidInputError, match="once"):
            Series(AutoTagNames.from_options({}), pattern)
