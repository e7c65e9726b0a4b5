"""A compaction that is killed by hand: its units have written their files and do not return for minutes."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Param

from lakecore_airflow.operators.compact import CompactTableOperator


class SlowCompact(CompactTableOperator):
    """Compacts on a slow executor."""

    def _make_executor(self, hook: Any, ends: ExitStack) -> Any:
        from tests.support.slow_units import SlowExecutor

        return SlowExecutor(super()._make_executor(hook, ends))


with DAG(
    "lakecore_slow",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string"), "engine": Param("local", type="string")},
):
    SlowCompact(
        task_id="compact",
        table="{{ params.table }}",
        strategy="full",
        engine="{{ params.engine }}",
        retries=0,
    )
