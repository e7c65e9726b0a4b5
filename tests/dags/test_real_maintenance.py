"""Maintenance by policy, sensors and the asset watcher in a real Airflow: scheduler, triggerer, workers."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakecore.jobs.versions import tags
from tests.dags.conftest import WATCHED, AirflowLake, table_of

pytestmark = pytest.mark.slow


def test_a_policy_maintains_the_lake(airflow: AirflowLake) -> None:
    names = ("g1.a_pk_dedup_l0", "g1.a_old082_append")
    first, second = (airflow.place(name, "policy") for name in names)
    limits = {"retain-max": 3, "retain-min": 3}
    chores = {"expire-tags": {}, "compact": {"strategy": "full"}, "expire-snapshots": limits}
    policy = [
        {"tables": ["policy.*"], "chores": chores},
        {
            "tables": [second.name],
            "chores": {"expire-snapshots": "off", "compact": "off", "remove-orphan-files": True},
        },
    ]
    before = second._stores.snapshots.list_ids()
    state, tasks = airflow.run("lakecore_maintenance", {"policy": policy, "until": ""})
    assert state == "success"
    done = {table_of(task): task for task in tasks if task["task_id"] == "maintain"}
    jobs = {name: [one["job"] for one in airflow.api.xcom(task)["done"]] for name, task in done.items()}
    assert jobs == {
        first.name: ["compact", "expire-tags", "expire-snapshots"],
        second.name: ["expire-tags", "remove-orphan-files"],
    }
    assert first._stores.snapshots.list_ids() == (7, 8, 9)
    assert second._stores.snapshots.list_ids() == before
    place = f"/api/v2/dags/lakecore_maintenance/dagRuns/{urllib.parse.quote(tasks[0]['dag_run_id'], safe='')}"
    task = done[first.name]
    found = airflow.api.call("GET", f"{place}/taskInstances/maintain/links?map_index={task['map_index']}")
    assert found["extra_links"]["Report"].endswith(
        f"/tasks/maintain/mapped/{task['map_index']}/plugin/lake_task"
    )
    assert found["extra_links"]["Table"] is None, "the connection names no page"


def test_tags_of_past_days_are_backfilled(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_l0", "eod")
    first = datetime(2026, 2, 1, 12, tzinfo=UTC)
    for number in table._stores.snapshots.list_ids():  # one commit every six hours
        path = Path(table._stores.paths.snapshot(number))
        at = first + timedelta(hours=6 * (number - 1))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"timeMillis": int(at.timestamp() * 1000)}))
    runs = airflow.backfill(
        {
            "dag_id": "lakecore_batch_tags",
            "from_date": "2026-02-02T00:00:00Z",  # of the times that runs start: at 00:15 for the day before
            "to_date": "2026-02-03T12:00:00Z",
            "dag_run_conf": {"database": "eod"},
        }
    )
    assert sorted(day[:10] for day, _ in runs) == ["2026-02-01", "2026-02-02"]
    found = {tag: table._stores.tags.load(tag).id for tag in table._stores.tags.list()}
    assert found == {"eod-2026-02-01": 2, "eod-2026-02-02": 6}


def test_a_tag_and_finished_partitions_are_waited_for(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_b3_part", "waits")
    run_id = airflow.api.trigger("lakecore_waits", {"table": table.name})

    def states() -> set[str]:
        return {task["state"] for task in airflow.api.tasks("lakecore_waits", run_id)}

    airflow.api.wait("deferral of both", lambda: states() == {"deferred"}, 120)
    [after] = {run["run_after"] for run in airflow.api.runs("lakecore_waits") if run["dag_run_id"] == run_id}
    before = datetime.fromisoformat(after) - timedelta(days=1)  # without a logical date: the last day over
    day = before.astimezone(UTC).strftime("%Y-%m-%d")
    catalog = airflow.catalog
    tags.run(tags.CreateTag(table=table.name, tag=day, snapshot=2), catalog)
    both = "dt=2024-01-01;dt=2024-01-02"
    assert airflow.run("lakecore_keys", {})[0] == "success", "it marks both"
    assert airflow.end_of("lakecore_waits", run_id) == "success"
    found = {task["task_id"]: airflow.api.xcom(task) for task in airflow.api.tasks("lakecore_waits", run_id)}
    assert (found["tag"]["tag"], found["tag"]["snapshot"]) == (day, 2)
    assert found["partition"]["partitions"] == both.split(";")

    def started() -> set[str]:
        return {run["partition_key"] for run in airflow.api.runs("lakecore_by_key")}

    airflow.api.wait("a run for each partition", lambda: started() == set(both.split(";")), 60)


def test_new_snapshots_of_watched_tables_start_runs(airflow: AirflowLake, tmp_path: Path) -> None:
    database, _, name = WATCHED[0].partition(".")
    airflow.place(f"g1.{name}", database)
    assert _told(airflow, 8) == {
        "table": WATCHED[0],
        "first": 1,
        "last": 8,
        "snapshot": 8,
        "count": 8,
        "watermark": None,
    }
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"k": 1, "v": "new", "n": 1, "d": "1.00"}) + "\n")
    executable = Path(sys.executable).with_name("lakecore")
    command = [executable, "--warehouse", str(airflow.path), "write", WATCHED[0], str(file)]
    subprocess.run(command, check=True, capture_output=True)
    assert _told(airflow, 9)["first"] == 9


def _told(airflow: AirflowLake, last: int) -> dict[str, Any]:
    """Wait for the run that consumed snapshots up to `last`; the event that woke it up."""

    def consumed() -> Any:
        for run in airflow.api.runs("lakecore_on_asset"):
            for task in airflow.api.tasks("lakecore_on_asset", run["dag_run_id"]):
                found = airflow.api.xcom(task) if task["task_id"] == "new_snapshots" else None
                if found and found["last"] == last:
                    return run["dag_run_id"], found
        return None

    run_id, found = airflow.api.wait(f"a run for snapshot {last}", consumed, 120, 1)
    assert airflow.end_of("lakecore_on_asset", run_id) == "success"
    [task] = [one for one in airflow.api.tasks("lakecore_on_asset", run_id) if one["task_id"] == "downstream"]
    assert any(str(found) in str(record["event"]) for record in airflow.api.log(task))
    events = airflow.api.call("GET", "/api/v2/assets/events?order_by=-timestamp")["asset_events"]
    return dict(
        next(event["extra"]["payload"] for event in events if event["extra"]["payload"]["last"] == last)
    )
