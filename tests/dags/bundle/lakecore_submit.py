"""A compaction on a driver that spark-submit starts, while the task is deferred."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from lakecore_airflow.operators.compact import CompactTableOperator

with DAG(
    "lakecore_submit",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string")},
):
    CompactTableOperator(
        task_id="compact",
        table="{{ params.table }}",
        strategy="full",
        engine="submit",
        submit={"poke_interval": 2},
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
