"""How far a task is: in its log, and in its state."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lakecore.jobs.compact import Progress
from lakecore_airflow.tasks.progress import PROGRESS_KEY, ProgressReporter

LOG = logging.getLogger("task")


class State:
    """The state of a task as Airflow stores it, or an Airflow that cannot."""

    def __init__(self, error: Exception | None = None) -> None:
        self.values: list[dict[str, Any]] = []
        self.error = error

    def set(self, key: str, value: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        assert key == PROGRESS_KEY
        self.values.append(value)


def test_progress_has_rate_share_and_the_time_that_is_left(caplog: pytest.LogCaptureFixture) -> None:
    state, clock = State(), iter([0.0, 10.0, 12.0, 40.0])
    report = ProgressReporter("d.t", {"task_state_store": state}, LOG, lambda: next(clock))
    with caplog.at_level(logging.INFO):
        for picks, rows, share in ((0, 375, 0.25), (2, 400, 0.3), (4, 1000, 1.0)):
            report(Progress(picks, 4, rows, 1000, rows // 10, share))
    assert "375 of 1,000 rows are read and 37 proven (25.0 %), 38 rows/s, 30 s left" in caplog.messages[0]
    assert len(caplog.messages) == 3
    assert [one["percent"] for one in state.values] == [25.0, 100.0], (
        "the second came too soon after the first"
    )
    assert state.values[0]["seconds_left"] == 30.0


def test_nothing_is_at_its_end_before_all_is_done(caplog: pytest.LogCaptureFixture) -> None:
    clock = iter([0.0, 10.0])
    report = ProgressReporter("d.t", {}, LOG, lambda: next(clock))
    with caplog.at_level(logging.INFO):
        report(Progress(0, 1, 1000, 1000, 999, 0.9997))
    assert "(99.9 %)" in caplog.messages[0]
    assert caplog.messages[0].endswith(" 0 s left")


@pytest.mark.parametrize(
    "context", [{}, {"task_state_store": State(OSError("database is locked"))}], ids=["none", "fails"]
)
def test_work_goes_on_without_a_state(context: dict[str, Any]) -> None:
    ProgressReporter("d.t", context, LOG)(Progress(0, 2, 0, 0))
