"""This module has the handler of the tabs of a DAG run and of a task: what was done to which table."""

from __future__ import annotations

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi.responses import HTMLResponse

from lakecore_airflow.ui.airflow_data import MOST_TASKS, progress_of, reports_of_run
from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.run_view import run_matrix, run_sums, run_view

__all__ = ["RunPage"]


class RunPage:
    """It has the handler."""

    def __init__(self, maker: PageMaker) -> None:
        self._maker = maker

    def run(
        self, session: SessionDep, dag_id: str, run_id: str, map_index: str | None = None
    ) -> HTMLResponse:
        """Show the reports of a run, or of one task: the last part of the path after the id of the run."""
        tasks = reports_of_run(session, dag_id, run_id)
        task_id = None
        if not tasks and "/" in run_id:
            run_id, _, task_id = run_id.rpartition("/")
            index = int(map_index) if map_index is not None and map_index.lstrip("-").isdigit() else None
            tasks = reports_of_run(session, dag_id, run_id, task_id, index)
        lines = run_view(tasks)
        progress = None
        if task_id is not None and len(lines) == 1 and lines[0]["state"] in ("running", "deferred"):
            progress = progress_of(session, dag_id, run_id, task_id, lines[0]["map_index"])
        return self._maker.html(
            "run.html",
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            lines=lines,
            most=MOST_TASKS,
            matrix=run_matrix(lines),
            sums=run_sums(lines),
            progress=progress,
        )
