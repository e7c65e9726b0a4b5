"""A dedicated compaction as a streaming query; in the first try of its task the units do not return for minutes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Param

from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator


class SlowFollow(DedicatedCompactionOperator):
    """Follows with slow units."""

    def execute(self, context: Any) -> dict[str, Any]:
        if context["ti"].try_number == 1:
            from lakecore.spark.executor import SparkExecutor
            from tests.support.slow_units import SlowExecutor

            run = SparkExecutor.run

            def slowly(self: Any, function: Any, tasks: Any) -> Any:
                return SlowExecutor(_Bound(run, self)).run(function, tasks)

            SparkExecutor.run = slowly  # type: ignore[assignment,method-assign]
        return super().execute(context)


class _Bound:
    def __init__(self, run: Any, executor: Any) -> None:
        self._run, self._executor = run, executor

    def run(self, function: Any, tasks: Any) -> Any:
        return self._run(self._executor, function, tasks)


with DAG(
    "celery_query",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"tables": Param("", type="string"), "checkpoint": Param("", type="string")},
):
    SlowFollow(
        task_id="follow",
        including_tables="{{ params.tables }}",
        checkpoint="{{ params.checkpoint }}",
        strategy="full",
        engine="spark",
        master="local[1]",
        interval=0.5,
        retries=0,
    )
