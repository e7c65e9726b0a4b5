"""The order of tables in a window, and when each one's turn is."""

from __future__ import annotations

from typing import Any

from lakecore.jobs.survey import State, Survey, TableRecord
from lakecore.jobs.window.order import by_need, plan_window
from lakecore.maintain.survey.activity import Lateness

HOUR = 3_600_000
END = 3 * HOUR


def record(table: str, score: int = 50, **changes: Any) -> TableRecord:
    values = {"state": State.DUE, "surveyed_ms": 1, "expected_seconds": 60.0} | changes
    return TableRecord(table=table, score=score, **values)


def survey(*records: TableRecord) -> Survey:
    return Survey(started_ms=1, tables=records)


def test_tables_that_were_left_come_first_then_the_worst() -> None:
    found = survey(
        record("d.good", 90),
        record("d.bad", 10),
        record("d.left", 80, late=Lateness(2, 1)),
        record("d.mid", 40),
    )
    names = ["d.good", "d.bad", "d.left", "d.new"]
    assert by_need(names, found) == ["d.left", "d.bad", "d.new", "d.good"]
    assert by_need(["d.b", "d.a"], None) == ["d.a", "d.b"]


def test_turns_follow_one_another_until_the_window_ends() -> None:
    found = survey(
        record("d.a", 1, expected_seconds=2 * 3600.0), record("d.b", 2, expected_seconds=2 * 3600.0)
    )
    first, second = plan_window(found, 0, END)
    assert (first.start_ms, first.end_ms, first.fits) == (0, 2 * HOUR, True)
    assert (second.start_ms, second.end_ms, second.fits) == (2 * HOUR, 4 * HOUR, False)
    assert all(turn.fits for turn in plan_window(found, 0, None))


def test_the_plan_has_only_tables_that_are_due() -> None:
    found = survey(
        record("d.fine", expected_seconds=None), record("d.due"), record("d.gone", state=State.VANISHED)
    )
    assert [turn.table for turn in plan_window(found, 0, END)] == ["d.due"]
    assert [turn.table for turn in plan_window(found, 0, END, ["d.fine"])] == ["d.fine"]


def test_a_table_with_a_busy_writer_waits_for_a_quieter_hour_of_the_window() -> None:
    busy = record("d.busy", 1, expected_seconds=600.0, rhythm=(60.0, 1.0, *[0.0] * 22))
    found = survey(busy, record("d.calm", 90))
    assert [(turn.table, turn.busy) for turn in plan_window(found, 0, END)] == [
        ("d.calm", False),
        ("d.busy", True),
    ]
    for rhythm in ((60.0,) * 24, (1.0, *[0.0] * 23)):
        same = survey(record("d.busy", 1, expected_seconds=600.0, rhythm=rhythm), record("d.calm", 90))
        assert [turn.table for turn in plan_window(same, 0, END)] == ["d.busy", "d.calm"]
    assert plan_window(found, 0, None)[0].table == "d.busy", "a window without an end has no later hour"
