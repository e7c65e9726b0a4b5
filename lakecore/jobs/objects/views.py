"""This module has the job that changes the dialects of a view."""

from __future__ import annotations

from lakecore.catalog.catalog import Catalog
from lakecore.clock import Clock
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.definitions.objects import AlterViewDialect as Job
from lakecore.jobs.definitions.objects import DialectAction
from lakecore.jobs.runner.report import Report

__all__ = ["Job", "run"]


def run(job: Job, lake: Catalog, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Make the change. Raises UnsupportedError for a catalog without views, InvalidInputError for a query
    that is missing or is given to a drop, AlreadyExistsError and NotFoundError for the dialect.
    """
    drops = job.action is DialectAction.DROP
    if drops == bool(job.query.strip()):
        raise InvalidInputError(
            f"{job.view}: {'a dialect is dropped without' if drops else f'{job.action.value} needs'} a query"
        )
    own = {} if drops else {"query": job.query}
    change = {"action": f"{job.action.value}Dialect", "dialect": job.engine, **own}
    lake.views.alter(job.view, [change])
    return Report(table="", job=job.command, names=(job.view,))
