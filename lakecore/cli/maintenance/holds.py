"""`hold`, `release`, `holds`: tables from which nothing is removed."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.maintenance.chores import Tables, run_jobs, tables_of
from lakecore.cli.output import print_rows, time_text
from lakecore.cli.session import session_of
from lakecore.jobs import holds as jobs

__all__ = ["hold", "holds", "release"]

User = Annotated[str, typer.Option(help="Who asks for it, for the ledger; by default who runs this.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")]


def hold(
    context: typer.Context,
    table: Tables,
    reason: Annotated[str, typer.Option(help="Why, for those who meet the hold.")],
    user: User = "",
    dry_run: DryRun = False,
) -> None:
    """Remove nothing from tables until a person releases them; rollback, repair and undo stay possible."""
    work = [
        jobs.HoldTable(table=name, reason=reason, user=user, dry_run=dry_run)
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run)


def release(context: typer.Context, table: Tables, user: User = "", dry_run: DryRun = False) -> None:
    """End the holds of tables, whatever they were placed for, without a check."""
    work = [jobs.ReleaseTable(table=name, user=user, dry_run=dry_run) for name in tables_of(context, table)]
    run_jobs(context, work, jobs.run)


def holds(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[GLOB]", help="Tables: 'db.*'.")] = "*",
) -> None:
    """List the tables that are on hold: why, since when, and what ends the hold."""
    session = session_of(context)
    rows = [
        hold.to_json() | {"since": time_text(hold.since_ms) if hold.since_ms > 0 else None}
        for hold in jobs.holds_of(session.catalog, pattern)
    ]
    print_rows(session, rows, ["table", "since", "ends_with", "job", "by", "reason"])
