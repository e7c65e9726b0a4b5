"""This module finds the end of a task's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.clock import Clock

__all__ = ["run_started_ms", "window_end_ms"]


def window_end_ms(until: str | None, context: Context, clock: Clock) -> int | None:
    """Return the end in milliseconds since the epoch. `until` is a date and time, or `HH:MM` (UTC): the next
    such time after the DAG run started, the same for all its tasks and tries. None means no end. Raises
    InvalidInputError.
    """
    from lakecore.jobs.runner.until import parse_until

    return parse_until(until, run_started_ms(context, clock)) if until else None


def run_started_ms(context: Context, clock: Clock) -> int:
    """Return when the DAG run started; outside of a DAG run this is the present time."""
    started = getattr(context.get("dag_run"), "start_date", None)
    return clock.now_ms() if started is None else int(started.timestamp() * 1000)
