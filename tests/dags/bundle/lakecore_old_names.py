"""Imports only names of the package `operators`, as DAG files do that are older than `lakecore_airflow`."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param
from operators.tag_sensor import TagSensor
from operators.tags import DeleteTagOperator

with DAG(
    "lakecore_old_names",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"table": "{{ params.table }}", "tag": "eod", "tags": "eod"},
    params={"table": Param("", type="string")},
):
    TagSensor(task_id="wait", deferrable=True, poke_interval=1) >> DeleteTagOperator(task_id="delete")
