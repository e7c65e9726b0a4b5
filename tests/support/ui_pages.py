"""What tests of the pages of Airflow show: tables, tasks and attempts, and a window."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from lakecore.jobs.survey import State, Survey, TableRecord
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore_airflow.ui import lake_data
from lakecore_airflow.ui.airflow_data import WindowDag


class Starts:
    """It stands in for Airflow: what runs were started, and by whom."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []

    def start(self, session: Any, user: Any, conf: Mapping[str, Any]) -> str:
        self.started.append(dict(conf))
        return "manual__1"


HOSTILE = "d.<img src=x onerror=alert(1)>\"'&"
TASKS: list[dict[str, Any]] = []
WINDOW = WindowDag(
    "lakecore_nightly", exists=True, next_ms=100_000 * 86_400_000 + 2 * 3_600_000, until="05:00"
)


def records(count: int, **changes: Any) -> tuple[TableRecord, ...]:
    return tuple(
        TableRecord(table=f"d.t{number:05d}", state=State.OK, surveyed_ms=1, score=number % 101, **changes)
        for number in range(count)
    )


def shown(client: TestClient, monkeypatch: pytest.MonkeyPatch, survey: Survey) -> Callable[[str], str]:
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: survey)
    return lambda path: client.get(path).text


def task(state: str, report: Mapping[str, Any] | None, name: str = "compact") -> dict[str, Any]:
    empty = {"start": None, "end": None, "try_number": 1, "map_index": 0, "name": "d.t"}
    return {"task_id": name, "state": state, "report": report, **empty}


def attempt(table: str, state: str, run: str = "tonight", **more: Any) -> Attempt:
    origin = {"dag": "lakecore_nightly", "run": run, "task": "compact"}
    times = {"started_ms": 60_000, "finished_ms": None if state == "running" else 90_000}
    return Attempt(
        id=f"{table}-{state}".replace(".", "-"),
        table=table,
        job="compact",
        state=AttemptState(state),
        origin=origin,
        **times,
        **more,
    )


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again for some seconds."""
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never was so")
