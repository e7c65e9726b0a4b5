"""What maintenance did, listed and taken back, on tables that Java Paimon wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs.attempts import AttemptFilter, attempts_of
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.operators.fsck import FsckOperator
from lakecore_airflow.operators.ledger import (
    ListRunsOperator,
    PurgeQuarantineOperator,
    UndoOperator,
    WhyOperator,
)
from lakecore_airflow.operators.repair import RepairOperator
from lakecore_airflow.operators.tags import CreateTagOperator, DeleteTagOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    return TABLE


def test_a_deleted_tag_is_listed_and_comes_back(table: str, lake: Path) -> None:
    CreateTagOperator(task_id="make", table=table, tag="kept", snapshot=3).execute(context())
    gone = DeleteTagOperator(task_id="drop", table=table, tags="kept").execute(context())
    tags = load_catalog(lake).load_table(table)._stores.tags
    assert (gone["quarantined"], tags.list()) == (True, ())
    newest = ListRunsOperator(task_id="runs", table=table, limit="1").execute(context())
    assert [(line["id"], line["state"]) for line in newest] == [(gone["run"], "quarantined")]
    assert ListRunsOperator(task_id="runs", table="g1.other").execute(context()) == []

    with DAG("d", schedule=None):
        undo = UndoOperator(task_id="undo", undo_run="{{ params.run }}")
    undo.render_template_fields({"params": {"run": gone["run"]}})
    found = undo.execute(context())
    assert found["files"] == gone["files"] == 1
    assert tags.list() == ("kept",)
    with pytest.raises(AirflowFailException, match="undone"):
        undo.execute(context())
    with pytest.raises(AirflowFailException, match="20200101-x"):
        UndoOperator(task_id="undo", undo_run="20200101-x").execute(context())


def test_what_is_purged_cannot_come_back(table: str) -> None:
    CreateTagOperator(task_id="make", table=table, tag="old", snapshot=3).execute(context())
    gone = DeleteTagOperator(task_id="drop", table=table, tags="old").execute(context())
    kept = PurgeQuarantineOperator(task_id="purge").execute(context())
    assert (kept["nothing_to_do"], kept["names"]) == (True, [])
    purged = PurgeQuarantineOperator(task_id="purge", quarantine_ttl="0 s").execute(context())
    assert purged["names"] == [gone["run"]]
    assert len(json.dumps(purged)) < 10_000
    with pytest.raises(AirflowFailException, match="purged"):
        UndoOperator(task_id="undo", undo_run=gone["run"]).execute(context())
    with pytest.raises(AirflowFailException, match="quarantine_cap"):
        PurgeQuarantineOperator(task_id="purge", quarantine_cap="lots").execute(context())


def test_a_check_fails_or_reports_and_plans_the_repair(table: str, lake: Path) -> None:
    def check(**arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        run = context()
        return FsckOperator(task_id="fsck", table=table, **arguments).execute(run), run["ti"].xcoms

    assert check(deep="true", fail_on="any")[0]["findings"] == []
    folder = lake / "g1.db" / "a_pk_dedup_l0"
    (folder / "snapshot" / "LATEST").write_text("1")
    found, told = check(plan=True)
    assert ([one["kind"] for one in found["findings"]], found["findings_count"]) == (["hint"], 1)
    with pytest.raises(AirflowFailException, match="hint"):
        check(fail_on="any")
    RepairOperator(task_id="repair", table=table, plan=told["plan"]).execute(context())
    assert check(fail_on="any")[0]["findings"] == []
    next((folder / "bucket-0").iterdir()).unlink()
    run = context()
    with pytest.raises(AirflowFailException, match="data-file"):
        FsckOperator(task_id="fsck", table=table).execute(run)
    assert run["ti"].xcoms["report"]["findings_count"] >= 1
    assert check(fail_on="nothing")[0]["findings"]
    wrong = FsckOperator(task_id="fsck", table=table, fail_on="{{ params.when }}")
    wrong.render_template_fields({"params": {"when": "often"}})
    with pytest.raises(AirflowFailException, match="fail_on='often'"):
        wrong.execute(context())


def test_why_names_what_holds_a_snapshot(table: str) -> None:
    CreateTagOperator(task_id="make", table=table, tag="audit", snapshot=3).execute(context())
    found = WhyOperator(task_id="why", table=table, subject="3").execute(context())
    assert any("audit" in holder for holder in found["names"])


def test_an_attempt_names_the_task_that_began_it(table: str, lake: Path) -> None:
    task = CreateTagOperator(task_id="make", table=table, tag="kept", snapshot=3)
    given = context()
    task.pre_execute(given)
    task.execute(given)
    (one,) = attempts_of(load_catalog(lake), AttemptFilter()).attempts
    ti = given["ti"]
    begun = {"dag": ti.dag_id, "run": ti.run_id, "task": ti.task_id, "try": ti.try_number}
    assert (one.job, one.state.value) == ("create-tag", "done")
    assert begun.items() <= one.origin.items()
