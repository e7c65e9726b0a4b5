"""DAGs of the shapes of `lakecore_nightly` whose tasks do nothing: what Airflow itself takes."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, task

START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("empty_tasks", schedule=None, start_date=START):

    @task
    def tables() -> list[int]:
        return list(range(8))

    @task(max_active_tis_per_dag=1)
    def compact(table: int) -> int:
        return table

    compact.expand(table=tables())

with DAG("empty_task", schedule=None, start_date=START):

    @task(task_id="compact")
    def compact_all() -> int:
        return 0

    compact_all()
