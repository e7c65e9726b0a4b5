"""Waiting for a snapshot in a real Airflow: deferred to the triggerer, woken by another process's commit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakecore.jobs import compact
from tests.dags.conftest import AirflowLake

pytestmark = pytest.mark.slow

DAG = "lakecore_on_snapshot"


def test_waits_for_new_data_and_goes_on_where_it_stopped(airflow: AirflowLake, tmp_path: Path) -> None:
    table = airflow.place("g1.a_pk_dedup_l0", "arrivals")
    conf = {"tables": table.name}
    state, tasks = airflow.run(DAG, conf)
    assert state == "success"
    assert message(airflow, tasks) == f"snapshots 1 to 8 of {table.name}"

    run_id = airflow.api.trigger(DAG, conf)
    airflow.api.wait("deferral", lambda: airflow.state_of(DAG, run_id, "new_snapshot") == "deferred", 90)
    full = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    assert compact.run(full, airflow.catalog).snapshot == 9, "a compaction brings no new data"
    write(airflow, table.name, tmp_path)
    write(airflow, table.name, tmp_path)
    assert airflow.end_of(DAG, run_id) == "success"
    [sensor] = [task for task in airflow.api.tasks(DAG, run_id) if task["task_id"] == "new_snapshot"]
    last = airflow.api.xcom(sensor)["last"]
    assert last in (10, 11), "the second commit is in this range or in the next"
    assert message(airflow, airflow.api.tasks(DAG, run_id)) == f"snapshots 10 to {last} of {table.name}"

    write(airflow, table.name, tmp_path)
    state, tasks = airflow.run(DAG, conf)
    assert (state, message(airflow, tasks)) == ("success", f"snapshots {last + 1} to 12 of {table.name}")
    state, tasks = airflow.run(DAG, conf | {"after_snapshot": 7})
    assert (state, message(airflow, tasks)) == ("success", f"snapshots 8 to 12 of {table.name}")


def test_a_table_that_is_not_there_fails_at_once(airflow: AirflowLake) -> None:
    state, tasks = airflow.run(DAG, {"tables": "arrivals.nothing"})
    assert state == "failed"
    [task] = [task for task in tasks if task["task_id"] == "new_snapshot"]
    assert task["try_number"] == 1
    assert "arrivals.nothing" in airflow.api.error(task)


def write(airflow: AirflowLake, table: str, scratch: Path) -> None:
    """One commit by another process."""
    file = scratch / "rows.jsonl"
    file.write_text(json.dumps({"k": 1, "v": "new", "n": 1, "d": "1.00"}) + "\n")
    lakecore = Path(sys.executable).with_name("lakecore")
    command = [lakecore, "--warehouse", str(airflow.path), "write", table, str(file)]
    subprocess.run(command, check=True, capture_output=True)


def message(airflow: AirflowLake, tasks: list[dict[str, object]]) -> str:
    """What the downstream task printed."""
    [task] = [task for task in tasks if task["task_id"] == "downstream"]
    events = [str(record["event"]) for record in airflow.api.log(task)]
    return next(event for event in events if event.startswith("snapshots "))
