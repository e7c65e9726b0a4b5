"""This module helps to test tasks without an Airflow that runs: it has a lake in memory with its connection,
and the context that a task gets.

    with memory_lake() as catalog:
        catalog.create_table("shop.orders", definition).append(rows)
        report = CreateTagOperator(task_id="tag", table="shop.orders", tag="eod").execute(task_context())

The lake is the real one: tables are written, committed and checked as on storage, in this process only. Tasks
on Spark, whose executors are processes of their own, need a directory (`lake_connection`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog

__all__ = ["DagRunForTest", "TaskInstanceForTest", "lake_connection", "memory_lake", "task_context"]


@dataclass(slots=True)
class DagRunForTest:
    """It has what operators of lakecore read of a DAG run."""

    run_id: str
    run_after: datetime
    logical_date: datetime | None = None
    start_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    run_type: str = "manual"


@dataclass(slots=True)
class TaskInstanceForTest:
    """It has what operators of lakecore read of a task instance. Pushed XComs are in `xcoms`."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    try_number: int = 1
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


@contextmanager
def lake_connection(
    warehouse: str, *, conn_id: str = "lake_default", extra: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Let a connection of the environment name a warehouse, a directory for example, until the block ends.

    `extra`: other fields of the connection, such as `spark_master`.
    """
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    before = os.environ.get(variable)
    fields = {"conn_type": "lakecore", "host": str(warehouse), "extra": dict(extra or {})}
    os.environ[variable] = json.dumps(fields)
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


@contextmanager
def memory_lake(conn_id: str = "lake_default") -> Iterator[Catalog]:
    """Yield the catalog of an empty lake in memory, which the connection names. It ends with the block."""
    from lakecore.catalog.registry import load_catalog
    from lakecore.clock import SystemClock
    from lakecore.fs.memory import MemoryFileIO

    name = f"lake-{SystemClock().fresh_id()}"
    try:
        with lake_connection(f"memory://{name}/lake", conn_id=conn_id):
            yield load_catalog(f"memory://{name}/lake", create_warehouse=True)
    finally:
        MemoryFileIO(name).clear()


def task_context(
    run_id: str = "run",
    *,
    dag_id: str = "dag",
    task_id: str = "task",
    run_after: datetime | None = None,
    logical_date: datetime | None = None,
    params: Mapping[str, Any] | None = None,
) -> Context:
    """Return the context of a task in a run of a DAG. Tasks with the same ids are tries of one task, and
    the second one finds its work done.

    `run_after`: when the run was due; None: at the logical date, or now. The context has `ti`, `dag_run`,
    `run_id`, `logical_date`, `params` and `outlet_events`, which has the events of outlets.
    """
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from lakecore.clock import SystemClock

    due = run_after or logical_date or datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    ti = TaskInstanceForTest(dag_id, task_id, run_id)
    values: dict[str, Any] = {
        "ti": ti,
        "task_instance": ti,
        "dag_run": DagRunForTest(run_id, due, logical_date),
        "run_id": run_id,
        "logical_date": logical_date,
        "params": dict(params or {}),
        "outlet_events": OutletEventAccessors(),
    }
    return cast("Context", values)
