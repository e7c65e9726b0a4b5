"""What pages, metrics and files say of runs and of their costs."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import NotFoundError
from lakecore.jobs import compact
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.survey import DayPoint, Job, State, Survey, TableRecord, run
from lakecore_airflow.reports.outcome import outcome_of
from lakecore_airflow.ui import policy_view
from lakecore_airflow.ui.charts import history_chart, score_line
from lakecore_airflow.ui.policy_view import TablePolicy, policy_of
from lakecore_airflow.ui.prometheus import survey_metrics
from lakecore_airflow.ui.run_view import run_matrix, run_sums, run_view
from lakecore_airflow.ui.words import age_text
from tests.support.ui_pages import TASKS, records, shown, task


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


def test_a_run_of_many_jobs_is_a_matrix_with_failures_first() -> None:
    good = task("success", {"table": "d.a", "done": [{"job": "compact", "nothing_to_do": True}]}, "maintain")
    bad = task("failed", {"table": "d.b", "done": [], "failed": {"expire-tags": "it is damaged"}}, "maintain")
    lines = run_view([good, bad])
    matrix = run_matrix(lines)
    assert matrix.jobs == ("expire-tags", "compact")
    assert matrix.rows[0] == ("d.b", "failed", {"expire-tags": "failed: it is damaged"})
    assert run_sums(lines)["Failed"] == "1"


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


def test_the_board_of_grafana_shows_each_metric_and_no_other() -> None:
    board = json.loads((Path(__file__).parents[3] / "docker" / "grafana" / "lakes.json").read_text())
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


def test_the_lake_as_csv_and_json(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    formula = replace(records(1)[0], table="=cmd|' /C calc'!A0", score=50)
    survey = Survey(started_ms=1, tables=(*records(3), formula))
    text = shown(client, monkeypatch, survey)("/lake.csv")
    assert text.splitlines()[0].startswith("table,state,score")
    assert "'=cmd" in text
    assert len(text.splitlines()) == 5
    assert len(json.loads(client.get("/lake.json?q=t00001").text)) == 1


def test_a_chart_needs_two_days() -> None:
    days = [DayPoint(day * 86_400_000, 100, day, 1, 1) for day in range(2)]
    assert history_chart(days[:1]) == score_line(days[:1]) == ""
    assert "<svg" in history_chart(days)
    assert not [one for one in sys.meta_path if type(one).__module__ == "pygal"], "no import hook is left"
    assert "polyline" in score_line(days)
    assert age_text(1, 3 * 3_600_000) == "3 h ago"
    assert age_text(None, 5) == ""
