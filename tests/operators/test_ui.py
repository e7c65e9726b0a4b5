"""The pages without an Airflow: what they show, hostile names, storage that does not answer. Rights are tested in a
real Airflow (tests/dags/test_real_pages.py)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.common.db.common import _get_session
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.jobs.survey import DayPoint, Job, State, Survey, TableRecord, run
from lakecore_airflow.ui import app as pages
from lakecore_airflow.ui import lake_data
from lakecore_airflow.ui.charts import history_chart, level_picture, score_line
from lakecore_airflow.ui.views import PAGE, LakeQuery, age_text, lake_view, outcome_of, run_view
from tests.support.golden import golden_table

HOSTILE = "d.<img src=x onerror=alert(1)>\"'&"
TASKS: list[dict[str, Any]] = []


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    for name in ("a_pk_runs", "a_append_unaware", "a_pk_postpone", "a_life_empty"):
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
    monkeypatch.setattr(pages, "get_user", nobody)
    monkeypatch.setattr(pages, "requires_access_view", lambda *_: nobody)
    monkeypatch.setattr(pages, "requires_access_dag", lambda *_: nobody)
    monkeypatch.setattr(pages, "lake_connections", lambda session: [])
    monkeypatch.setattr(pages, "reports_of_run", lambda session, *ids: [] if "/" in ids[1] else list(TASKS))
    app = pages.new_app()
    app.dependency_overrides[_get_session] = nobody
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
    assert "snapshot.num-retained.min=10" in answer.text
    assert client.get("/table", params={"name": "g1.a_life_empty"}).status_code == 200
    assert client.get("/table", params={"name": "g1.nothing"}).status_code == 404
    assert client.get("/table", params={"name": "../../etc"}).status_code == 404


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
    for path in ("/", "/table?name=g1.a_pk_runs", "/runs/dag/run"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'self'" in policy
        assert "src=" not in answer.text
        assert 'href="http' not in answer.text
        assert answer.headers["cache-control"] == "no-store"


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
    assert "<script" not in score_line(days) + level_picture({0: {"files": 1, "bytes": 1}})


def test_ten_thousand_tables_are_listed_by_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    page = shown(client, monkeypatch, Survey(started_ms=1, tables=records(10_000)))
    first = page("/")
    assert first.count("<tr>") == PAGE + 1
    assert len(first) < 200_000
    assert "page 1 of 100" in first
    assert "page 100 of 100" in page("/?page=999999999999999999999")


def test_storage_that_does_not_answer_leaves_the_last_survey_on_the_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_data, "PATIENCE_S", 0.2)
    monkeypatch.setattr(lake_data, "_FRESH_MS", 0)
    survey = Survey(started_ms=1, tables=records(3))

    def read(self: lake_data.LakeData, conn_id: str) -> Survey:
        self._surveys[conn_id] = lake_data._CachedSurvey(survey, self.now_ms())
        return survey

    answered = threading.Event()
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", read)
    assert "d.t00001" in client.get("/").text
    monkeypatch.setattr(lake_data.LakeData, "_read_survey", lambda self, conn_id: answered.wait(60))
    text = client.get("/").text
    assert not answered.is_set()
    answered.set()
    assert "did not answer" in text
    assert "d.t00001" in text


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
    view = lake_view(survey, LakeQuery.of({"order": order}))
    assert view.rows[0].table == first
    assert lake_view(survey, LakeQuery.of({"order": order, "reverse": "1"})).rows[-1].table == first


def task(state: str, report: Mapping[str, Any] | None, name: str = "compact") -> dict[str, Any]:
    empty = {"start": None, "end": None, "try_number": 1, "map_index": 0, "name": "d.t"}
    return {"task_id": name, "state": state, "report": report, **empty}


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"nothing_to_do": True}, "nothing to do"),
        ({"before": {"files": 28}, "after": {"files": 2}}, "28 → 2 files"),
        ({"before": {"files": 28}, "after": {"files": 2}, "dry_run": True}, "would be: 28 → 2 files"),
        ({"files": 7}, "7 files removed"),
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
    assert history_chart(days).startswith("<svg")
    assert not [one for one in sys.meta_path if type(one).__module__ == "pygal"], "no import hook is left"
    assert "polyline" in score_line(days)
    assert age_text(1, 3 * 3_600_000) == "3 h ago"
    assert age_text(None, 5) == ""
