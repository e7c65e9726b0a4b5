"""This module finds the end of a task's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.clock import Clock

__all__ = ["check_window_end", "end_with_work_left", "run_started_ms", "window_end_ms"]

_ENDS = ("success", "skip", "fail")


def window_end_ms(until: str | None, context: Context, clock: Clock) -> int | None:
    """Return the end in milliseconds since the epoch. `until` is a date and time, or `HH:MM` (UTC): the next
    such time after the DAG run started, the same for all its tasks and tries. None means no end. Raises
    InvalidInputError.
    """
    from lakecore.jobs.runner.until import parse_until

    return parse_until(until, run_started_ms(context, clock)) if until else None


def check_window_end(value: str) -> None:
    """Check a value of `on_window_end`. Raises InvalidInputError."""
    from lakecore.errors import InvalidInputError

    if value not in _ENDS:
        raise InvalidInputError(f"on_window_end={value!r}: use one of {', '.join(_ENDS)}")


def end_with_work_left(value: str, text: str, *, idle: bool) -> None:
    """End a task that left work for the next window, as `on_window_end` says: with `skip` the task is skipped
    if it did nothing at all (`idle`), with `fail` it fails without a retry. Otherwise it succeeds.

    Raises AirflowSkipException, AirflowFailException.
    """
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    if value == "fail":
        raise AirflowFailException(text)
    if value == "skip" and idle:
        raise AirflowSkipException(text)


def run_started_ms(context: Context, clock: Clock) -> int:
    """Return when the DAG run started; outside of a DAG run this is the present time."""
    started = getattr(context.get("dag_run"), "start_date", None)
    return clock.now_ms() if started is None else int(started.timestamp() * 1000)
