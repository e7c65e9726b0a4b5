"""This module has the commands `remove-orphan-files`, `purge-files`, `undo`, `runs`, `purge-quarantine`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import RunEngine, Tables, run_jobs, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import print_rows, size_text, time_text
from lakecore.cli.session import session_of
from lakecore.jobs.definitions.expiry import PurgeFiles, RemoveOrphanFiles
from lakecore.jobs.definitions.repair import Purge, Undo

__all__ = ["purge_files", "purge_quarantine", "remove_orphan_files", "runs", "undo"]


def remove_orphan_files(
    context: typer.Context,
    table: Tables,
    options: JobOptions[RemoveOrphanFiles],
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Remove files that nothing refers to and that are older than a day; into the quarantine."""
    run_on_tables(context, table, options, engine, concurrency)


def purge_files(
    context: typer.Context,
    table: Tables,
    options: JobOptions[PurgeFiles],
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Empty a table and remove its branches, tags, consumers and older snapshots; into the quarantine."""
    run_on_tables(context, table, options, engine, passes_over=False)


def undo(
    context: typer.Context,
    run_id: Annotated[
        str, typer.Argument(metavar="RUN_ID", help="Name the run, as a report or `runs` names it.")
    ],
    options: JobOptions[Undo],
) -> None:
    """Take back what a run moved to the quarantine."""
    run_jobs(context, [options.job(run_id=run_id)])


def runs(
    context: typer.Context,
    table: Annotated[
        str | None, typer.Argument(metavar="DB.TABLE", help="List only runs of this table.")
    ] = None,
) -> None:
    """List what maintenance did, oldest first: the ledger. Who began a run, and its cost, is known of runs of
    the last 7 days that removed files.
    """
    from lakecore.jobs import attempts, quarantine
    from lakecore.jobs.holds import holds_of
    from lakecore.maintain.deletion.restored_schemas import SCHEMAS

    session = session_of(context)
    attempt_list = attempts.attempts_of(session.catalog, attempts.AttemptFilter()).attempts
    by_run = {one.figures["run"]: one for one in attempt_list if isinstance(one.figures.get("run"), str)}
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
            "parameters": {key: value for key, value in record.parameters.items() if key != SCHEMAS},
            "by": attempts.started_by(by_run[record.id]) if record.id in by_run else None,
            "cost": dict(by_run[record.id].cost) if record.id in by_run else None,
        }
        for record in quarantine.runs_of(session.catalog, table)
    ]
    print_rows(session, rows, ["run", "table", "state", "started", "files", "size", "by"])
    for hold in holds_of(session.catalog, table=table):
        session.note(f"on hold: {hold.table}: {hold}")


def purge_quarantine(context: typer.Context, options: JobOptions[Purge]) -> None:
    """Delete for good what is too long in the quarantine, or too much."""
    run_jobs(context, [options.job()])
