"""This module has the commands `expire-snapshots`, `expire-changelogs`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine, key_values
from lakecore.cli.maintenance.chores import (
    OlderThan,
    Options,
    RemovalOptions,
    RunEngine,
    Tables,
    moment,
    run_jobs,
    tables_of,
)
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs import expire_changelogs as changelog_jobs
from lakecore.jobs import expire_snapshots as snapshot_jobs

__all__ = ["expire_changelogs", "expire_snapshots"]

RetainMax = Annotated[int | None, typer.Option(help="Keep at most so many; default the table's option.")]
RetainMin = Annotated[int | None, typer.Option(help="Keep at least so many; default the table's option.")]
MaxDeletes = Annotated[int | None, typer.Option(help="Expire at most so many; default the table's option.")]


def expire_snapshots(
    context: typer.Context,
    table: Tables,
    retain_max: RetainMax = None,
    retain_min: RetainMin = None,
    older_than: OlderThan = None,
    max_deletes: MaxDeletes = None,
    by_successor: Annotated[
        bool, typer.Option("--by-successor", help="Count a snapshot's age from when the next replaced it.")
    ] = False,
    option: Options = None,
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Delete old snapshots and the files that only they need."""
    work = [
        snapshot_jobs.Job(
            table=name,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=moment(older_than, "--older-than"),
            max_deletes=max_deletes,
            by_successor=by_successor,
            options=key_values(option or [], "--option"),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, snapshot_jobs.run, engine, concurrency=concurrency)


def expire_changelogs(
    context: typer.Context,
    table: Tables,
    retain_max: RetainMax = None,
    retain_min: RetainMin = None,
    older_than: OlderThan = None,
    max_deletes: MaxDeletes = None,
    delete_all: Annotated[
        bool, typer.Option("--delete-all", help="Expire all of them, whatever the limits say.")
    ] = False,
    option: Options = None,
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Delete old changelogs that outlived their snapshots."""
    work = [
        changelog_jobs.Job(
            table=name,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=moment(older_than, "--older-than"),
            max_deletes=max_deletes,
            delete_all=delete_all,
            options=key_values(option or [], "--option"),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, changelog_jobs.run, engine, concurrency=concurrency)
