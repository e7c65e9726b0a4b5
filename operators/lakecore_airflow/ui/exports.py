"""This module gives what the pages show to programs: the tables of a lake as CSV and JSON, attempts as lines
of JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import HTTPException, Request, Response

from lakecore_airflow.ui.history_view import attempt_line
from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.views import LakeQuery, lake_records
from lakecore_airflow.ui.words import DAY_MS

__all__ = ["Exports"]

_COLUMNS = ("table", "state", "score", "due_in_days", "expected_seconds", "surveyed_ms", "reasons")
_FIGURES = (
    "files",
    "bytes",
    "rows",
    "sorted_runs",
    "small_files",
    "snapshots",
    "history_bytes",
    "snapshot_ms",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MOST_DAYS = 400


class Exports:
    """It has the handlers."""

    def __init__(self, maker: PageMaker) -> None:
        self._maker = maker

    def history(self, session: SessionDep, conn: str = "", since: str = "") -> Response:
        """Return the attempts since a moment, the oldest first: a date and time, or milliseconds."""
        from lakecore.errors import InvalidInputError
        from lakecore.jobs.runner.moment import parse_moment

        conn_id, _ = self._maker.connection(session, conn)
        now_ms = self._maker.data.now_ms()
        try:
            since_ms = parse_moment(since, "since") if since else now_ms - DAY_MS
        except InvalidInputError as err:
            raise HTTPException(400, str(err)) from None
        days = min(_MOST_DAYS, max(1, -(-(now_ms - since_ms) // DAY_MS)))
        answer = self._maker.data.attempts(conn_id, days)
        if answer.value is None or answer.problem:
            raise HTTPException(503, answer.problem or "the ledger cannot be read")
        prices = self._maker.data.prices(conn_id)
        lines = (one for one in answer.value.attempts if one.started_ms >= since_ms)
        text = "".join(f"{json.dumps(attempt_line(one, prices))}\n" for one in lines)
        return Response(text, media_type="application/x-ndjson")

    def lake_csv(self, request: Request, session: SessionDep, conn: str = "") -> Response:
        """Return the tables that match the filters as CSV. A text that a spreadsheet would take for a formula
        has an apostrophe before it.
        """
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow((*_COLUMNS, *_FIGURES))
        for one in self._records(request, session, conn):
            row = (
                *(getattr(one, name) for name in _COLUMNS),
                *(getattr(one.figures, name) for name in _FIGURES),
            )
            writer.writerow([_cell(value) for value in row])
        return Response(
            text.getvalue(),
            media_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="lake.csv"'},
        )

    def lake_json(self, request: Request, session: SessionDep, conn: str = "") -> Response:
        """Return the tables that match the filters as JSON."""
        records = [one.to_json() for one in self._records(request, session, conn)]
        return Response(json.dumps(records), media_type="application/json")

    def _records(self, request: Request, session: Any, conn: str) -> Iterable[Any]:
        conn_id, _ = self._maker.connection(session, conn)
        state = self._maker.data.survey(conn_id)
        if state.survey is None:
            raise HTTPException(503 if state.problem else 404, state.problem or "there is no survey yet")
        return lake_records(state.survey, LakeQuery.of(dict(request.query_params)))


def _cell(value: Any) -> Any:
    text = getattr(value, "value", value)
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text
