"""DAGs of compactions whose units have written their files and do not return for minutes: tests kill them then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from airflow.sdk import DAG, Param

from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from tests.support.slow_units import SlowExecutor

__all__ = ["compaction_dag", "follow_dag"]

_START = datetime(2026, 1, 1, tzinfo=UTC)
_SLOW = {"seconds": "120", "first_try_only": "no"}


def compaction_dag(name: str, *, first_try_only: bool, retries: int) -> DAG:
    """A DAG with the task `compact`, for a run's `table`, `engine`, `master` and `seconds`."""
    params = _params("table", "master", engine="local")
    with DAG(name, schedule=None, start_date=_START, params=params) as dag:
        SlowCompact(
            task_id="compact",
            first_try_only="yes" if first_try_only else "no",
            seconds="{{ params.seconds }}",
            table="{{ params.table }}",
            strategy="full",
            engine="{{ params.engine }}",
            master="{{ params.master }}",
            spark_conf=_executors_find_tests(),
            retries=retries,
            retry_delay=timedelta(seconds=5),
        )
    return dag


def follow_dag(name: str) -> DAG:
    """A DAG with the task `follow`, a dedicated compaction of a run's `tables` on Spark: a streaming query where the
    run has a `checkpoint`. Its units are slow in the first try.
    """
    params = _params("tables", "checkpoint", "master", run_for="24 h")
    with DAG(name, schedule=None, start_date=_START, params=params) as dag:
        SlowFollow(
            task_id="follow",
            first_try_only="yes",
            seconds="{{ params.seconds }}",
            including_tables="{{ params.tables }}",
            checkpoint="{{ params.checkpoint }}",
            strategy="full",
            engine="spark",
            master="{{ params.master }}",
            spark_conf=_executors_find_tests(),
            interval=0.5,
            run_for="{{ params.run_for }}",
            retries=0,
        )
    return dag


class SlowCompact(CompactTableOperator):
    """Compacts with slow units."""

    settings: ClassVar[Mapping[str, Any]] = {**CompactTableOperator.settings, **_SLOW}

    def execute(self, context: Any) -> dict[str, Any]:
        slow_down(self, context)
        return super().execute(context)


class SlowFollow(DedicatedCompactionOperator):
    """Follows tables with slow units."""

    settings: ClassVar[Mapping[str, Any]] = {**DedicatedCompactionOperator.settings, **_SLOW}

    def execute(self, context: Any) -> dict[str, Any]:
        slow_down(self, context)
        return super().execute(context)


def slow_down(task: Any, context: Any) -> None:
    """Make the units of every executor of this process slow; a task has its process to itself."""
    from lakecore.executor import SerialExecutor
    from lakecore.spark.executor import SparkExecutor

    if context["ti"].try_number > 1 and task.first_try_only == "yes":
        return
    for kind in (SerialExecutor, SparkExecutor):

        def slowly(self: Any, function: Any, tasks: Any, run: Any = kind.run) -> Any:
            return SlowExecutor(_Bound(run, self), float(task.seconds)).run(function, tasks)

        kind.run = slowly  # type: ignore[method-assign]


class _Bound:
    """An executor whose `run` is the one before it was made slow."""

    def __init__(self, run: Any, executor: Any) -> None:
        self._run, self._executor = run, executor

    def run(self, function: Any, tasks: Any) -> Any:
        return self._run(self._executor, function, tasks)


def _params(*empty: str, **values: str) -> dict[str, Param]:
    texts = dict.fromkeys(empty, "") | values
    return {
        "seconds": Param(120, type="number"),
        **{name: Param(text, type="string") for name, text in texts.items()},
    }


def _executors_find_tests() -> dict[str, str]:
    return {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
