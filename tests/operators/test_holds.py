"""Holds as Airflow tasks, and a damaged table in a nightly policy: nothing is removed from it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.bases.sensor import BaseSensorOperator

import lakecore_airflow
from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs.runner import chore
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.operators.expire import ExpireSnapshotsOperator
from lakecore_airflow.operators.fsck import FsckOperator
from lakecore_airflow.operators.holds import HoldTableOperator, ListHoldsOperator, ReleaseTableOperator
from lakecore_airflow.policy.maintain import CHORES, MaintainTableOperator
from lakecore_airflow.tasks.chore import ChoreOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
NIGHT: dict[str, dict[str, Any]] = {
    "remove-orphan-files": {},
    "expire-tags": {"older-than": "1 s"},
    "expire-snapshots": {"retain-max": 1, "retain-min": 1},
    "compact": {"strategy": "full"},
    "fsck": {},
}
BASES = (
    "ChoreOperator",
    "EngineChoreOperator",
    "EngineTask",
    "JobTask",
    "LakeTask",
    "LeaseWaitTask",
    "SubmitTask",
    "TableTask",
    "WindowTask",
)
READING = {
    "AlterFunctionOperator",
    "AlterViewDialectOperator",
    "CompactDatabaseOperator",
    "CompactTableOperator",
    "CopyOperator",
    "CreateFunctionOperator",
    "DedicatedCompactionOperator",
    "DropFunctionOperator",
    "FsckOperator",
    "ListHoldsOperator",
    "ListRunsOperator",
    "ListTablesOperator",
    "SurveyOperator",
    "NamedTablesOperator",
    "MaintainTableOperator",
    "MigrateDatabaseOperator",
    "MigrateTableOperator",
    "PlanMaintenanceOperator",
    "PurgeQuarantineOperator",
    "RepairCatalogOperator",
    "QueryServiceOperator",
    "RewriteFileIndexOperator",
    "UndoOperator",
    "WhatIfOperator",
    "CreatePrivilegedUserOperator",
    "DropPrivilegedUserOperator",
    "GrantPrivilegeToUserOperator",
    "InitFileBasedPrivilegeOperator",
    "RevokePrivilegeFromUserOperator",
    "ListPrivilegesOperator",
    "DropTableOperator",
    "DropDatabaseOperator",
    "RenameTableOperator",
    "RestoreTableOperator",
}
"""Operators of jobs that do not begin as chores do: they read, rewrite, make tables or names, run chores, or look at holds themselves."""


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    golden(TABLE).copy_to(lake)
    return lake / "g1.db" / "a_pk_dedup_l0"


def _night(**arguments: Any) -> MaintainTableOperator:
    return MaintainTableOperator(**({"task_id": "maintain", "table": TABLE, "chores": NIGHT} | arguments))


def _files(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


def _release(lake: Path) -> None:
    ReleaseTableOperator(task_id="release", table=TABLE).execute(context())


@pytest.mark.parametrize("kind", ["data file", "manifest"])
def test_a_policy_leaves_a_damaged_table_alone_until_it_is_whole(table: Path, lake: Path, kind: str) -> None:
    loaded = load_catalog(lake).load_table(TABLE)
    latest = loaded._stores.snapshots.latest()
    assert latest is not None
    manifest = Path(
        loaded._stores.paths.manifest(loaded._stores.manifests.data_manifests(latest)[-1].file_name)
    )
    [file, *_] = [entry.file for entry in loaded._scanner.live_entries(latest)]
    sick = next(table.rglob(file.file_name)) if kind == "data file" else manifest
    whole = sick.read_bytes()
    if kind == "data file":
        sick.unlink()
    else:
        sick.write_bytes(whole[:60] + b"\xff" + whole[61:])
    before = _files(table)
    for night in range(2):
        run = context(f"night{night}")
        with pytest.raises(AirflowFailException, match="on hold, so not done: expire-tags, expire-snapshots"):
            _night().execute(run)
        report = run["ti"].xcoms["report"]
        assert set(report["on_hold"]) == {"remove-orphan-files", "expire-tags", "expire-snapshots"}
        assert "fsck" in report["failed"]
        assert "on hold" in report["failed"]["fsck"]
        assert before <= _files(table), "nothing was removed"
    without_check = {name: NIGHT[name] for name in NIGHT if name != "fsck"}
    with pytest.raises(AirflowFailException, match="on hold"):
        _night(chores=without_check).execute(context("later"))
    assert before <= _files(table)
    with pytest.raises(AirflowFailException, match="OnHoldError"):
        ExpireSnapshotsOperator(task_id="e", table=TABLE, retain_max=1, retain_min=1).execute(context())
    sick.write_bytes(whole)
    with pytest.raises(AirflowFailException, match=r"on hold|damage"):
        _night(chores={**NIGHT, "fsck": {"no-data": True}}).execute(context("partial"))
    assert FsckOperator(task_id="fsck", table=TABLE, deep=True).execute(context())["findings"] is not None
    assert ListHoldsOperator(task_id="holds").execute(context()) == []
    report = _night().execute(context("healthy"))
    assert (report["on_hold"], report["failed"]) == ({}, {})
    assert report["done"][0]["job"] == "fsck"
    assert len(loaded._stores.snapshots.list_ids()) == 1


def test_what_a_person_holds_is_no_failure_of_the_night(table: Path, lake: Path) -> None:
    run = context()
    with pytest.raises(AirflowFailException, match="reason"):
        HoldTableOperator(task_id="hold", table=TABLE, reason=" ").execute(run)
    HoldTableOperator(task_id="hold", table=TABLE, reason="an audit").execute(run)
    [hold] = ListHoldsOperator(task_id="holds", pattern="g1.*").execute(run)
    assert (hold["table"], hold["automatic"], hold["reason"]) == (TABLE, False, "an audit")
    assert hold["by"] == "dag/task/run1/-1"
    assert ListHoldsOperator(task_id="holds", pattern="other.*").execute(run) == []
    report = _night().execute(run)
    assert (report["failed"], sorted(report["on_hold"])) == (
        {},
        ["expire-snapshots", "expire-tags", "remove-orphan-files"],
    )
    assert [one["job"] for one in report["done"]] == ["fsck", "compact"]
    _release(lake)
    assert _night().execute(run)["on_hold"] == {}


def test_a_dry_run_puts_nothing_on_hold(table: Path, lake: Path) -> None:
    for path in table.rglob("data-*"):
        path.unlink()
    with pytest.raises(AirflowException):
        _night(dry_run=True).execute(context())
    assert not (lake / ".lakecore").exists()


def test_the_check_is_the_first_chore_of_a_policy() -> None:
    assert next(iter(CHORES)) == "fsck"


def test_every_operator_runs_a_job_that_takes_notice_of_holds() -> None:
    for found in pkgutil.walk_packages(lakecore_airflow.__path__, "lakecore_airflow."):
        loaded = importlib.import_module(found.name)
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            own = kind.__module__ == loaded.__name__ and issubclass(kind, BaseOperator)
            if not own or name not in getattr(loaded, "__all__", ()) or issubclass(kind, BaseSensorOperator):
                continue
            if issubclass(kind, ChoreOperator) and kind.definition.module:
                module = kind.definition.module
                job = importlib.import_module(f"lakecore.jobs.{module}")
                assert getattr(job, "run_on_table", None) is chore.run_on_table or module == "holds", name
            elif name not in BASES:
                assert name in READING, f"{name}: does its job take notice of holds?"
