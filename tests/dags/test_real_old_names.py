"""A DAG file with names of the package `operators` in a real Airflow: it is parsed, deferred, woken and run."""

from __future__ import annotations

import pytest

from lakecore.jobs.versions import tags
from tests.dags.conftest import AirflowLake

pytestmark = pytest.mark.slow

DAG = "lakecore_old_names"


def test_a_dag_with_old_names_waits_and_works(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_l0", "old_names")
    run_id = airflow.api.trigger(DAG, {"table": table.name})
    airflow.api.wait("deferral", lambda: airflow.state_of(DAG, run_id, "wait") == "deferred", 90)
    tags.run(tags.CreateTag(table=table.name, tag="eod"), airflow.catalog)
    assert airflow.end_of(DAG, run_id) == "success"
    assert "eod" not in list(table.tags()), "other DAGs tag days"
    delete = next(task for task in airflow.api.tasks(DAG, run_id) if task["task_id"] == "delete")
    assert airflow.api.xcom(delete)["names"] == ["eod"]
    assert delete["operator"] == "DeleteTagOperator"
