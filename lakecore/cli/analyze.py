"""`analyze`: statistics of a table's rows."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.chores import DryRun, LeaseTime, Options, Tables, run_jobs, safety, tables_of
from lakecore.cli.engine import key_values
from lakecore.jobs import analyze as jobs

__all__ = ["analyze"]


def analyze(
    context: typer.Context,
    table: Tables,
    columns: Annotated[
        str | None, typer.Option(help="Columns to look at: 'a,b', or 'all'; without it only rows count.")
    ] = None,
    option: Options = None,
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Make statistics for planners of queries: row count, distinct values, bounds, nulls, lengths."""
    work = [
        jobs.Job(
            table=name,
            columns=tuple(filter(None, map(str.strip, (columns or "").split(",")))),
            options=key_values(option or [], "--option"),
            dry_run=dry_run,
            safety=safety(None, "7 d", "none", lease),
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run)
