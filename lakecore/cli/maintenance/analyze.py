"""This module has the command `analyze`, which computes statistics of a table's rows."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine, key_values
from lakecore.cli.maintenance.chores import Options, RunEngine, SafetyOptions, Tables, run_jobs, tables_of
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.jobs import analyze as jobs

__all__ = ["analyze"]


def analyze(
    context: typer.Context,
    table: Tables,
    columns: Annotated[
        str | None, typer.Option(help="Columns to look at: 'a,b', or 'all'; without it only rows count.")
    ] = None,
    option: Options = None,
    engine: RunEngine = Engine.LOCAL,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
    concurrency: Concurrency,
) -> None:
    """Make statistics for planners of queries: row count, distinct values, bounds, nulls, lengths."""
    work = [
        jobs.Job(
            table=name,
            columns=tuple(filter(None, map(str.strip, (columns or "").split(",")))),
            options=key_values(option or [], "--option"),
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, engine, concurrency=concurrency)
