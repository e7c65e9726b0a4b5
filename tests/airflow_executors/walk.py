"""What the steps of a run share: the running Airflow, its lakes, and how a run of a DAG is started and awaited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.airflow_executors.components import CELERY, ServicesOfAirflow
from tests.airflow_executors.lakes import Lake
from tests.support.spark_cluster import Cluster
from tools.airflow_api import ENDED

__all__ = ["SLOW", "Walk"]

SLOW = "slow_compaction"
"""The DAG whose units take minutes in the first try (bundle/slow_compaction.py)."""
_END_S = 900.0


class Walk:
    """A running Airflow with its lakes, and with LocalExecutor a cluster of Spark."""

    def __init__(self, airflow: ServicesOfAirflow, lake: Lake, unknown: Path, spark: Cluster | None) -> None:
        self.airflow = airflow
        self.api = airflow.api
        self.lake = lake
        self.unknown = unknown
        self.spark = spark
        self._worker = 0

    def output_of(self, dag: str, run_id: str, table: str, before: set[str]) -> None:
        """Wait until a unit of the slow compaction has written a file. Raises AssertionError if the run ends before."""

        def written() -> bool:
            if self.api.run_state(dag, run_id) in ENDED:
                [task] = self.api.tasks(dag, run_id)
                raise AssertionError(f"the compaction ended: {self.api.error(task)}")
            return bool(self.lake.data_files(table) - before)

        self.api.wait("a unit's output", written, 240)

    def new_runner(self) -> None:
        """Start what runs the tasks: a new worker of Celery, or the scheduler again."""
        if self.airflow.executor == CELERY:
            self._worker += 1
            self.airflow.start_worker(self.runner)
        else:
            self.airflow.start("scheduler")

    @property
    def runner(self) -> str:
        """The component whose processes run the tasks."""
        return f"worker-{self._worker}" if self.airflow.executor == CELERY else "scheduler"

    def start(self, dag: str, conf: Mapping[str, Any]) -> str:
        self.api.wait(dag, lambda: self.api.has_dag(dag), 120)
        self.api.unpause(dag)
        return self.api.trigger(dag, conf)

    def end(self, dag: str, run_id: str) -> tuple[str, list[dict[str, Any]]]:
        self.api.wait(f"the end of {dag}", lambda: self.api.run_state(dag, run_id) in ENDED, _END_S)
        return self.api.run_state(dag, run_id), self.api.tasks(dag, run_id)

    def run(self, dag: str, conf: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A run that must end well; its tasks."""
        state, tasks = self.end(dag, self.start(dag, conf))
        errors = {task["task_id"]: self.api.error(task) for task in tasks if task["state"] == "failed"}
        assert state == "success", f"{dag} ended as {state}: {errors}"
        return tasks

    def states(self, tasks: list[dict[str, Any]]) -> dict[str, str]:
        """The state of each mapped task by its table."""
        return {
            str(task["rendered_map_index"]).partition(" · ")[0]: task["state"]
            for task in tasks
            if task["map_index"] >= 0
        }

    def counts(self, tasks: list[dict[str, Any]]) -> dict[str, int]:
        return dict(Counter(str(task["state"]) for task in tasks))
