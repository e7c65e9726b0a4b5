"""Users, privileges, drops, restores and names of tables, by the tasks of a real Airflow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.dags.conftest import GUARDED_PASSWORD, AirflowLake, rows
from tests.support.golden import View, golden_table

pytestmark = pytest.mark.slow

GOLDEN = "g1.a_pk_dedup_l0"


def test_users_privileges_drops_and_restores(airflow: AirflowLake) -> None:
    table = airflow.place(GOLDEN, "people")
    source = golden_table(GOLDEN)
    shutil.copytree(source.path, airflow.guarded / "safe.db" / source.table)
    guarded_table = f"safe.{source.table}"
    conf = {"table": table.name, "guarded_table": guarded_table}
    state, tasks = airflow.run("lakecore_people", conf)
    assert state == "success", [(task["task_id"], airflow.api.error(task)) for task in tasks]
    reports = {task["task_id"]: airflow.api.xcom(task) for task in tasks}
    assert reports["init"] == {"created": True}
    granted = {"user": "reader", "privilege": "SELECT", "on": guarded_table}
    assert reports["grant"] == granted
    assert reports["privileges"] == [granted]
    assert (reports["revoke"]["revoked"], reports["drop_user"]["dropped"]) == (1, True)
    assert reports["restore"]["table"] == table.name
    assert reports["rename"] == {"table": table.name, "new_name": f"{table.name}_2", "renamed": True}
    assert reports["drop_database"] == {"database": "people", "dropped": True}
    assert "people" not in airflow.catalog.list_databases()
    logs = [airflow.api.log(task) for task in tasks]
    assert GUARDED_PASSWORD not in json.dumps([tasks, reports, logs])

    catalog = airflow.catalog
    catalog.create_database("people")
    [dropped] = catalog.dropped_tables(f"{table.name}_2")
    back = catalog.restore_table(f"{table.name}_2", dropped.id)
    assert rows(back) == source.rows(View("rows.jsonl")), "nothing was lost"
    assert Path(back.path).is_relative_to(airflow.path)
