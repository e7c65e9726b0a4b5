"""Maintenance by policy on tables that Java Paimon wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.jobs.attempts import AttemptFilter, attempts_of
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
CHORES = {
    "remove-orphan-files": {"older-than": "2 d"},
    "expire-snapshots": {"retain-max": 2, "retain-min": 2, "quarantine": True},
}


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    for name in (TABLE, "g1.a_old082_append"):
        golden(name).copy_to(lake)
    return TABLE


def _maintain(**arguments: Any) -> MaintainTableOperator:
    return MaintainTableOperator(**({"task_id": "maintain", "table": TABLE, "chores": CHORES} | arguments))


def test_a_policy_becomes_tasks(table: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("- tables: ['g1.a_pk*']\n  chores:\n    expire-tags: on\n    expire-snapshots: off\n")
    expected = [{"table": TABLE, "chores": {"expire-tags": {}}}]
    assert PlanMaintenanceOperator(task_id="plan", policy=str(policy)).execute(context()) == expected
    for wrong, problem in ((str(tmp_path / "gone.yaml"), "gone"), ([{"tables": "*"}], "rule 1")):
        with pytest.raises(AirflowFailException, match=problem):
            PlanMaintenanceOperator(task_id="plan", policy=wrong).execute(context())
    policy.write_text("- tables: [")
    with pytest.raises(AirflowFailException, match="no YAML"):
        PlanMaintenanceOperator(task_id="plan", policy=str(policy)).execute(context())


def test_the_forecast_of_the_compaction_chooses_the_engine(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.spark.executor.SparkExecutor.begin", lambda _: pytest.fail("a session"))
    chores = {"compact": {"strategy": "full"}, "expire-snapshots": {"retain-max": 2, "retain-min": 2}}
    report = _maintain(engine="auto", chores=chores).execute(context())
    compaction, expiry = report["done"]
    assert (compaction["engine"], compaction["files_out"]) == ("local", 1)
    assert "a Spark session alone takes some 6 s" in compaction["engine_reason"]
    assert expiry["snapshots_count"]


@pytest.mark.parametrize("nothing", [None, "", []], ids=str)
def test_without_a_policy_every_table_is_only_looked_at(table: str, lake: Path, nothing: Any) -> None:
    for asked in (None, "", False, "False", True):
        planned = PlanMaintenanceOperator(task_id="plan", policy=nothing, dry_run=asked).execute(context())
        assert [one["table"] for one in planned] == ["g1.a_old082_append", TABLE]
        assert all(one["dry_run"] is True for one in planned), asked
    before = sorted(str(path) for path in lake.rglob("*"))
    report = _maintain(**planned[1]).execute(context())
    jobs = {one["job"]: one for one in report["done"]}
    assert list(jobs) == ["fsck", "expire-tags", "expire-snapshots", "remove-orphan-files"]
    assert report["dry_run"]
    assert jobs["expire-snapshots"]["dry_run"]
    assert sorted(str(path) for path in lake.rglob("*")) == before


def test_a_policy_may_be_text_and_a_dry_run(table: str) -> None:
    text = "- tables: ['g1.a_pk*']\n  chores: {expire-tags: on}\n"
    one = {"table": TABLE, "chores": {"expire-tags": {}}}
    for policy in (text, '[{"tables": ["g1.a_pk*"], "chores": {"expire-tags": true}}]'):
        assert PlanMaintenanceOperator(task_id="plan", policy=policy).execute(context()) == [one]
        planned = PlanMaintenanceOperator(task_id="plan", policy=policy, dry_run="True").execute(context())
        assert planned == [{**one, "dry_run": True}]


def test_chores_are_done_in_order_and_reported(table: str, lake: Path) -> None:
    orphan = lake / "g1.db" / "a_pk_dedup_l0" / "bucket-0" / "data-orphan-0.parquet"
    orphan.write_bytes(b"x" * 10)
    three_days_ago = datetime.now(UTC).timestamp() - 3 * 86_400
    os.utime(orphan, (three_days_ago, three_days_ago))
    run = context()
    look = _maintain(dry_run="True").execute(run)
    assert [one["job"] for one in look["done"]] == ["expire-snapshots", "remove-orphan-files"]
    assert orphan.exists()
    report = _maintain().execute(run)
    assert len(json.dumps(report)) < 10_000
    assert [one["job"] for one in report["done"]] == ["expire-snapshots", "remove-orphan-files"]
    assert load_catalog(lake).load_table(TABLE)._stores.snapshots.list_ids() == (7, 8)
    assert not orphan.exists()
    assert all(one["run"] for one in report["done"]), "both in the quarantine: undo can take them back"
    assert (report["failed"], report["left"], report["refused"]) == ({}, [], {})


def test_files_are_rewritten_by_policy_and_once(table: str, lake: Path) -> None:
    chores = {
        "expire-snapshots": {"retain-max": 1, "retain-min": 1},
        "compact": {"strategy": "full", "proof": "full"},
        "rewrite-file-index": {"options": {"file-index.bloom-filter.columns": "v"}},
        "compact-manifest": {},
    }
    look = _maintain(chores=chores, dry_run=True).execute(context())
    assert [one["job"] for one in look["done"]][:2] == ["compact", "rewrite-file-index"]
    loaded = load_catalog(lake).load_table(TABLE)
    rows, ids = loaded.scan().to_arrow().num_rows, loaded._stores.snapshots.list_ids()
    report = _maintain(chores=chores).execute(context())
    assert (report["failed"], report["refused"]) == ({}, {})
    compacted, indexed = report["done"][:2]
    assert (compacted["snapshot"], compacted["files_out"]) == (ids[-1] + 1, 1)
    assert (indexed["snapshot"], indexed["files"]) == (ids[-1] + 2, 1)
    assert loaded.scan().to_arrow().num_rows == rows
    last = loaded._stores.snapshots.list_ids()[-1]
    _maintain(chores=chores).execute(context())
    assert loaded._stores.snapshots.list_ids()[-1] == last, "the same task run commits once"
    for wrong, problem in (({"strategy": "sideways"}, "sideways"), ({"engine": "x"}, "no parameter")):
        with pytest.raises(AirflowFailException, match=problem):
            _maintain(chores={"compact": wrong}).execute(context())


def test_after_the_window_no_chore_begins(table: str, lake: Path) -> None:
    report = _maintain(until="2020-01-01T05:00:00Z").execute(context())
    assert (report["done"], report["left"]) == ([], ["expire-snapshots", "remove-orphan-files"])
    ledger = attempts_of(load_catalog(lake), AttemptFilter(state="left")).attempts
    assert [(one.table, one.job) for one in ledger] == [(TABLE, name) for name in report["left"]]
    assert len(load_catalog(lake).load_table(TABLE)._stores.snapshots.list_ids()) == 8


def test_a_chore_that_fails_does_not_stop_the_next(table: str, lake: Path) -> None:
    run = context()
    operator = _maintain(chores={"expire-partitions": {"expiration": "1 d"}, **CHORES})
    with pytest.raises(AirflowFailException, match="not partitioned"):
        operator.execute(run)
    report = run["ti"].xcoms["report"]
    assert (list(report["failed"]), len(report["done"])) == (["expire-partitions"], 2)
    assert load_catalog(lake).load_table(TABLE)._stores.snapshots.list_ids() == (7, 8)
    for chores, problem in (
        ({"expire-snapshots": {"keep": 1}}, "keep"),
        ({"tidy": {}}, "tidy"),
        ({"expire-snapshots": {"older-than": "soon"}}, "soon"),
    ):
        with pytest.raises(AirflowFailException, match=problem):
            _maintain(chores=chores).execute(context())


def test_a_table_that_somebody_maintains_is_tried_again(table: str, lake: Path) -> None:
    catalog = load_catalog(lake)
    with leased(catalog.file_io, catalog.warehouse, TABLE, "other run", SystemClock(), LeaseTimes(60_000)):
        with pytest.raises(AirflowException, match="maintained by other run") as caught:
            _maintain().execute(context())
        assert not isinstance(caught.value, AirflowFailException)
    assert len(_maintain().execute(context())["done"]) == 2
