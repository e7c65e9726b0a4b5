"""The pages without an Airflow: what they show, hostile names, storage that does not answer. Rights are tested in a
real Airflow (tests/dags/test_real_pages.py)."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import NotFoundError
from lakecore.jobs import compact
from lakecore.jobs.cost.prices import PriceList
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.survey import DayPoint, Job, State, Survey, TableRecord, run
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.survey.activity import Lateness
from lakecore.maintain.survey.record import Figures
from lakecore_airflow.reports.outcome import outcome_of
from lakecore_airflow.rights import Rights
from lakecore_airflow.ui import (
    actions,
    airflow_actions,
    lake_data,
    page,
    pages,
    policy_view,
    run_page,
    what_if_page,
)
from lakecore_airflow.ui import app as routes
from lakecore_airflow.ui.actions import Actions
from lakecore_airflow.ui.airflow_data import WindowDag
from lakecore_airflow.ui.charts import history_chart, level_picture, score_line
from lakecore_airflow.ui.lake_data import Answer, LakeData
from lakecore_airflow.ui.policy_view import TablePolicy, policy_of
from lakecore_airflow.ui.prometheus import survey_metrics
from lakecore_airflow.ui.run_view import run_matrix, run_sums, run_view
from lakecore_airflow.ui.tokens import VALID_MS, form_token, from_this_site, is_valid
from lakecore_airflow.ui.views import PAGE, LakeQuery, lake_view
from lakecore_airflow.ui.window_use import RunUse, days_of_run, run_use
from lakecore_airflow.ui.window_view import WindowView, next_window, window_view
from lakecore_airflow.ui.words import age_text, size_text
from tests.support.golden import golden_table

HOSTILE = "d.<img src=x onerror=alert(1)>\"'&"
TASKS: list[dict[str, Any]] = []
WINDOW = WindowDag(
    "lakecore_nightly", exists=True, next_ms=100_000 * 86_400_000 + 2 * 3_600_000, until="05:00"
)


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    for name in ("a_pk_runs", "a_append_unaware", "a_pk_postpone", "a_life_empty", "a_pk_dedup_b3_part"):
        golden_table(f"g1.{name}").copy_to(tmp_path / "lake")
    return load_catalog(str(tmp_path / "lake"))


@pytest.fixture
def client(lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    def nobody() -> None:
        return None

    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "lakecore", "host": lake.warehouse})
    )
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "http", "host": "example.org"}))
    monkeypatch.setattr(routes, "requires_access_view", lambda *_: nobody)
    monkeypatch.setattr(routes, "requires_access_dag", lambda *_: nobody)
    monkeypatch.setattr(page, "lake_connections", lambda session: [])
    monkeypatch.setattr(
        run_page, "reports_of_run", lambda session, *ids: [] if "/" in ids[1] else list(TASKS)
    )
    monkeypatch.setattr(Actions, "for_user", lambda *_: {"token": "", "may": (), "missing": ""})
    monkeypatch.setattr(pages, "window_dag", lambda session, dag_id: WINDOW)
    monkeypatch.setattr(pages, "policy_of", lambda session, dag_id, table: TablePolicy(problem="no policy"))
    app = routes.new_app()
    app.dependency_overrides[_get_session] = nobody
    app.dependency_overrides[get_user] = nobody
    with TestClient(app) as found:
        yield found


def test_a_lake_that_nobody_has_surveyed_says_what_to_do(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "lakecore survey" in answer.text


def test_the_page_of_the_lake_shows_every_table_and_its_reason(
    client: TestClient, lake: FilesystemCatalog
) -> None:
    run(Job(history=True), lake)
    text = client.get("/").text
    for name in ("a_pk_runs", "a_append_unaware", "a_pk_postpone", "a_life_empty"):
        assert f"table?conn=lake_default&amp;name=g1.{name}" in text
    assert "a compaction is needed to read 2 files of postponed buckets" in text
    assert "a_pk_runs" not in client.get("/?q=append").text
    assert "a_pk_postpone" not in client.get("/?state=ok").text


def test_the_page_of_a_table_has_its_levels_snapshots_and_what_blocks_expiry(
    client: TestClient, lake: FilesystemCatalog
) -> None:
    run(Job(), lake)
    answer = client.get("/table", params={"name": "g1.a_pk_runs"})
    assert answer.status_code == 200
    assert "<svg" in answer.text
    assert "level 4" in answer.text
    assert "Levels over the last snapshots" in answer.text
    assert re.search(r"snapshot \d+ \(COMPACT, [^)]*\), level \d: [1-9]\d* files", answer.text)
    assert "snapshot.num-retained.min=10" in answer.text
    assert re.search(r"The newest first, read \d{4}-\d\d-\d\d", answer.text), (
        "attempts may be older than the rest"
    )
    assert client.get("/table", params={"name": "g1.a_life_empty"}).status_code == 200
    assert client.get("/table", params={"name": "g1.nothing"}).status_code == 404
    assert client.get("/table", params={"name": "../../etc"}).status_code == 404


def test_a_page_replays_the_history_of_a_table(client: TestClient, lake: FilesystemCatalog) -> None:
    run(Job(), lake)
    assert "what-if?conn=lake_default&amp;name=g1.a_pk_runs" in client.get("/table?name=g1.a_pk_runs").text
    asked = {"name": "g1.a_pk_runs", "most": "2", "least": "1", "trigger": "2", "every": "1 d"}
    answer = client.get("/what-if", params=asked)
    assert answer.status_code == 200
    assert "the options of the question" in answer.text
    assert 'value="1 d"' in answer.text
    assert "Average runs of a bucket" in answer.text
    assert "<script" not in answer.text
    wrong = client.get("/what-if", params={**asked, "most": "<b>"})
    assert "&lt;b&gt;" in wrong.text
    assert "<b>" not in wrong.text
    assert "problem" in wrong.text
    days = client.get("/what-if", params={"name": "g1.a_pk_dedup_b3_part", "partitions": "30 d"}).text
    assert "Expiry of partitions" in days
    assert "have no time in their values" in days
    assert "is not partitioned" in client.get("/what-if?name=g1.a_pk_runs&partitions=30+d").text
    assert client.get("/what-if", params={"name": "g1.nothing"}).status_code == 404
    assert client.get("/what-if", params={"name": "g1.a_append_unaware", "trigger": "2"}).status_code == 200


def test_a_line_says_why_buttons_are_missing(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Actions, "for_user", lambda *_: {"token": "", "may": (), "missing": "no <right>"})
    assert '<p class="dim">no &lt;right&gt;</p>' in client.get("/table?name=g1.a_pk_runs").text


def test_a_large_table_is_left_to_the_command(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Job(), lake)
    monkeypatch.setattr(what_if_page, "_MOST_SNAPSHOTS", 0)
    text = client.get("/what-if", params={"name": "g1.a_pk_runs"}).text
    assert "run lakecore what-if g1.a_pk_runs" in text


def test_a_damaged_table_has_a_page_that_says_so(client: TestClient, lake: FilesystemCatalog) -> None:
    table = lake.load_table("g1.a_pk_runs")
    snapshot = table._stores.snapshots.latest()
    assert snapshot is not None
    Path(table._stores.paths.manifest(snapshot.base_manifest_list)).write_bytes(b"noise")
    run(Job(), lake)
    text = client.get("/table", params={"name": "g1.a_pk_runs"}).text
    assert "CorruptDataError" in text
    assert "COMPACT" in text, "the snapshots can be read all the same"


def test_only_connections_of_lakes_have_pages(client: TestClient) -> None:
    for name in ("other", "missing", "../x", "<b>"):
        answer = client.get("/", params={"conn": name})
        assert answer.status_code == 404
        assert "<b>" not in answer.text


def test_a_page_runs_no_script_and_loads_nothing(client: TestClient, lake: FilesystemCatalog) -> None:
    run(Job(), lake)
    for path in ("/", "/table?name=g1.a_pk_runs", "/runs/dag/run", "/history", "/window", "/quarantine"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'self'" in policy
        assert "src=" not in answer.text
        assert 'href="http' not in answer.text
        assert answer.headers["cache-control"] == "no-store"


def test_whatever_is_on_a_page_is_in_a_landmark_and_links_in_texts_have_a_line(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that screen readers can jump to it, and people who see no colours find it (axe-core: region, link-in-text-block)."""
    monkeypatch.setattr(page, "lake_connections", lambda session: ["lake_default", "other"])
    run(Job(), lake)
    for path in ("/", "/table?name=g1.a_pk_runs", "/history", "/window", "/quarantine"):
        text = client.get(path).text
        assert text.count('<select name="conn">') == 1
        _, _, body = re.sub(r"(?s)<nav.*?</nav>|<main.*</main>", "", text).partition("<body>")
        assert re.sub(r"\s", "", body) == '<aclass="skip"href="#main">Skiptothecontent</a></body></html>', (
            path
        )
        assert re.search(r"[ ,]p a, li a, caption a \{ text-decoration: underline; \}", text)


