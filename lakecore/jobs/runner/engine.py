"""This module chooses the engine of a chore by its forecast, where the caller left the choice open."""

from __future__ import annotations

import logging

from lakecore.executor import Executor
from lakecore.jobs.compact.engine_choice import ChosenExecutor
from lakecore.jobs.runner.forecast import Work, expected_seconds
from lakecore.jobs.runner.metered import MeteredExecutor
from lakecore.maintain.target import Target

__all__ = ["choose_engine"]

logger = logging.getLogger(__name__)


def choose_engine(executor: Executor, target: Target, job: str, work: Work) -> tuple[str, ...]:
    """Choose the engine for the work of a job that is planned already, and return the choice as a note for
    users; nothing where the engine is given. It costs a read of the history of the job.
    """
    inner = executor.engine if isinstance(executor, MeteredExecutor) else executor
    if not isinstance(inner, ChosenExecutor):
        return ()
    if inner.needs_forecast:
        inner.choose(expected_seconds(target, job, work, inner.local_parallelism))
    logger.info("%s: engine %s: %s", target.name, inner.name, inner.reason)
    return (f"engine {inner.name}: {inner.reason}",)
