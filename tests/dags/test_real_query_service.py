"""A query service as a task of a real Airflow: it answers, follows the table, is not started twice, and is stopped."""

from __future__ import annotations

import pytest

from lakecore.service.remote_query import RemoteTableQuery, service_manager
from tests.dags.conftest import AirflowLake
from tests.support.lake import put

pytestmark = pytest.mark.slow

DAG = "lakecore_service"


def test_a_task_serves_a_table_until_it_is_stopped(airflow: AirflowLake) -> None:
    lake = airflow.catalog
    definition = {"columns": ["k BIGINT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    table = lake.create_table("served.t", definition)
    put(table, [{"k": 1, "v": "first"}])
    first = airflow.api.trigger(DAG, {"table": table.name})
    airflow.api.wait("the sensor", lambda: airflow.state_of(DAG, first, "answers") == "success", 120)
    with RemoteTableQuery(table) as remote:
        assert remote.lookup((), 0, (1,)) == {"k": 1, "v": "first"}
        put(table, [{"k": 1, "v": "second"}])
        airflow.api.wait("the refresh", lambda: remote.lookup((), 0, (1,)) == {"k": 1, "v": "second"}, 60)
    state, tasks = airflow.run(DAG, {"table": table.name})
    assert state == "success"
    assert {task["task_id"]: task["state"] for task in tasks} == {"serve": "skipped", "answers": "success"}
    path = f"/api/v2/dags/{DAG}/dagRuns/{first}/taskInstances/serve"
    airflow.api.call("PATCH", path, {"new_state": "failed"})
    airflow.api.wait("the addresses to go", lambda: service_manager(table).service() is None, 60)
    assert airflow.end_of(DAG, first) == "failed"