def records(count: int, **changes: Any) -> tuple[TableRecord, ...]:
    return tuple(
        TableRecord(table=f"d.t{number:05d}", state=State.OK, surveyed_ms=1, score=number % 101, **changes)
        for number in range(count)
    )


def shown(client: TestClient, monkeypatch: pytest.MonkeyPatch, survey: Survey) -> Callable[[str], str]:
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: survey)
    return lambda path: client.get(path).text


def test_hostile_names_and_texts_are_escaped(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = replace(records(1)[0], table=HOSTILE, error=HOSTILE, holds=(HOSTILE,), state=State.HELD)
    text = shown(client, monkeypatch, Survey(started_ms=1, tables=(hostile,)))("/")
    assert "&lt;img" in text
    assert "<img" not in text
    report = {"job": "compact", "table": HOSTILE, "notes": [HOSTILE], "proof": HOSTILE}
    TASKS[:] = [task("failed", report)]
    answer = client.get("/runs/dag/" + "%3Cimg%3E").text
    assert "&lt;img" in answer
    assert "<img" not in answer
    days = [DayPoint(day * 86_400_000, day, day, 1, 1) for day in range(3)]
    assert "<script" not in score_line(days) + level_picture({(0, HOSTILE): (1, 1)})


def refused(app: FastAPI) -> dict[tuple[str, str], int]:
    """The status of each route that refuses a request, by method and path."""
    found = {}
    with TestClient(app) as visitor:
        for route in app.routes:
            assert isinstance(route, APIRoute), "each route has dependencies"
            for method in route.methods:
                path = re.sub(r"{[^}]*}", "x", route.path)
                status = visitor.request(method, path, follow_redirects=False).status_code
                if status in (401, 403):
                    found[method, route.path] = status
    return found


def test_each_route_asks_who_it_is_and_what_that_user_may(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger sees no route but the metrics, which have a token; nor does a user without the right to see plugins.
    Who may not see or start runs of a DAG has neither its report nor an action.
    """
    right: dict[str, Any] = {}

    def unless(name: str) -> Callable[..., Callable[[], None]]:
        def guard(*asked: Any) -> Callable[[], None]:
            def check() -> None:
                if right["without"] == name:
                    raise HTTPException(403, str(asked))

            return check

        return guard

    def user() -> None:
        if right["without"] == "a login":
            raise HTTPException(401)

    monkeypatch.setattr(routes, "requires_access_view", unless("a view"))
    monkeypatch.setattr(routes, "requires_access_dag", unless("a DAG"))
    app = routes.new_app()
    app.dependency_overrides = {_get_session: lambda: None, get_user: user}
    every = {(method, route.path) for route in app.routes for method in route.methods}  # type: ignore[attr-defined]
    right["without"] = "a login"
    assert refused(app) == dict.fromkeys(every - {("GET", "/metrics")}, 401) | {("GET", "/metrics"): 401}
    right["without"] = "a view"
    assert {name for name, status in refused(app).items() if status == 403} == every - {("GET", "/metrics")}
    right["without"] = "a DAG"
    assert {name for name, status in refused(app).items() if status == 403} == {
        ("GET", "/runs/{dag_id}/{run_id:path}"),
        ("GET", "/actions/{run_id}"),
        ("POST", "/actions"),
    }


def test_ten_thousand_tables_are_listed_by_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    page = shown(client, monkeypatch, Survey(started_ms=1, tables=records(10_000)))

    def unexpected(self: Any) -> Any:
        raise AssertionError("a list of tables needs nothing but the survey")

    monkeypatch.setattr(lake_data.LakeHook, "catalog", unexpected)
    monkeypatch.setattr(lake_data.LakeData, "details", unexpected)
    first = page("/")
    assert first.count("<tr>") == PAGE + 1
    assert len(first) < 200_000
    assert "page 1 of 100" in first
    assert "page 100 of 100" in page("/?page=999999999999999999999")


def test_storage_that_does_not_answer_leaves_the_last_survey_on_the_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake_data.PATIENCE_S <= 3
    monkeypatch.setattr(lake_data, "PATIENCE_S", 0.2)
    monkeypatch.setattr(lake_data, "_FRESH_MS", 0)
    survey = Survey(started_ms=1, tables=records(3))

    answered = threading.Event()
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: survey)
    assert "d.t00001" in client.get("/").text
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: answered.wait(60))
    assert "did not answer" not in client.get("/").text, "storage is asked in the background"
    time.sleep(0.3)
    text = client.get("/").text
    assert not answered.is_set()
    answered.set()
    assert "did not answer" in text
    assert "d.t00001" in text


def test_no_page_waits_for_a_survey_that_is_read_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_data, "_FRESH_MS", 0)
    surveys = [Survey(started_ms=1, tables=records(number)) for number in (1, 2)]
    may_answer, has_answered = threading.Event(), threading.Event()
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: surveys[0])
    assert "d.t00001" not in client.get("/").text

    def slow(self: lake_data.LakeData, conn_id: str) -> Survey:
        may_answer.wait(60)
        has_answered.set()
        return surveys[1]

    monkeypatch.setattr(lake_data.LakeData, "_read_survey", slow)
    assert "d.t00001" not in client.get("/").text, "the page has what is known, and waits for nothing"
    may_answer.set()
    assert has_answered.wait(10)
    wait_until(lambda: "d.t00001" in client.get("/").text)

    def broken(self: lake_data.LakeData, conn_id: str) -> Survey:
        raise OSError("the bucket is gone")

    monkeypatch.setattr(lake_data.LakeData, "_read_survey", broken)
    wait_until(lambda: "the bucket is gone" in client.get("/").text)
    monkeypatch.setattr(lake_data, "_SHOWN_MS", 0)
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: surveys[0])
    assert "d.t00001" not in client.get("/").text, "an old answer is not shown without asking"


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again for some seconds."""
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never was so")


def test_secrets_of_an_address_stay_out_of_a_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: lake_data.LakeData, conn_id: str) -> Survey:
        raise OSError("cannot reach s3://user:geheim@store/lake")

    monkeypatch.setattr(lake_data.LakeData, "_read_survey", read)
    text = client.get("/").text
    assert "cannot reach" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    ("order", "first"),
    [("score", "d.t00000"), ("table", "d.t00000"), ("files", "d.t00003"), ("nonsense", "d.t00000")],
)
def test_columns_order_the_tables(order: str, first: str) -> None:
    tables = [replace(one, figures=replace(one.figures, files=n)) for n, one in enumerate(records(4))]
    survey = Survey(started_ms=1, tables=tuple(tables))
    view = lake_view(survey, LakeQuery.of({"order": order}), PriceList())
    assert view.rows[0].table == first
    assert (
        lake_view(survey, LakeQuery.of({"order": order, "reverse": "1"}), PriceList()).rows[-1].table == first
    )


