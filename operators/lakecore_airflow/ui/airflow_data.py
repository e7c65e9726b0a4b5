"""This module reads Airflow's database for the pages: connections of lakes, and reports of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "MOST_TASKS",
    "WindowDag",
    "lake_connections",
    "param_default",
    "progress_of",
    "reports_of_run",
    "window_dag",
]

MOST_TASKS = 5_000
"""A run with more tasks shows the first ones."""
_KEYS = ("report", "refused", "return_value")
"""The XComs that have a report: of a task that failed, of one that was skipped, of one that ended well."""


@dataclass(frozen=True, slots=True)
class WindowDag:
    """This is what Airflow knows of the DAG that works in windows."""

    dag_id: str
    exists: bool = False
    is_paused: bool = False
    next_ms: int | None = None
    """Its next run is started then; None without a schedule, or while it is paused."""
    running_ms: int | None = None
    """The run that is running began then; None if none is."""
    run_id: str | None = None
    """This is the id of the run that is running."""
    until: str = ""
    """This is the end of the window of the run that is running, or else of the next one."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """These are the params of that run."""


def window_dag(session: Any, dag_id: str) -> WindowDag:
    """Return what Airflow knows of a DAG with a param `until`."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import select

    model = DagModel.get_current(dag_id, session=session)
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    if model is None or dag is None or model.is_stale:
        return WindowDag(dag_id)
    running = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.state == "running")
    run = session.scalar(running.order_by(DagRun.start_date).limit(1))
    params = {**dag.params.dump(), **((run.conf or {}) if run is not None else {})}
    return WindowDag(
        dag_id,
        exists=True,
        is_paused=bool(model.is_paused),
        next_ms=None if model.is_paused else _millis(model.next_dagrun_create_after),
        running_ms=_millis(run.start_date) if run is not None else None,
        run_id=str(run.run_id) if run is not None else None,
        until=str(params.get("until") or ""),
        params=params,
    )


def param_default(session: Any, dag_id: str, name: str) -> Any:
    """Return the default of a param of a DAG, as the DAG processor stored it; None where there is none."""
    from airflow.models.serialized_dag import SerializedDagModel

    dag = SerializedDagModel.get_dag(dag_id, session=session)
    return None if dag is None else dag.params.dump().get(name)


def _millis(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def lake_connections(session: Any) -> list[str]:
    """Return the ids of the connections of type `lakecore` in the database, in order. Connections of the
    environment and of secrets backends cannot be listed.
    """
    from airflow.models.connection import Connection
    from sqlalchemy import select

    ids = session.scalars(select(Connection.conn_id).where(Connection.conn_type == "lakecore"))
    return sorted(str(conn_id) for conn_id in ids)


def reports_of_run(
    session: Any, dag_id: str, run_id: str, task_id: str | None = None, map_index: int | None = None
) -> list[dict[str, Any]]:
    """Return the tasks of a run, or one of them, each with its report where it has one."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    def of_run(model: Any) -> list[Any]:
        chosen = [model.dag_id == dag_id, model.run_id == run_id]
        chosen += [model.task_id == task_id] if task_id is not None else []
        chosen += [model.map_index == map_index] if map_index is not None else []
        return chosen

    reports: dict[tuple[str, int], Any] = {}
    xcoms = select(XComModel).where(*of_run(XComModel), XComModel.key.in_(_KEYS))
    for xcom in session.scalars(xcoms.limit(2 * MOST_TASKS)):
        report = _report(xcom.key, xcom.value)
        if report is not None:
            reports.setdefault((xcom.task_id, xcom.map_index), report)
    tasks = select(TaskInstance).where(*of_run(TaskInstance)).limit(MOST_TASKS)
    return [
        {
            "task_id": one.task_id,
            "map_index": one.map_index,
            "name": getattr(one, "rendered_map_index", None) or one.task_id,
            "state": str(one.state or "none"),
            "start": one.start_date,
            "end": one.end_date,
            "try_number": one.try_number,
            "report": reports.get((one.task_id, one.map_index)),
        }
        for one in session.scalars(tasks)
    ]


def progress_of(
    session: Any, dag_id: str, run_id: str, task_id: str, map_index: int
) -> Mapping[str, Any] | None:
    """Return the progress that a running task has stored, or the trigger of a deferred one, with
    `updated_at`; None without one. An Airflow before 3.3 stores no state of tasks.
    """
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    from lakecore_airflow.tasks.progress import PROGRESS_KEY

    models: list[tuple[Any, str]] = [(XComModel, "timestamp")]
    with suppress(ImportError):
        from airflow.models.task_state_store import TaskStateStoreModel

        models.insert(0, (TaskStateStoreModel, "updated_at"))
    for model, time_of_change in models:
        place = (model.dag_id == dag_id, model.run_id == run_id, model.task_id == task_id)
        query = select(model).where(*place, model.map_index == map_index, model.key == PROGRESS_KEY)
        row = session.scalar(query)
        value = None if row is None else row.value
        if isinstance(value, str):
            with suppress(ValueError):
                value = json.loads(value)
        if isinstance(value, Mapping):
            return {**value, "updated_at": getattr(row, time_of_change)}
    return None


def _report(key: str, value: Any) -> Mapping[str, Any] | None:
    """Return the report that an XCom has, or None; XComs of other operators have none."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if key == "refused" and isinstance(value, str):
        return {"job": "", "skipped": value}
    is_report = isinstance(value, Mapping) and (
        "nothing_to_do" in value or isinstance(value.get("job"), str) or isinstance(value.get("done"), list)
    )
    return value if is_report else None
