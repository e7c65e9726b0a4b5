"""This module has the routes of the pages, and says who may see them.

Everybody who may see plugins may see the lake; the report of a run needs the right to read XComs of its DAG.
A page has no script, loads nothing from outside, and is shown in a frame of the same origin only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import DictLoader, Environment, StrictUndefined, select_autoescape

from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.ui.airflow_data import MOST_TASKS, lake_connections, reports_of_run
from lakecore_airflow.ui.charts import history_chart, level_picture, score_line
from lakecore_airflow.ui.lake_data import LakeData, TableDetails
from lakecore_airflow.ui.views import LakeQuery, age_text, lake_view, run_view, size_text, time_text

__all__ = ["new_app"]

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
_DRAWINGS = {"score_line": score_line, "history_chart": history_chart, "level_picture": level_picture}


def new_app() -> FastAPI:
    """Return the app, to be mounted below a prefix of the API server."""
    app = FastAPI(
        title="lakecore",
        dependencies=[Depends(get_user), Depends(requires_access_view(AccessView.PLUGINS))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    pages = _Pages(LakeData())
    app.middleware("http")(_with_headers)
    page: dict[str, Any] = {"response_class": HTMLResponse}
    app.get("/", **page)(pages.lake)
    app.get("/table", **page)(pages.table)
    may_read = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
    app.get("/runs/{dag_id}/{run_id:path}", dependencies=[may_read], **page)(pages.run)
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    response: Response = await call_next(request)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response


class _Pages:
    """The handlers, which share what was read."""

    def __init__(self, data: LakeData) -> None:
        self._data = data
        self._templates = _templates()

    def lake(self, request: Request, session: SessionDep, conn: str = "") -> HTMLResponse:
        """Show all tables of a lake."""
        conn_id, connections = self._connection(session, conn)
        state = self._data.survey(conn_id)
        query = LakeQuery.of(dict(request.query_params))
        return self._html(
            "lake.html",
            conn=conn_id,
            connections=connections,
            survey=state.survey,
            problem=state.problem,
            view=lake_view(state.survey, query) if state.survey is not None else None,
        )

    def table(self, session: SessionDep, name: Annotated[str, Query()], conn: str = "") -> HTMLResponse:
        """Show one table."""
        conn_id, connections = self._connection(session, conn)
        state = self._data.survey(conn_id)
        records = state.survey.tables if state.survey is not None else ()
        record = next((one for one in records if one.table == name), None)
        details = self._data.details(conn_id, name, record.figures.files if record is not None else 0)
        if record is None and not isinstance(details, TableDetails):
            raise HTTPException(404, f"{conn_id} has no table of this name, or it cannot be read: {details}")
        return self._html(
            "table.html",
            conn=conn_id,
            connections=connections,
            name=name,
            record=record,
            details=details if isinstance(details, TableDetails) else None,
            problems=details.problems if isinstance(details, TableDetails) else (details,),
            survey=state.survey,
        )

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
        return self._html(
            "run.html", dag_id=dag_id, run_id=run_id, task_id=task_id, lines=lines, most=MOST_TASKS
        )

    def _connection(self, session: Any, requested: str) -> tuple[str, list[str]]:
        """Return the connection of a page, and those to choose from. Another connection than one of a lake
        does not exist for a page.
        """
        connections = lake_connections(session)
        conn_id = requested or LakeHook.default_conn_name
        if not requested and connections and conn_id not in connections and not _is_lake(conn_id):
            conn_id = connections[0]
        if conn_id not in connections:
            if not _is_lake(conn_id):
                raise HTTPException(404, "there is no connection of type lakecore with this id")
            connections = sorted({conn_id, *connections})
        return conn_id, connections

    def _html(self, template: str, **values: Any) -> HTMLResponse:
        now = self._data.now_ms()
        return HTMLResponse(self._templates.get_template(template).render(now_ms=now, **values))


def _is_lake(conn_id: str) -> bool:
    try:
        return str(LakeHook.get_connection(conn_id).conn_type) == LakeHook.conn_type
    except Exception:  # noqa: BLE001 - what cannot be found, whatever the backend says, is none
        return False


def _templates() -> Environment:
    folder = resources.files("lakecore_airflow.ui") / "templates"
    texts = {
        one.name: one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".html")
    }
    environment = Environment(
        loader=DictLoader(texts), autoescape=select_autoescape(default=True), undefined=StrictUndefined
    )
    environment.globals |= _DRAWINGS
    environment.filters |= {"size": size_text, "time": time_text, "age": age_text}
    return environment
