"""This module has `hold`, `release` and `holds`, which control the tables from which nothing is removed."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.output import print_rows, time_text
from lakecore.cli.session import session_of
from lakecore.jobs.definitions.repair import HoldTable, ReleaseTable

__all__ = ["hold", "holds", "release"]


def hold(context: typer.Context, table: Tables, options: JobOptions[HoldTable]) -> None:
    """Remove nothing from tables until a person releases them; rollback, repair and undo stay possible."""
    run_on_tables(context, table, options)


def release(context: typer.Context, table: Tables, options: JobOptions[ReleaseTable]) -> None:
    """End the holds of tables, whatever they were placed for, without a check."""
    run_on_tables(context, table, options)


def holds(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[GLOB]", help="List only these tables: 'db.*'.")] = "*",
) -> None:
    """List the tables that are on hold: why, since when, and what ends the hold."""
    from lakecore.jobs import holds as jobs

    session = session_of(context)
    rows = [
        hold.to_json() | {"since": time_text(hold.since_ms) if hold.since_ms > 0 else None}
        for hold in jobs.holds_of(session.catalog, pattern)
    ]
    print_rows(session, rows, ["table", "since", "ends_with", "job", "by", "reason"])
