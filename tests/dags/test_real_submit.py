"""A real Airflow submits a job to a real spark-submit, defers, and survives the death of the driver; Java reads the table."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from lakecore.cli.main import main
from tests.dags.conftest import AirflowLake, rows
from tests.dags.test_real_compaction import compactions, expected
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

GOLDEN = "g1.a_pk_dedup_l0"


def test_a_killed_driver_is_submitted_again_and_commits_once(airflow: AirflowLake, oracle: Oracle) -> None:
    table = airflow.place(GOLDEN, "submitted")
    run_id = airflow.api.trigger("lakecore_submit", {"table": table.name})
    jobs = airflow.path / ".lakecore" / "jobs"

    def claim() -> dict[str, Any] | None:
        for path in jobs.glob("*/run-1.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return None

    driver = airflow.api.wait("the driver", claim, 120)
    airflow.api.wait(
        "the deferral", lambda: airflow.state_of("lakecore_submit", run_id, "compact") == "deferred", 60
    )
    group = os.getpgid(driver["process"]["pid"])
    os.killpg(group, signal.SIGSTOP)
    [run_file] = jobs.glob("*/run-1.json")
    rows_done = {"picks": 1, "picks_done": 0, "rows": 8_000, "rows_done": 3_000, "rows_proven": 0}
    told = rows_done | {"table": table.name, "share": 0.25, "seconds": 60.0}
    run_file.write_text(json.dumps(json.loads(run_file.read_text()) | {"beat": 1_000, "progress": told}))

    def page_with_progress() -> str | None:
        text = airflow.api.page(f"/lakecore/runs/lakecore_submit/{run_id}/compact")[1]
        return text if "<h2>Progress</h2>" in text else None

    text = airflow.api.wait("the progress of the deferred task", page_with_progress, 60)
    assert "25.0 %: 0 of 1 picks are committed, 3,000 of 8,000 rows are read" in text
    assert "about 3 min left" in text
    os.killpg(group, signal.SIGKILL)
    assert airflow.end_of("lakecore_submit", run_id) == "success"
    [task] = airflow.api.tasks("lakecore_submit", run_id)
    [job] = jobs.iterdir()
    assert sorted(one.name for one in job.iterdir()) == [
        "job.json",
        "result-1.json",
        "result-2.json",
        "run-1.json",
        "run-2.json",
    ]
    assert json.loads((job / "result-1.json").read_text())["state"] == "lost"
    report = airflow.api.xcom(task)
    assert (task["try_number"], report["engine"], report["after"]["files"]) == (2, "spark", 1)
    assert compactions(table) == [report["snapshot"]]
    assert rows(table) == expected(GOLDEN)
    assert canonical(oracle.read(airflow.path, table.name)) == expected(GOLDEN)
    assert findings(oracle.fsck(airflow.path, table.name)) == set()
    assert main(["--warehouse", str(airflow.path), "fsck", table.name]) == 0


def test_the_nightly_dag_submits_by_the_connection_of_its_settings(
    airflow: AirflowLake, oracle: Oracle
) -> None:
    table = airflow.place(GOLDEN, "by_night")
    conf = {"database": "by_night", "engine": "submit", "strategy": "full", "until": ""}
    state, tasks = airflow.run("lakecore_nightly", conf)
    assert state == "success"
    [task] = [one for one in tasks if one["task_id"] == "compact"]
    assert "waits for the end of job" in str(airflow.api.log(task))
    report = airflow.api.xcom(task)
    assert (task["try_number"], report["engine"], report["after"]["files"]) == (1, "spark", 1)
    assert compactions(table) == [report["snapshot"]]
    assert canonical(oracle.read(airflow.path, table.name)) == expected(GOLDEN)
