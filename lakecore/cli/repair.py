"""`why`, `repair-hints`, `compact-manifest`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.chores import DryRun, LeaseTime, OneTable, Options, Tables, run_jobs, safety, tables_of
from lakecore.cli.engine import key_values
from lakecore.jobs import repair as jobs
from lakecore.jobs import why as why_jobs

__all__ = ["compact_manifest", "repair_hints", "why"]


def why(
    context: typer.Context,
    table: OneTable,
    subject: Annotated[
        str | None, typer.Argument(metavar="[FILE|SNAPSHOT]", help="A file's name or a snapshot's id.")
    ] = None,
) -> None:
    """Say what keeps a file or snapshot alive; without one, what holds back the table's expiry."""
    run_jobs(context, [why_jobs.Job(table=table, subject=subject)], why_jobs.run)


def repair_hints(
    context: typer.Context, table: Tables, dry_run: DryRun = False, lease: LeaseTime = "60 s"
) -> None:
    """Let the hints LATEST and EARLIEST say what is there."""
    work = [
        jobs.RepairHints(table=name, dry_run=dry_run, safety=safety(None, "7 d", "none", lease))
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run)


def compact_manifest(
    context: typer.Context,
    table: Tables,
    option: Options = None,
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Rewrite many small manifests as few; changes no row."""
    work = [
        jobs.CompactManifest(
            table=name,
            options=key_values(option or [], "--option"),
            dry_run=dry_run,
            safety=safety(None, "7 d", "none", lease),
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run)
