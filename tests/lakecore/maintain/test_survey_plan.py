"""The health of tables as a text table: which figures take how many points, and when a table will be due."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.maintain.survey.plan import DAY_MS, HealthRules, due_in_days, health, state_of, with_day
from lakecore.maintain.survey.record import DAYS, DayPoint, Deduction, Figures, State, TableRecord
from tests.support import datadriven
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
NOW = 100 * DAY_MS
RULES = HealthRules(
    run_trigger=5,
    min_files=5,
    manifest_target=8 << 20,
    snapshots_max=100,
    snapshots_min=10,
    retained_ms=3_600_000,
)
KEYED = Figures(has_key=True, files=4, bytes=1000, rows=100, buckets=4, snapshots=3, oldest_ms=NOW)
APPEND = replace(KEYED, has_key=False)


def answer(case: Case) -> str:
    if case.command == "due":
        scores = [int(score) for score in case.args["scores"].split(",")]
        points = [DayPoint(number * DAY_MS, score, 1, 1, 1) for number, score in enumerate(scores)]
        return str(due_in_days(points))
    given = {name: int(value) for name, value in case.args.items()}
    if "days" in given:
        given["oldest_ms"] = NOW - given.pop("days") * DAY_MS
    figures = replace(KEYED if case.command == "keyed" else APPEND, **given)
    score, taken = health(figures, RULES, NOW)
    return "\n".join(
        [f"{score} {state_of(score).value}", *(f"-{one.points} {one.rule}: {one.text}" for one in taken)]
    )


def test_health_as_a_table(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "survey.txt", answer, rewrite)


def test_a_day_has_one_point_and_old_days_have_none() -> None:
    days: tuple[DayPoint, ...] = ()
    for hour in range(0, 24 * 20, 6):
        days = with_day(days, DayPoint(hour * 3_600_000, 100, hour, 1, 1))
    assert len(days) == DAYS
    assert [day.time_ms // DAY_MS for day in days] == list(range(6, 20))
    assert all(day.files % 24 == 18 for day in days)  # the last survey of each day


RECORD = TableRecord(
    table="d.t",
    state=State.DUE,
    surveyed_ms=5,
    score=90,
    figures=replace(KEYED, snapshot=7, snapshot_ms=3, snapshot_key="list-1", history_bytes=12),
    figures_ms=4,
    deductions=(Deduction("sorted-runs", 10, "1 bucket"),),
    due_in_days=0.0,
    holds=("since yesterday",),
    days=(DayPoint(1, 2, 3, 4, 5),),
)


def test_a_record_survives_its_json() -> None:
    assert TableRecord.from_json(RECORD.to_json()) == RECORD
    assert TableRecord.from_json({**RECORD.to_json(), "new in 9.9": 1}) == RECORD


def test_the_points_of_a_record_are_those_of_its_json_and_take_little_memory() -> None:
    points = tuple(DayPoint(day * DAY_MS + (1 << 40), day, 1 << 33, 1 << 62, day) for day in range(DAYS))
    texts = [
        json.dumps(replace(RECORD, days=points, table=f"d.t{number}").to_json()) for number in range(500)
    ]
    before = TableRecord.from_json(json.loads(texts[0]))
    days = before.days
    assert days == points
    assert points == days
    assert hash(days) == hash(points)
    assert (days[0], days[-1], days[3:5], len(days)) == (points[0], points[-1], points[3:5], DAYS)
    assert days != points[1:]
    with pytest.raises(IndexError):
        days[DAYS]
    tracemalloc.start()
    try:
        records = [TableRecord.from_json(json.loads(text)) for text in texts]
        each = tracemalloc.get_traced_memory()[0] / len(records)
    finally:
        tracemalloc.stop()
    assert each < 2200, "as objects the points alone take some 2300 bytes"
    assert repr(days) == repr(points)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table", 5),
        ("state", "fine"),
        ("score", "90"),
        ("score", -1),
        ("score", True),
        ("score", 1 << 70),
        ("figures", []),
        ("figures", {"files": 1.5}),
        ("figures", {"has_key": 1}),
        ("figures", {"snapshot_key": None}),
        ("deductions", [{"rule": "x"}]),
        ("deductions", 3),
        ("days", [[1, 2]]),
        ("days", [["a", 2, 3, 4, 5]]),
        ("holds", [None]),
        ("due_in_days", float("nan")),
        ("due_in_days", -1),
    ],
)
def test_a_forged_record_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a record of a survey"):
        TableRecord.from_json({**RECORD.to_json(), key: value})


def test_texts_of_a_record_are_printable_and_bounded() -> None:
    hostile = {**RECORD.to_json(), "table": "d.\x1b[2J", "error": "x" * 10_000}
    record = TableRecord.from_json(hostile)
    assert record.table.isprintable()
    assert len(record.error) < 600