def task(state: str, report: Mapping[str, Any] | None, name: str = "compact") -> dict[str, Any]:
    empty = {"start": None, "end": None, "try_number": 1, "map_index": 0, "name": "d.t"}
    return {"task_id": name, "state": state, "report": report, **empty}


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"nothing_to_do": True}, "nothing to do"),
        ({"before": {"files": 28}, "after": {"files": 2}}, "28 → 2 files"),
        ({"before": {"files": 28}, "after": {"files": 2}, "dry_run": True}, "would be: 28 → about 2 files"),
        ({"files": 7}, "7 files removed"),
        ({"names_count": 1}, "1 name"),
        ({"error": "it is damaged"}, "it is damaged"),
        ({"done": [{"job": "compact", "nothing_to_do": True}, {"job": "expire", "files": 2}]},
         "compact: nothing to do, expire: 2 files removed"),
        ({}, "done"),
    ],
)  # fmt: skip
def test_the_outcome_of_a_task_in_a_few_words(report: dict[str, Any], text: str) -> None:
    assert outcome_of(report) == text


def test_failed_tasks_of_a_run_come_first(client: TestClient) -> None:
    TASKS[:] = [task("success", {"job": "compact", "nothing_to_do": True}), task("failed", None, "z")]
    assert [line["state"] for line in run_view(TASKS)] == ["failed", "success"]
    assert "nothing to do" in client.get("/runs/dag/scheduled__2026-11-23T00:00:00+00:00").text
    assert "nothing to do" in client.get("/runs/dag/run/compact?map_index=0").text


