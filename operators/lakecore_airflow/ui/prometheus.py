"""This module tells Prometheus how healthy the lakes are, from their newest surveys.

A scraper sends the token of `[lakecore] metrics_token` of Airflow's configuration (or
AIRFLOW__LAKECORE__METRICS_TOKEN) as `Authorization: Bearer`. Without a configured token there are no metrics.
No table has a time series of its own: a lake may have ten thousand.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request, Response

from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.views import STATES
from lakecore_airflow.ui.words import DAY_MS

if TYPE_CHECKING:
    from lakecore.jobs.survey import Survey

__all__ = ["metrics_of", "survey_metrics"]

_HELP = {
    "survey_time_seconds": "When the newest survey began, in seconds since 1970.",
    "survey_up": "Whether the newest survey could be read.",
    "tables": "Tables by state.",
    "data_files": "Live data files.",
    "live_bytes": "Bytes of live data files.",
    "history_bytes": "Bytes of data files that only older snapshots need.",
    "late_tables": "Tables that the last window left.",
    "attempts": "Attempts of jobs that ended today (UTC).",
    "failures": "Attempts of jobs that failed today (UTC).",
    "core_seconds": "Core seconds of attempts that ended today (UTC).",
}


def metrics_of(maker: PageMaker, request: Request, session: Any) -> Response:
    """Return the metrics of all lakes. Raises HTTPException without the token."""
    from airflow.configuration import conf

    token = str(conf.get("lakecore", "metrics_token", fallback="") or "")
    sent = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not token or not hmac.compare_digest(token.encode(), sent.encode()):
        raise HTTPException(401, "send the token of [lakecore] metrics_token", {"WWW-Authenticate": "Bearer"})
    conn_id, connections = maker.connection(session, "")
    lines: dict[str, list[str]] = {name: [] for name in _HELP}
    for one in connections or [conn_id]:
        state = maker.data.survey(one)
        for name, labels, value in survey_metrics(state.survey, up=not state.problem):
            text = ",".join(f'{key}="{_escape(word)}"' for key, word in {"lake": one, **labels}.items())
            lines[name].append(f"lakecore_{name}{{{text}}} {value}")
    parts = []
    for name, values in lines.items():
        if values:
            parts += [f"# HELP lakecore_{name} {_HELP[name]}", f"# TYPE lakecore_{name} gauge", *values]
    return Response("\n".join(parts) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8")


def survey_metrics(survey: Survey | None, *, up: bool) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of each metric of a survey."""
    yield "survey_up", {}, int(up and survey is not None)
    if survey is None:
        return
    states = Counter(one.state.value for one in survey.tables)
    live = [one for one in survey.tables if one.state.value != "vanished"]
    yield "survey_time_seconds", {}, survey.started_ms / 1000
    for state in STATES:
        yield "tables", {"state": state}, states[state]
    yield "data_files", {}, sum(one.figures.files for one in live)
    yield "live_bytes", {}, sum(one.figures.bytes for one in live)
    yield "history_bytes", {}, sum(one.figures.history_bytes or 0 for one in live)
    yield "late_tables", {}, sum(one.late.nights > 0 for one in live)
    today = next((day for day in survey.activity if day.day == survey.started_ms // DAY_MS), None)
    yield "attempts", {}, today.attempts if today else 0
    yield "failures", {}, today.failures if today else 0
    yield "core_seconds", {}, today.core_seconds if today else 0.0


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
