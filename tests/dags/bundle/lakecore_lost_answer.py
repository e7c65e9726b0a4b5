"""A compaction whose worker dies after its commit, on the first try. Its lineage is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.sdk import DAG, Context, Param

from lakecore_airflow.operators.compact import CompactTableOperator


class LosesItsFirstAnswer(CompactTableOperator):
    """Commits, and on the first try fails before anybody hears of it."""

    def execute(self, context: Context) -> dict[str, Any]:
        report = super().execute(context)
        if context["ti"].try_number == 1:
            raise RuntimeError("the worker was lost after its commit")
        return report


with DAG(
    "lakecore_lost_answer",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string")},
) as dag:
    LosesItsFirstAnswer(
        task_id="compact",
        table="{{ params.table }}",
        strategy="full",
        engine="local",
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
enable_lineage(dag)
