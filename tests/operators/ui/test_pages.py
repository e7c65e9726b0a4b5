"""The pages without an Airflow: what they show, hostile names, storage that does not answer. Rights are tested in a
real Airflow (tests/dags/test_real_pages.py)."""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs.cost.prices import PriceList
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.survey import DayPoint, Job, State, Survey, run
from lakecore_airflow.ui import lake_data, page, what_if_page
from lakecore_airflow.ui.actions import Actions
from lakecore_airflow.ui.charts import level_picture, score_line
from lakecore_airflow.ui.views import PAGE, LakeQuery, lake_view
from lakecore_airflow.ui.words import size_text
from tests.support.ui_pages import HOSTILE, TASKS, records, shown, task, wait_until


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


def test_the_quarantine_shows_what_can_be_taken_back(client: TestClient, lake: FilesystemCatalog) -> None:
    orphan = Path(lake.load_table("g1.a_pk_runs").path, "bucket-0", "data-orphan-0.parquet")
    orphan.write_bytes(b"x" * 2048)
    os.utime(orphan, (1e9, 1e9))
    run_chore(RemoveOrphanFiles(table="g1.a_pk_runs"), lake)
    text = client.get("/quarantine").text
    assert "remove-orphan-files" in text
    assert size_text(2048) in text
    assert "Undo" not in text, "a viewer has no buttons"
