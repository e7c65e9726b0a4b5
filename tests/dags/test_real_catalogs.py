"""A JDBC catalog on PostgreSQL, whose connection a person makes in a real Airflow; Java's JdbcCatalog reads the result."""

from __future__ import annotations

import json
from contextlib import closing

import pyarrow as pa
import pytest

from lakecore.catalog.registry import load_catalog
from tests.dags.conftest import AirflowLake
from tests.support.oracle import Oracle, findings
from tests.support.postgres import PASSWORD, postgres_server

pytestmark = pytest.mark.slow

ROWS = [{"k": 0, "v": "0"}, {"k": 1, "v": "1"}, {"k": 2, "v": "2"}, {"k": 3, "v": "2"}]


def test_chores_drops_and_renames_through_a_jdbc_catalog(airflow: AirflowLake, oracle2: Oracle) -> None:
    lake = airflow.path.parent / "of_database"
    lake.mkdir()
    with postgres_server() as server:
        options = {
            "metastore": "jdbc",
            "uri": server.fresh("names"),
            "jdbc.user": "lake",
            "jdbc.password": PASSWORD,
            "lock.enabled": "true",
        }
        fields = {
            "metastore": "jdbc",
            "catalog_uri": options["uri"],
            "catalog_lock": "true",
            "jdbc_user": "lake",
            "jdbc_password": PASSWORD,
        }
        connection = {
            "connection_id": "of_database",
            "conn_type": "lakecore",
            "host": str(lake),
            "extra": json.dumps(fields),
        }
        tested = airflow.api.call("POST", "/api/v2/connections/test", connection)
        assert (tested["status"], "is reachable" in tested["message"]) == (True, True)
        wrong = connection | {"extra": json.dumps(fields | {"jdbc_password": "hush"})}
        tested = airflow.api.call("POST", "/api/v2/connections/test", wrong)
        assert (tested["status"], "authentication failed" in tested["message"]) == (False, True)
        assert "hush" not in json.dumps(tested)
        airflow.api.call("POST", "/api/v2/connections", connection)

        with closing(load_catalog(lake, **options)) as catalog:
            catalog.create_database("shop")
            definition = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"]}
            table = catalog.create_table("shop.orders", {**definition, "options": {"bucket": "1"}})
            for number in range(3):
                keys = pa.array([number, number + 1], pa.int32())
                table.upsert(pa.table({"k": keys, "v": [f"{number}"] * 2}))
        conf = {"table": "shop.orders", "connection": "of_database"}
        state, tasks = airflow.run("lakecore_of_database", conf)
        assert state == "success", [(task["task_id"], airflow.api.error(task)) for task in tasks]
        reports = {task["task_id"]: airflow.api.xcom(task) for task in tasks}
        assert reports["rename"] == {"table": "shop.orders", "new_name": "shop.orders_2", "renamed": True}
        logs = [airflow.api.log(task) for task in tasks]
        assert PASSWORD not in json.dumps([tasks, reports, logs])

        java = "|".join([str(lake), *(f"{key}={value}" for key, value in options.items())])
        assert [json.loads(line) for line in oracle2.read(java, "shop.orders_2")] == ROWS
        assert findings(oracle2.fsck(java, "shop.orders_2")) == set()
        with closing(load_catalog(lake, **options)) as catalog:
            assert catalog.list_tables("shop") == ["orders_2"]
            assert len(list(catalog.load_table("shop.orders_2").snapshots())) == 1
