"""This module has the routes of the pages, and says who may see them.

Everybody who may see plugins may see the lake; the report of a run needs the right to read XComs of its DAG,
and an action the right to start runs of the DAG for actions. A page has no script, loads nothing from
outside, and is shown in a frame of the same origin only. The metrics have a token of their own, because a
scraper has no user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from lakecore_airflow.ui.actions import Actions, read_form
from lakecore_airflow.ui.airflow_actions import ACTION_DAG
from lakecore_airflow.ui.exports import Exports
from lakecore_airflow.ui.lake_data import LakeData
from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.pages import Pages
from lakecore_airflow.ui.prometheus import metrics_of
from lakecore_airflow.ui.run_page import RunPage
from lakecore_airflow.ui.what_if_page import WhatIfPage

__all__ = ["new_app"]

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)


def new_app() -> FastAPI:
    """Return the app, to be mounted below a prefix of the API server."""
    app = FastAPI(title="lakecore", docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(_with_headers)
    maker = PageMaker(LakeData())
    reader: dict[str, Any] = {
        "dependencies": [Depends(get_user), Depends(requires_access_view(AccessView.PLUGINS))]
    }
    _add_pages(app, maker, reader)
    _add_actions(app, maker, reader)
    exports = Exports(maker)
    app.get("/api/v1/history", **reader)(exports.history)
    app.get("/lake.csv", **reader)(exports.lake_csv)
    app.get("/lake.json", **reader)(exports.lake_json)

    def metrics(request: Request, session: SessionDep) -> Response:
        return metrics_of(maker, request, session)

    app.get("/metrics")(metrics)
    return app


def _add_pages(app: FastAPI, maker: PageMaker, reader: dict[str, Any]) -> None:
    pages, runs, actions = Pages(maker), RunPage(maker), Actions(maker)
    page = reader | {"response_class": HTMLResponse}

    def table(
        user: Annotated[Any, Depends(get_user)], session: SessionDep, name: str, conn: str = ""
    ) -> HTMLResponse:
        return pages.table(
            session, name, conn, lambda conn_id: actions.for_user(session, user, conn_id, name)
        )

    def quarantine(
        user: Annotated[Any, Depends(get_user)], session: SessionDep, conn: str = ""
    ) -> HTMLResponse:
        return pages.quarantine(session, conn, lambda conn_id: actions.for_user(session, user, conn_id))

    app.get("/", **page)(pages.lake)
    app.get("/history", **page)(pages.history)
    app.get("/window", **page)(pages.window)
    app.get("/table", **page)(table)
    app.get("/quarantine", **page)(quarantine)
    app.get("/what-if", **page)(WhatIfPage(maker).page)
    may_read = [*reader["dependencies"], Depends(requires_access_dag("GET", DagAccessEntity.XCOM))]
    run = page | {"dependencies": may_read}
    app.get("/runs/{dag_id}/{run_id:path}", **run)(runs.run)


def _add_actions(app: FastAPI, maker: PageMaker, reader: dict[str, Any]) -> None:
    actions = Actions(maker)

    def start(
        request: Request,
        form: Annotated[dict[str, str], Depends(read_form)],
        session: SessionDep,
        user: Annotated[Any, Depends(get_user)],
    ) -> Response:
        return actions.start(request, form, session, user)

    def action_page(
        session: SessionDep, user: Annotated[Any, Depends(get_user)], run_id: str, conn: str = ""
    ) -> HTMLResponse:
        return actions.page(session, user, run_id, conn)

    may_act = requires_access_dag("POST", DagAccessEntity.RUN, ACTION_DAG)
    may_read = requires_access_dag("GET", DagAccessEntity.XCOM, ACTION_DAG)
    both = reader["dependencies"]
    app.post("/actions", dependencies=[*both, Depends(may_act)], response_class=HTMLResponse)(start)
    app.get("/actions/{run_id}", dependencies=[*both, Depends(may_read)], response_class=HTMLResponse)(
        action_page
    )


async def _with_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    response: Response = await call_next(request)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response