def test_a_chart_needs_two_days() -> None:
    days = [DayPoint(day * 86_400_000, 100, day, 1, 1) for day in range(2)]
    assert history_chart(days[:1]) == score_line(days[:1]) == ""
    assert "<svg" in history_chart(days)
    assert not [one for one in sys.meta_path if type(one).__module__ == "pygal"], "no import hook is left"
    assert "polyline" in score_line(days)
    assert age_text(1, 3 * 3_600_000) == "3 h ago"
    assert age_text(None, 5) == ""


def test_every_attempt_is_on_the_page_history(client: TestClient, lake: FilesystemCatalog) -> None:
    compact.run(compact.Job(table="g1.a_pk_runs", strategy=compact.Strategy.FULL), lake)
    with pytest.raises(NotFoundError):
        run_chore(CreateTag(table="g1.a_pk_runs", tag="t", snapshot=999), lake)
    text = client.get("/history").text
    assert "8 → " in text
    assert "snapshot 999" in text
    assert "median took" in text
    only = client.get("/history", params={"state": "refused", "job": "create-tag", "days": "7"}).text
    assert "8 → " not in only
    assert "No attempt matches" in client.get("/history", params={"table": "nothing"}).text
    lines = client.get("/api/v1/history", params={"since": "2020-01-01T00:00:00Z"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    attempts = [json.loads(line) for line in lines.text.splitlines()]
    assert [one["job"] for one in attempts] == ["compact", "create-tag"]
    assert "money" not in attempts[0]["cost"], "there is no price list"
    assert client.get("/api/v1/history", params={"since": "yesterday-ish"}).status_code == 400


def test_prices_of_the_connection_make_money_of_core_seconds(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"price_core_hour": "3600", "price_gb_month": 0.02, "currency": "EUR"}
    connection = {"conn_type": "lakecore", "host": lake.warehouse, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    compact.run(compact.Job(table="g1.a_pk_runs", strategy=compact.Strategy.FULL), lake)
    (one,) = [json.loads(line) for line in client.get("/api/v1/history").text.splitlines()]
    assert one["cost"]["money"] == pytest.approx(one["cost"]["core_seconds"], rel=0.01)
    run(Job(), lake)
    run(Job(), lake)
    assert "EUR" in client.get("/history").text
    assert "Storage a month" in client.get("/").text


def test_the_lake_as_csv_and_json(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    formula = replace(records(1)[0], table="=cmd|' /C calc'!A0", score=50)
    survey = Survey(started_ms=1, tables=(*records(3), formula))
    text = shown(client, monkeypatch, survey)("/lake.csv")
    assert text.splitlines()[0].startswith("table,state,score")
    assert "'=cmd" in text
    assert len(text.splitlines()) == 5
    assert len(json.loads(client.get("/lake.json?q=t00001").text)) == 1


def test_the_quarantine_shows_what_can_be_taken_back(client: TestClient, lake: FilesystemCatalog) -> None:
    orphan = Path(lake.load_table("g1.a_pk_runs").path, "bucket-0", "data-orphan-0.parquet")
    orphan.write_bytes(b"x" * 2048)
    os.utime(orphan, (1e9, 1e9))
    run_chore(RemoveOrphanFiles(table="g1.a_pk_runs"), lake)
    text = client.get("/quarantine").text
    assert "remove-orphan-files" in text
    assert size_text(2048) in text
    assert "Undo" not in text, "a viewer has no buttons"


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


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ({"host": "airflow:8080", "origin": "http://airflow:8080"}, True),
        ({"host": "10.0.0.1:80", "origin": "https://airflow.example.org"}, True),
        ({"host": "airflow:8080", "origin": "https://evil.example.org"}, False),
        ({"host": "airflow:8080", "origin": "null"}, False),
        ({"host": "airflow:8080"}, False),
        ({"host": "a", "origin": "http://a", "sec-fetch-site": "cross-site"}, False),
        ({"host": "a", "origin": "http://a", "sec-fetch-site": "same-origin"}, True),
    ],
)
def test_only_pages_of_this_airflow_may_send_forms(headers: dict[str, str], good: bool) -> None:
    assert from_this_site(headers, "https://airflow.example.org/base") is good


def test_a_token_is_of_one_user_for_half_a_day() -> None:
    token = form_token("secret", "ada", 1_000_000)
    assert is_valid(token, "secret", "ada", 1_000_000 + VALID_MS)
    assert not is_valid(token, "secret", "ada", 1_000_001 + VALID_MS)
    assert not is_valid(token, "secret", "eve", 1_000_000)
    assert not is_valid(token, "other", "ada", 1_000_000)
    for forged in (
        "",
        ".",
        "x.y",
        "999999999999999999999.a",
        token + "0",
        token.replace("1000000", "1000001"),
    ):
        assert not is_valid(forged, "secret", "ada", 1_000_000)


class Starts:
    """It stands in for Airflow: what runs were started, and by whom."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []

    def start(self, session: Any, user: Any, conf: Mapping[str, Any]) -> str:
        self.started.append(dict(conf))
        return "manual__1"


@pytest.fixture
def starts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Starts:
    found = Starts()
    monkeypatch.setattr(airflow_actions, "start", found.start)
    monkeypatch.setattr(airflow_actions, "action_rights", lambda session: Rights(None))
    monkeypatch.setattr(airflow_actions, "secret_key", lambda: "secret")
    user = SimpleNamespace(get_id=lambda: "ada", get_name=lambda: "ada")
    client.app.dependency_overrides[get_user] = lambda: user
    return found


def post(client: TestClient, origin: str = "http://testserver", **fields: str) -> Any:
    token = form_token("secret", "ada", SystemClock().now_ms())
    return client.post(
        "/actions", data={"token": token, **fields}, headers={"origin": origin}, follow_redirects=False
    )


def test_an_action_starts_a_run_first_as_a_dry_run(client: TestClient, starts: Starts) -> None:
    answer = post(client, action="compact", table="d.t", strategy="full", dry_run="no")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("actions/manual__1?")
    post(client, action="compact", table="d.t", confirm="yes")
    post(client, action="hold", table="d.t", reason="it is repaired")
    common = {"table": "d.t", "lake_conn_id": "lake_default"}
    assert starts.started == [
        {"action": "compact", "dry_run": True, "strategy": "full", **common},
        {"action": "compact", "dry_run": False, **common},
        {"action": "hold", "dry_run": False, "reason": "it is repaired", **common},
    ]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "drop", "table": "d.t"}, 400),
        ({"action": "compact"}, 400),
        ({"action": "undo", "table": "d.t"}, 400),
        ({"action": "hold", "table": "d.t", "reason": " "}, 400),
        ({"action": "compact", "table": "d.t", "strategy": "odd"}, 400),
        ({"action": "compact", "table": "d.t", "conn": "other"}, 404),
        ({"action": "compact", "table": "d.t", "token": "1.x"}, 403),
        ({"action": "compact", "table": "d.t", "origin": "http://evil"}, 403),
        ({"action": "compact", "table": "x" * 20_000}, 413),
    ],
    ids=lambda value: str(value)[:60],
)
def test_forms_that_are_refused_start_nothing(
    client: TestClient, starts: Starts, fields: dict[str, str], status: int
) -> None:
    assert post(client, **fields).status_code == status
    assert starts.started == []


@pytest.mark.parametrize(
    ("request_", "report", "expected"),
    [
        ({"action": "purge", "dry_run": True}, {"job": "purge-quarantine", "files": 2, "dry_run": True}, "would be: 2 files"),
        ({"action": "maintain", "table": "d.t", "dry_run": True},
         {"table": "d.t", "done": [{"job": "expire-snapshots", "files": 3, "dry_run": True}]}, "3 files removed"),
        ({"action": "hold", "table": "d.t"}, {"job": "hold", "table": "d.t"}, "done"),
    ],
    ids=["purge", "maintain", "hold"],
)  # fmt: skip
def test_the_page_of_an_action_has_its_outcome_and_asks_before_it_changes(
    client: TestClient,
    starts: Starts,
    monkeypatch: pytest.MonkeyPatch,
    request_: dict[str, Any],
    report: dict[str, Any],
    expected: str,
) -> None:
    monkeypatch.setattr(airflow_actions, "run_conf", lambda session, run_id: ("success", request_))
    monkeypatch.setattr(airflow_actions, "is_paused", lambda session: False)
    monkeypatch.setattr(actions, "reports_of_run", lambda *_: [task("success", report, "act")])
    text = client.get("/actions/manual__1").text
    assert expected in text
    monkeypatch.setattr(Actions, "for_user", lambda *_: {"token": "t", "may": actions.ACTIONS, "missing": ""})
    text = client.get("/actions/manual__1").text
    assert ("Do it: " in text) is bool(request_.get("dry_run"))


def test_metrics_need_a_token_and_count_tables(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    page_of = shown(client, monkeypatch, Survey(started_ms=86_400_000, tables=records(5)))
    assert client.get("/metrics").status_code == 401
    monkeypatch.setenv("AIRFLOW__LAKECORE__METRICS_TOKEN", "t0ken")
    assert client.get("/metrics").status_code == 401
    assert page_of("/metrics").startswith('{"detail"')
    text = client.get("/metrics", headers={"authorization": "Bearer t0ken"}).text
    assert 'lakecore_tables{lake="lake_default",state="ok"} 5' in text
    assert "# TYPE lakecore_survey_time_seconds gauge" in text
    assert "d.t00001" not in text


def test_a_policy_names_the_rule_that_decided_and_where_it_is_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {}

    def shown(table: str) -> TablePolicy:
        return policy_of(None, "lakecore_maintenance", table)

    monkeypatch.setattr(policy_view, "param_default", lambda session, dag_id, name: settings.get(dag_id))
    rules = [
        {"tables": ["*"], "chores": {"compact": {}, "expire-snapshots": {"retain-max": 5}}},
        {"tables": ["d.a"], "chores": {"expire-snapshots": {"retain-max": 9}}},
    ]
    assert "No policy is named" in shown("d.a").problem
    monkeypatch.setenv("AIRFLOW_VAR_LAKECORE_POLICY", json.dumps(rules))
    assert shown("d.a").chores == [("compact", "", 1), ("expire-snapshots", "retain-max: 9", 2)]
    assert shown("d.b").chores[1] == ("expire-snapshots", "retain-max: 5", 1)
    assert shown("d.a").source == "the Airflow variable lakecore_policy"
    monkeypatch.setenv("AIRFLOW_VAR_LAKECORE_POLICY", "- tables: [")
    assert "cannot be shown" in shown("d.a").problem
    settings["lakecore_maintenance"] = rules[1:]
    assert shown("d.a").chores == [("expire-snapshots", "retain-max: 9", 1)], "settings before the variable"
    assert "lakecore.toml" in shown("d.a").source
    file = tmp_path / "policy.yaml"
    settings["lakecore_maintenance"] = str(file)
    assert "The workers read a file of their own" in shown("d.a").problem
    file.write_text(json.dumps(rules))
    assert (len(shown("d.a").chores), str(file) in shown("d.a").source) == (2, True)


def test_a_run_of_many_jobs_is_a_matrix_with_failures_first() -> None:
    good = task("success", {"table": "d.a", "done": [{"job": "compact", "nothing_to_do": True}]}, "maintain")
    bad = task("failed", {"table": "d.b", "done": [], "failed": {"expire-tags": "it is damaged"}}, "maintain")
    lines = run_view([good, bad])
    matrix = run_matrix(lines)
    assert matrix.jobs == ("expire-tags", "compact")
    assert matrix.rows[0] == ("d.b", "failed", {"expire-tags": "failed: it is damaged"})
    assert run_sums(lines)["Failed"] == "1"


def test_the_next_window_is_tonight_or_open_now() -> None:
    hour = 3_600_000
    dag = WindowDag("nightly", exists=True, next_ms=26 * hour, until="05:00")
    assert next_window(dag, 20 * hour) == (26 * hour, 29 * hour)
    assert next_window(replace(dag, running_ms=26 * hour), 27 * hour) == (27 * hour, 29 * hour)
    assert next_window(replace(dag, next_ms=None, until=""), 5 * hour) == (5 * hour, None)
    assert next_window(replace(dag, until="late"), 5 * hour) == (26 * hour, None)


def test_the_board_of_grafana_shows_each_metric_and_no_other() -> None:
    board = json.loads((Path(__file__).parents[2] / "docker" / "grafana" / "lakes.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"lakecore_(\w+)", query)}
    survey = Survey(
        started_ms=1, seconds=0.1, tables=(TableRecord(table="d.t", state=State.OK, surveyed_ms=1),)
    )
    exported = {name for name, _, _ in survey_metrics(survey, up=True)}
    assert named == exported
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    spots = [panel["gridPos"] for panel in board["panels"]]
    assert all(spot["x"] + spot["w"] <= 24 for spot in spots)


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
