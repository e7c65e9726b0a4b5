"""A compaction whose units take minutes on the first try, so that its worker can be killed in the middle."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Context, Param

from lakecore_airflow.operators.compact import CompactTableOperator


class SlowAtFirst(CompactTableOperator):
    """Compacts; the units of the first try have written their files and do not return for minutes."""

    def execute(self, context: Context) -> dict[str, Any]:
        self._first = context["ti"].try_number == 1
        return super().execute(context)

    def _make_executor(self, hook: Any, ends: ExitStack) -> Any:
        from tests.support.slow_units import SlowExecutor

        executor = super()._make_executor(hook, ends)
        return SlowExecutor(executor) if self._first else executor


with DAG(
    "celery_kill",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string"), "engine": Param("local", type="string")},
):
    SlowAtFirst(
        task_id="compact",
        table="{{ params.table }}",
        strategy="full",
        engine="{{ params.engine }}",
        retries=2,
        retry_delay=timedelta(seconds=5),
    )
