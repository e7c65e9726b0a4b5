"""Keeps the query service of a table alive, and waits until it answers."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from lakecore_airflow.operators.query_service import QueryServiceOperator, QueryServiceSensor

with DAG(
    "lakecore_service",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string")},
):
    QueryServiceOperator(task_id="serve", table="{{ params.table }}", interval=0.2)
    QueryServiceSensor(task_id="answers", table="{{ params.table }}", poke_interval=1, timeout=120)
