"""This module has the commands `remove-orphan-files`, `undo`, `runs`, `purge-quarantine`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine
from lakecore.cli.maintenance.chores import (
    OlderThan,
    QuarantineLimits,
    RemovalOptions,
    RunEngine,
    SafetyOptions,
    Tables,
    moment,
    run_jobs,
    tables_of,
)
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import print_rows, size_text, time_text
from lakecore.cli.session import session_of
from lakecore.jobs import quarantine as quarantine_jobs
from lakecore.jobs import remove_orphan_files as orphan_jobs
from lakecore.jobs.holds import holds_of

__all__ = ["purge_quarantine", "remove_orphan_files", "runs", "undo"]


def remove_orphan_files(
    context: typer.Context,
    table: Tables,
    older_than: OlderThan = None,
    max_share: Annotated[
        float, typer.Option(help="Stop when more than this part of the files or bytes would go.")
    ] = 0.5,
    few: Annotated[int, typer.Option(help="So many files may be removed, whatever their share.")] = 1000,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Also for tables without snapshot, tag or changelog.")
    ] = False,
    external: Annotated[
        bool,
        typer.Option(
            "--external", help="Also below data-file.external-paths; no table elsewhere may use them."
        ),
    ] = False,
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Remove files that nothing refers to and that are older than a day; into the quarantine."""
    work = [
        orphan_jobs.Job(
            table=name,
            older_than_ms=moment(older_than, "--older-than"),
            max_share=max_share,
            few=few,
            allow_empty=allow_empty,
            external=external,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, orphan_jobs.run, engine, concurrency=concurrency)


def undo(
    context: typer.Context,
    run_id: Annotated[
        str, typer.Argument(metavar="RUN_ID", help="The name of the run, in a report or in `runs`.")
    ],
    external: Annotated[
        bool,
        typer.Option("--external", help="Also move files back to data-file.external-paths."),
    ] = False,
    *,
    chore_options: SafetyOptions,
) -> None:
    """Take back what a run moved to the quarantine."""
    job = quarantine_jobs.Undo(
        run_id=run_id, dry_run=chore_options.dry_run, external=external, safety=chore_options.safety
    )
    run_jobs(context, [job], quarantine_jobs.run)


def runs(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(metavar="DB.TABLE", help="Only runs of this table.")] = None,
) -> None:
    """List what maintenance did, oldest first: the ledger."""
    session = session_of(context)
    rows = [
        {
            "run": record.id,
            "table": record.table,
            "state": record.state.value,
            "started": time_text(record.started_ms),
            "files": record.outcome.get("files"),
            "size": size_text(record.outcome.get("bytes")),
            "estimate": dict(record.estimate),
            "outcome": dict(record.outcome),
            "parameters": dict(record.parameters),
        }
        for record in quarantine_jobs.runs_of(session.catalog, table)
    ]
    print_rows(session, rows, ["run", "table", "state", "started", "files", "size"])
    for hold in holds_of(session.catalog, table=table):
        session.note(f"on hold: {hold.table}: {hold}")


def purge_quarantine(context: typer.Context, *, limits: QuarantineLimits) -> None:
    """Delete for good what is too long in the quarantine, or too much."""
    job = quarantine_jobs.Purge(ttl_ms=limits.ttl_ms, cap=limits.cap)
    run_jobs(context, [job], quarantine_jobs.run)
