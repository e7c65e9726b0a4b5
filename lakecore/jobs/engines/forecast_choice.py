"""This module chooses the engine of a job by its forecast, where the caller left the choice open, and makes
the forecasts of dry runs.
"""

from __future__ import annotations

import logging

from lakecore.executor import Executor
from lakecore.jobs.engines.engine_choice import ChosenExecutor, EngineChoice
from lakecore.jobs.engines.session_starts import SessionStarts
from lakecore.jobs.runner.forecast import Work, expected_seconds, forecast_of
from lakecore.jobs.runner.metered import MeteredExecutor
from lakecore.maintain.forecast.plan import Forecast
from lakecore.maintain.target import Target

__all__ = ["choose_engine", "forecast_on", "reason_of"]

logger = logging.getLogger(__name__)


def choose_engine(executor: Executor, target: Target, job: str, work: Work) -> tuple[str, ...]:
    """Choose the engine for the work of a job that is planned already, and return the choice as a note for
    users; nothing where the engine is given. It costs a read of the history of the job.
    """
    inner = _choice_of(executor)
    if inner is None:
        return ()
    if inner.needs_forecast:
        seconds = expected_seconds(target, job, work, inner.local_parallelism)
        inner.choose(seconds, SessionStarts.of(target))
    logger.info("%s: engine %s: %s", target.name, inner.name, inner.reason)
    return (f"engine {inner.name}: {inner.reason}",)


def reason_of(executor: Executor) -> str:
    """Return why the engine was chosen; the text is empty where it was given, or is not chosen yet."""
    inner = _choice_of(executor)
    return "" if inner is None else inner.reason


def forecast_on(
    executor: Executor, target: Target, job: str, work: Work, *, units: bool = True
) -> tuple[Forecast, EngineChoice | None]:
    """Return what the work will take where it will run, and the choice of the engine, if it depends on that.

    The forecast of a run that starts a Spark session contains the start. `units` tells whether the work
    needs the engine at all. Nothing is started.
    """
    inner = _choice_of(executor)
    choice: EngineChoice | None = None
    if inner is not None and inner.needs_forecast:
        seconds = expected_seconds(target, job, work, inner.local_parallelism)
        choice = inner.preview(seconds, SessionStarts.of(target))
    estimate = forecast_of(target, job, work, executor.name if choice is None else choice.engine)
    starts = choice.engine == "spark" if choice is not None else _starts_session(executor)
    if not (units and starts):
        return estimate, choice
    return estimate.with_startup(SessionStarts.of(target).seconds(_master(executor))), choice


def _choice_of(executor: Executor) -> ChosenExecutor | None:
    inner = executor.engine if isinstance(executor, MeteredExecutor) else executor
    return inner if isinstance(inner, ChosenExecutor) else None


def _starts_session(executor: Executor) -> bool:
    """Return whether work on the executor starts a session, which many tables may share."""
    return bool(getattr(_innermost(executor), "starts_session", False))


def _master(executor: Executor) -> str:
    """Return the address of the master of Spark; the text is empty where the executor has none."""
    return str(getattr(_innermost(executor), "master", ""))


def _innermost(executor: Executor) -> Executor:
    while (inner := getattr(executor, "engine", None)) is not None:
        executor = inner
    return executor
