"""`lakecore airflow init` on a real Airflow: from an empty DAG folder to a run that ends well."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import AirflowLake
from tests.support.golden import golden_table

pytestmark = pytest.mark.slow


def init(airflow: AirflowLake, *arguments: str) -> list[dict[str, Any]]:
    """Run the command as a person does, beside the running Airflow; its rows."""
    lakecore = str(Path(sys.executable).parent / "lakecore")
    words = ["--warehouse", str(airflow.fresh / "lake"), "--json", "airflow", "init"]
    folder = ["--dags-folder", str(airflow.fresh / "dags"), "--lake-conn-id", "fresh"]
    done = subprocess.run(
        [lakecore, *words, *folder, *arguments],
        env=airflow.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_from_an_empty_folder_to_a_green_run(airflow: AirflowLake) -> None:
    for golden in ("g1.a_pk_runs", "g1.a_append_bucket_auto"):
        source = golden_table(golden)
        shutil.copytree(source.path, airflow.fresh / "lake" / "shop.db" / source.table)
    assert {row["state"] for row in init(airflow)} == {"created"}
    dag_id = "lakecore_survey__fresh"
    airflow.api.wait(dag_id, lambda: airflow.api.has_dag(dag_id), 300)
    airflow.api.unpause(dag_id)
    state, (task,) = airflow.run(dag_id, {})
    assert (state, task["pool"]) == ("success", "lakecore")
    assert airflow.api.xcom(task)["tables"] == 2
    status, text = airflow.api.page("/lakecore/?conn=fresh")
    assert (status, "shop.a_pk_runs" in text) == (200, True), "the pages show the lake"
    assert {row["state"] for row in init(airflow)} == {"kept"}
