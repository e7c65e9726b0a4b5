"""This module has the commands on functions and on the dialects of views."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.session import session_of
from lakecore.jobs.definitions.objects import (
    AlterFunction,
    AlterViewDialect,
    CreateFunction,
    DialectAction,
    DropFunction,
)
from lakecore.jobs.definitions.table_job import Definition

__all__ = ["alter_function", "alter_view_dialect", "create_function", "drop_function"]

FunctionName = Annotated[str, typer.Argument(metavar="DB.FUNCTION", help="Name the function.")]


def create_function(
    context: typer.Context, function: FunctionName, options: JobOptions[CreateFunction]
) -> None:
    """Create a function in a REST catalog, as Paimon's procedure create_function does."""
    _run(context, options.job(function=function))


def alter_function(
    context: typer.Context, function: FunctionName, options: JobOptions[AlterFunction]
) -> None:
    """Make a change of a function, which has the JSON of Paimon's FunctionChange."""
    _run(context, options.job(function=function))


def drop_function(context: typer.Context, function: FunctionName, options: JobOptions[DropFunction]) -> None:
    """Drop a function of a REST catalog."""
    _run(context, options.job(function=function))


def alter_view_dialect(
    context: typer.Context,
    view: Annotated[str, typer.Argument(metavar="DB.VIEW", help="Name the view.")],
    action: Annotated[DialectAction, typer.Argument(help="Choose what happens to the dialect.")],
    options: JobOptions[AlterViewDialect],
) -> None:
    """Add, update or drop the query of a view for an engine, in a REST catalog."""
    _run(context, options.job(view=view, action=action))


def _run(context: typer.Context, job: Definition) -> None:
    from lakecore.jobs.runner.dispatch import run_chore  # help needs no jobs

    run_chore(job, session_of(context).catalog)
