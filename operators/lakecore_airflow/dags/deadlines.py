"""This module gives a DAG a deadline: when a run is not over in time, a callback in the triggerer tells so.

A deadline warns and stops nothing; `window_grace` is what stops a task. Airflow also counts the runs of
backfills.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from lakecore.errors import InvalidInputError
from lakecore.jobs.runner.moment import parse_span
from lakecore_airflow.airflow_names import AsyncCallback
from lakecore_airflow.settings import SettingsError

__all__ = ["deadline_of", "tell_missed_deadline"]

logger = logging.getLogger(__name__)


def deadline_of(settings: Mapping[str, Any], connection: str) -> DeadlineAlert | None:
    """Return the deadline that the settings `deadline` (a time after the run was queued, `3 h 15 min`) and
    `deadline_callback` (the path of an async function; by default a line of the triggerer's log) name, or
    None. Raises SettingsError.
    """
    text = settings.get("deadline")
    if not text:
        return None
    try:
        span = timedelta(milliseconds=parse_span(str(text), "deadline"))
    except InvalidInputError as err:
        raise SettingsError(str(err)) from err
    callback = settings.get("deadline_callback") or f"{__name__}.{tell_missed_deadline.__name__}"
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=span,
        callback=AsyncCallback(str(callback), kwargs={"deadline": str(text), "lake_conn_id": connection}),
    )


async def tell_missed_deadline(**kwargs: Any) -> None:
    """Write a line for a run that missed its deadline, and count it (`lakecore.deadlines_missed`)."""
    from lakecore_airflow.reports.metrics import count_missed_deadline

    run = kwargs.get("context", {}).get("dag_run", {})
    dag = str(run.get("dag_id", "?")) if isinstance(run, Mapping) else "?"
    name = run.get("dag_run_id", "?") if isinstance(run, Mapping) else "?"
    logger.error("run %s of %s is not over after %s", name, dag, kwargs.get("deadline"))
    count_missed_deadline(dag)
