"""This module has the window of a task: its end, the black-outs and the budget of the DAG run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.secrets import LakeTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.clock import Clock
    from lakecore.jobs.window.blackout import BlackoutCalendar
    from lakecore.jobs.window.budget import Budget

__all__ = [
    "WINDOW_ENDS",
    "WINDOW_SETTINGS",
    "TaskWindow",
    "WindowTask",
    "calendar_of",
    "check_window_end",
    "end_with_work_left",
    "run_started_ms",
    "skip_in_blackout",
    "window_end_ms",
]

WINDOW_ENDS = ("success", "skip", "fail")
"""These are the words for `on_window_end`."""
_LEAST_S = 60.0
"""A task that begins after its window has so long to say what is left."""

WINDOW_SETTINGS: Mapping[str, Any] = {
    "on_window_end": "success",
    "window_grace": None,
    "blackouts": None,
    "budget_bytes": None,
    "budget_core_seconds": None,
    "budget_money": None,
}
"""These are the parameters of a `WindowTask` beside `until`, with their defaults."""


@dataclass(frozen=True, kw_only=True)
class TaskWindow:
    """This is the window of a task that has begun."""

    end_ms: int | None
    """No work begins after this, in milliseconds since the epoch: the end of the window, or the beginning of
    the next black-out.
    """
    calendar: BlackoutCalendar
    budget: Budget
    run: Mapping[str, Any]
    """These values are the origin of the attempts that use up the budget."""
    started_ms: int
    """This is when the run started, in milliseconds since the epoch."""
    hook: LakeHook
    clock: Clock

    def reason_to_stop(self) -> str:
        """Return why nothing more may begin, or an empty text. With a budget it costs one listing."""
        from lakecore.jobs.window.budget import usage_of_run

        now_ms = self.clock.now_ms()
        if closed := self.calendar.closed_at(now_ms):
            return closed.text
        if self.end_ms is not None and now_ms >= self.end_ms:
            return "the window is over"
        if not self.budget.is_given:
            return ""
        usage = usage_of_run(self.hook.catalog(), self.run, self.started_ms)
        return self.budget.reason_to_stop(usage, self.hook.price_list())


class WindowTask(LakeTask):
    """This operator begins work only inside its window, outside of black-outs, and within a budget.

    `until` and `WINDOW_SETTINGS` are its fields.
    """

    until: str | None = None
    on_window_end: str = "success"
    window_grace: str | None = None
    blackouts: Sequence[Mapping[str, Any]] | str | None = None
    budget_bytes: str | int | None = None
    budget_core_seconds: str | float | None = None
    budget_money: str | float | None = None
    execution_timeout: timedelta | None

    def pre_execute(self, context: Context) -> None:
        """Let Airflow stop the task when `window_grace` is over after the end of the window."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.runner.moment import parse_span
        from lakecore.jobs.window.budget import declare_budget

        super().pre_execute(context)
        clock = SystemClock()
        with airflow_errors():
            if self._budget().is_given:
                declare_budget(_run_of(context), run_started_ms(context, clock))
            end_ms = window_end_ms(self.until, context, clock)
            if end_ms is None or not self.window_grace:
                return
            end_ms += parse_span(str(self.window_grace), "window_grace")
        limit = timedelta(seconds=max(_LEAST_S, (end_ms - clock.now_ms()) / 1000))
        self.execution_timeout = (
            limit if self.execution_timeout is None else min(limit, self.execution_timeout)
        )

    def open_window(self, context: Context, hook: LakeHook, *, dry_run: bool) -> TaskWindow:
        """Return the window of this run. A dry run has its end only: it changes nothing, whenever it runs.
        Raises InvalidInputError.
        """
        from lakecore.clock import SystemClock
        from lakecore.jobs.window.blackout import BlackoutCalendar
        from lakecore.jobs.window.budget import Budget

        check_window_end(self.on_window_end)
        clock = SystemClock()
        end_ms = window_end_ms(self.until, context, clock)
        calendar, budget = calendar_of(self.blackouts), self._budget()
        if dry_run:
            calendar, budget = BlackoutCalendar(), Budget()
        ends = [one for one in (end_ms, calendar.next_start_ms(clock.now_ms())) if one is not None]
        return TaskWindow(
            end_ms=min(ends, default=None),
            calendar=calendar,
            budget=budget,
            run=_run_of(context),
            started_ms=run_started_ms(context, clock),
            hook=hook,
            clock=clock,
        )

    def _budget(self) -> Budget:
        from lakecore.jobs.window.budget import Budget

        return Budget.parse(self.budget_bytes, self.budget_core_seconds, self.budget_money)


def skip_in_blackout(blackouts: Sequence[Mapping[str, Any]] | str | None) -> None:
    """Raise AirflowSkipException during a black-out, which says why: the task is skipped, and so are the
    tasks after it. Raises InvalidInputError for what is no calendar.
    """
    from lakecore.clock import SystemClock
    from lakecore_airflow.airflow_names import AirflowSkipException

    if closed := calendar_of(blackouts).closed_at(SystemClock().now_ms()):
        raise AirflowSkipException(
            f"nothing is begun: {closed.text}. A run with the param blackouts empty begins at any time"
        )


def calendar_of(blackouts: Sequence[Mapping[str, Any]] | str | None) -> BlackoutCalendar:
    """Return the calendar of a parameter `blackouts`: a list, or its text as a template renders it. Raises
    InvalidInputError.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.window.blackout import BlackoutCalendar
    from lakecore_airflow.airflow_names import yaml

    if not isinstance(blackouts, str):
        return BlackoutCalendar.parse(blackouts)
    try:
        return BlackoutCalendar.parse(yaml.safe_load(str(blackouts)))  # a native template has Markup
    except yaml.YAMLError as err:
        raise InvalidInputError(f"blackouts {blackouts!r} is no list: {err}") from err


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

    if value not in WINDOW_ENDS:
        raise InvalidInputError(f"on_window_end={value!r}: use one of {', '.join(WINDOW_ENDS)}")


def end_with_work_left(value: str, text: str, *, idle: bool) -> None:
    """End a task that left work for the next window, as `on_window_end` says: with `skip` the task is skipped
    if it did nothing at all (`idle`), with `fail` it fails without a retry. Otherwise it succeeds.

    Raises AirflowSkipException, AirflowFailException.
    """
    from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException

    if value == "fail":
        raise AirflowFailException(text)
    if value == "skip" and idle:
        raise AirflowSkipException(text)


def run_started_ms(context: Context, clock: Clock) -> int:
    """Return when the DAG run started; outside of a DAG run this is the present time."""
    started = getattr(context.get("dag_run"), "start_date", None)
    return clock.now_ms() if started is None else int(started.timestamp() * 1000)


def _run_of(context: Context) -> dict[str, Any]:
    return {"dag": context["ti"].dag_id, "run": context["ti"].run_id}
