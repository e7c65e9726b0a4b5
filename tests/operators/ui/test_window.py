"""The page of the window: its plan, its budget and what a run at work has used."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.jobs.cost.prices import PriceList
from lakecore.jobs.survey import Survey
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.survey.activity import Lateness
from lakecore.maintain.survey.record import Figures
from lakecore_airflow.ui import pages
from lakecore_airflow.ui.airflow_data import WindowDag
from lakecore_airflow.ui.lake_data import Answer, LakeData
from lakecore_airflow.ui.window_use import RunUse, days_of_run, run_use
from lakecore_airflow.ui.window_view import WindowView, next_window, window_view
from lakecore_airflow.ui.words import size_text
from tests.support.ui_pages import WINDOW, attempt, records, shown


def test_the_window_shows_the_plan_and_what_was_left(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = [
        replace(one, expected_seconds=4000.0, late=Lateness(number, 1), score=50 + number)
        for number, one in enumerate(records(4))
    ]
    text = shown(client, monkeypatch, Survey(started_ms=1, tables=tuple(due)))("/window")
    assert text.index("left 3 nights in a row") < text.index("left 1 nights in a row")
    assert "after the end" in text
    assert "d.t00000" in text


def window_of(tables: int, used: RunUse | None = None, **params: Any) -> WindowView:
    """The plan of a window of a day, with tables that take an hour and read 4 KiB each."""
    due = tuple(
        replace(
            one,
            table=f"{'shop' if number % 2 else 'crm'}.t{number:05d}",
            score=number % 100,
            expected_seconds=3600.0,
            figures=Figures(files=8, bytes=8192, buckets=2, due_buckets=1),
        )
        for number, one in enumerate(records(tables))
    )
    fine = replace(due[0], table="crm.fine", score=100, expected_seconds=None)
    prices = PriceList(core_hour=0.5, currency="EUR")
    survey = Survey(started_ms=1, tables=(*due, fine))
    return window_view(survey, (0, 24 * 3_600_000), params, prices, used or RunUse())


@pytest.mark.parametrize(
    ("params", "paid"),
    [
        ({}, 24),
        ({"budget_bytes": "10 kb"}, 3),
        ({"budget_core_seconds": "7200"}, 2),
        ({"budget_money": "1.0"}, 2),
        ({"budget_bytes": "10 kb", "budget_money": "0.4"}, 1),
        ({"budget_money": 0}, 0),
    ],
    ids=str,
)
def test_the_window_has_the_budget_of_its_run(params: dict[str, Any], paid: int) -> None:
    view = window_of(30, **params)
    assert (view.fit, view.fit + view.over + view.unpaid) == (paid, 30), "what is not due is not shown"
    assert (view.use.bytes, view.use.core_seconds) == (paid * 4096, paid * 3600.0)
    assert view.use.money == paid * 0.5
    assert [bool(why) for why in view.reasons] == [number >= paid for number in range(30)]


def test_the_window_has_the_tables_that_its_run_would_choose() -> None:
    view = window_of(10, database="shop", exclude="*00003")
    assert [turn.table for turn in view.turns] == ["shop.t00001", "shop.t00005", "shop.t00007", "shop.t00009"]


def test_a_budget_that_cannot_be_read_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is no limit" in window_of(2, budget_bytes="much").use.problem
    dag = replace(WINDOW, params={"budget_money": "3"})
    monkeypatch.setattr(pages, "window_dag", lambda session, dag_id: dag)
    text = shown(client, monkeypatch, Survey(started_ms=1, tables=tuple(records(1))))("/window")
    assert "a budget of money needs the field price_core_hour" in text
    assert "Bytes to rewrite" in text


def test_the_next_window_is_tonight_or_open_now() -> None:
    hour = 3_600_000
    dag = WindowDag("nightly", exists=True, next_ms=26 * hour, until="05:00")
    assert next_window(dag, 20 * hour) == (26 * hour, 29 * hour)
    assert next_window(replace(dag, running_ms=26 * hour), 27 * hour) == (27 * hour, 29 * hour)
    assert next_window(replace(dag, next_ms=None, until=""), 5 * hour) == (5 * hour, None)
    assert next_window(replace(dag, until="late"), 5 * hour) == (26 * hour, None)


def test_what_a_run_at_work_has_used_counts_with_the_cores_of_earlier_ones() -> None:
    attempts = [
        attempt("crm.t00002", "done", "yesterday", cost={"seconds": 10, "core_seconds": 40}),
        attempt("crm.t00000", "done", figures={"bytes_in": 4000}, cost={"seconds": 30, "core_seconds": 60}),
        attempt("shop.t00001", "killed"),
        attempt("shop.t00001", "running"),
        attempt(
            "shop.t00003", "failed", figures={"bytes_in": "many"}, cost={"seconds": 5, "core_seconds": None}
        ),
        replace(attempt("shop.t00005", "done", figures={"bytes_in": 9}), job="expire-snapshots"),
    ]
    used = run_use(attempts, "lakecore_nightly", "tonight", 160_000)
    assert (used.bytes, used.ended, used.running) == (4000, {"crm.t00000"}, {"shop.t00001": 100.0})
    assert (used.cores, used.cores_of("crm.t00002"), used.cores_of("crm.t00000")) == (2.5, 4.0, 2.0)
    assert used.core_seconds == 60 + 100 * 2.5
    other = run_use(attempts, "lakecore_nightly", None, 160_000)
    assert (other.bytes, other.core_seconds, other.ended, other.cores) == (0, 0.0, frozenset(), 2.5)
    view = window_of(6, used, budget_bytes="10 kb")
    assert "crm.t00000" not in [turn.table for turn in view.turns], "the run has ended it"
    words = {turn.table: why for turn, why in zip(view.turns, view.reasons, strict=True)}
    assert words["shop.t00001"] == "at work"
    assert list(words.values()).count("over the budget") == 3, "4,000 bytes, the table at work, and one more"
    assert view.use.core_seconds == (3600 - 100) * 2.5 + 3600 * 4
    assert (view.fit, view.use.bytes, view.use.used_money) == (2, 2 * 4096, 0.5 * 310 / 3600)
    assert [days_of_run(ms, 9 * 86_400_000) for ms in (None, 9 * 86_400_000, 6 * 86_400_000, 0)] == [
        2,
        2,
        5,
        7,
    ]


def test_the_window_of_a_run_at_work_says_what_it_has_used(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = replace(
        WINDOW, run_id="tonight", running_ms=SystemClock().now_ms() - 60_000, params={"budget_bytes": "10 kb"}
    )
    monkeypatch.setattr(pages, "window_dag", lambda session, dag_id: running)
    now_ms = SystemClock().now_ms()
    done = attempt("d.t00001", "done", figures={"bytes_in": 2048}, cost={"seconds": 60, "core_seconds": 120})
    store = AttemptStore(lake.file_io, lake.warehouse)
    for one in (done, attempt("d.t00000", "running")):
        store.save(replace(one, started_ms=now_ms - 60_000))
    due = tuple(replace(one, expected_seconds=600.0) for one in records(3))
    text = shown(client, monkeypatch, Survey(started_ms=1, tables=due))("/window")
    assert f"+ {size_text(2048)} used" in text
    assert re.search(r"\+ 4(\.\d+)? min used", text)
    assert "that of 2.0 cores" in text
    assert "Tables that the run has ended: 1; at work: 1," in text
    assert "d.t00001" not in text
    monkeypatch.setattr(LakeData, "attempts", lambda *_: Answer(None, problem="storage does not answer"))
    assert "what the run has used is not known: storage does not answer" in client.get("/window").text
