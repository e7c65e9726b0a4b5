"""Every DAG switched on over a lake that it knows nothing about: all runs are green, and nothing is removed."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import AirflowLake, table_of
from tests.support.golden import golden_table

pytestmark = pytest.mark.slow

TABLES = (
    "g1.a_append_bucket_auto",
    "g1.a_life_empty",
    "g1.a_old082_append",
    "g1.a_pk_dedup_b3_part",
    "g1.a_pk_dedup_l0",
    "g1.a_pk_postpone",
)


def digests(folder: Path) -> dict[str, str]:
    """The files of the tables, but not what lakecore remembers beside them."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and ".lakecore" not in path.parts
    }


def run(airflow: AirflowLake, name: str) -> list[dict[str, Any]]:
    """Run a DAG of the other connection without any params; its tasks."""
    state, tasks = airflow.run(f"lakecore_{name}__unknown", {})
    assert state == "success", [(task["task_id"], airflow.api.error(task)) for task in tasks]
    return tasks


def test_every_dag_is_green_on_an_unknown_lake_and_removes_nothing(airflow: AirflowLake) -> None:
    for name in ("nightly", "maintenance", "batch_tags", "partition", "on_snapshot", "survey"):
        assert {task["state"] for task in run(airflow, name)} <= {"success", "skipped"}, "an empty lake"
    for name in TABLES:
        source = golden_table(name)
        shutil.copytree(source.path, airflow.unknown / "strange.db" / source.table)
    before = digests(airflow.unknown)

    done = [task for task in run(airflow, "maintenance") if task["task_id"] == "maintain"]
    reports = {table_of(task): airflow.api.xcom(task) for task in done}
    assert sorted(reports) == sorted(f"strange.{name.partition('.')[2]}" for name in TABLES)
    assert all(report["dry_run"] for report in reports.values())
    planned = {one["job"]: one for one in reports["strange.a_append_bucket_auto"]["done"]}
    assert planned["expire-snapshots"]["snapshots_count"] == 1, "by the defaults of Paimon"
    assert digests(airflow.unknown) == before, "nobody has named a policy"

    (survey,) = run(airflow, "survey")
    assert airflow.api.xcom(survey)["tables"] == len(TABLES)
    assert airflow.api.xcom(survey)["worst"][0]["table"] in {f"strange.{n.partition('.')[2]}" for n in TABLES}
    assert digests(airflow.unknown) == before
    assert {task["state"] for task in run(airflow, "on_snapshot")} == {"success", "skipped"}
    compacted = run(airflow, "partition")
    assert {table_of(task) for task in compacted if task["task_id"] == "compact"} == {
        "strange.a_old082_append",
        "strange.a_pk_dedup_b3_part",
    }, "the tables with a partition key dt"
    run(airflow, "batch_tags")
    run(airflow, "nightly")
    after = digests(airflow.unknown)
    gone = {path: digest for path, digest in before.items() if path not in after}
    assert {path for path in gone if "/snapshot/" not in path} == set(), "compactions delete nothing"
    assert not gone
