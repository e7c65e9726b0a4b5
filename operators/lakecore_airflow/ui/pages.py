"""This module has the handlers of the pages of a lake: its tables, one table, attempts, the window, the
quarantine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse

from lakecore_airflow.settings import dag_id_of
from lakecore_airflow.ui.airflow_data import window_dag
from lakecore_airflow.ui.history_view import HistoryQuery, history_view
from lakecore_airflow.ui.lake_data import TableDetails
from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.policy_view import policy_of
from lakecore_airflow.ui.views import LakeQuery, lake_view
from lakecore_airflow.ui.window_use import days_of_run, run_use
from lakecore_airflow.ui.window_view import next_window, window_view
from lakecore_airflow.ui.words import DAY_MS

__all__ = ["Pages"]

_TABLE_DAYS = 14
_QUARANTINE_MS = 7 * DAY_MS
"""A purge without another request deletes what is older."""


class Pages:
    """It has the handlers, which share what was read."""

    def __init__(self, maker: PageMaker) -> None:
        self._maker = maker
        self._data = maker.data

    def lake(self, request: Request, session: SessionDep, conn: str = "") -> HTMLResponse:
        """Show all tables of a lake."""
        conn_id, connections = self._maker.connection(session, conn)
        state = self._data.survey(conn_id)
        query = LakeQuery.of(dict(request.query_params))
        prices = self._data.prices(conn_id)
        view = lake_view(state.survey, query, prices) if state.survey is not None else None
        return self._maker.html(
            "lake.html",
            conn=conn_id,
            connections=connections,
            here="./",
            survey=state.survey,
            problem=state.problem,
            view=view,
        )

    def table(
        self, session: Any, name: str, conn: str, buttons: Callable[[str], dict[str, Any]]
    ) -> HTMLResponse:
        """Show one table."""
        conn_id, connections = self._maker.connection(session, conn)
        state = self._data.survey(conn_id)
        records = state.survey.tables if state.survey is not None else ()
        record = next((one for one in records if one.table == name), None)
        details = self._data.details(conn_id, name, record.figures.files if record is not None else 0)
        if record is None and not isinstance(details, TableDetails):
            raise HTTPException(404, f"{conn_id} has no table of this name, or it cannot be read: {details}")
        attempts = self._data.attempts(conn_id, _TABLE_DAYS)
        own = [one for one in attempts.value.attempts if one.table == name] if attempts.value else []
        prices = self._data.prices(conn_id)
        read = details if isinstance(details, TableDetails) else None
        problems = read.problems if read is not None else (str(details),)
        return self._maker.html(
            "table.html",
            conn=conn_id,
            connections=connections,
            name=name,
            record=record,
            details=read,
            problems=[*problems, *([attempts.problem] if attempts.problem else [])],
            survey=state.survey,
            history=history_view(own, HistoryQuery(days=_TABLE_DAYS), prices, _day_of),
            attempts_ms=attempts.read_ms,
            marks=_marks(own),
            quarantined=_quarantine_size(read),
            policy=policy_of(session, dag_id_of("maintenance", conn_id), name),
            currency=prices.currency,
            **buttons(conn_id),
        )

    def history(self, request: Request, session: SessionDep, conn: str = "") -> HTMLResponse:
        """Show all attempts of the last days."""
        conn_id, connections = self._maker.connection(session, conn)
        query = HistoryQuery.of(dict(request.query_params))
        answer = self._data.attempts(conn_id, query.days)
        prices = self._data.prices(conn_id)
        read = answer.value
        return self._maker.html(
            "history.html",
            conn=conn_id,
            connections=connections,
            here="history",
            problem=answer.problem,
            read_ms=answer.read_ms,
            damaged=read.damaged if read is not None else 0,
            view=history_view(read.attempts, query, prices, _day_of) if read is not None else None,
            currency=prices.currency,
        )

    def window(self, session: SessionDep, conn: str = "") -> HTMLResponse:
        """Show the plan of the next window, and what earlier ones left."""
        conn_id, connections = self._maker.connection(session, conn)
        state = self._data.survey(conn_id)
        dag = window_dag(session, dag_id_of("nightly", conn_id))
        now_ms = self._data.now_ms()
        window = next_window(dag, now_ms)
        prices = self._data.prices(conn_id)
        ledger = self._data.attempts(conn_id, days_of_run(dag.running_ms, now_ms))
        attempts = ledger.value.attempts if ledger.value is not None else ()
        used = run_use(attempts, dag.dag_id, dag.run_id, now_ms)
        return self._maker.html(
            "window.html",
            conn=conn_id,
            connections=connections,
            here="window",
            survey=state.survey,
            problem=state.problem,
            ledger_problem=ledger.problem,
            dag=dag,
            view=window_view(state.survey, window, dag.params, prices, used)
            if state.survey is not None
            else None,
            currency=prices.currency,
        )

    def quarantine(self, session: Any, conn: str, buttons: Callable[[str], dict[str, Any]]) -> HTMLResponse:
        """Show the runs whose files are in the quarantine."""
        conn_id, connections = self._maker.connection(session, conn)
        answer = self._data.quarantine(conn_id)
        return self._maker.html(
            "quarantine.html",
            conn=conn_id,
            connections=connections,
            here="quarantine",
            problem=answer.problem,
            read_ms=answer.read_ms,
            quarantine=answer.value,
            ttl_ms=_QUARANTINE_MS,
            prices=self._data.prices(conn_id),
            **buttons(conn_id),
        )


def _day_of(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%d")


def _marks(attempts: list[Any]) -> dict[int, str]:
    """Return by day which jobs changed the table."""
    jobs: dict[int, dict[str, None]] = {}
    for one in attempts:
        if one.state.value == "done" and one.job not in ("fsck", "why"):
            jobs.setdefault(one.started_ms // DAY_MS, {})[one.job] = None
    return {day: ", ".join(names) for day, names in jobs.items()}


def _quarantine_size(details: TableDetails | None) -> int:
    runs = details.runs if details is not None else ()
    return sum(int(run["outcome"].get("bytes") or 0) for run in runs if run["state"] == "quarantined")
