"""This module has the commands `expire-snapshots`, `expire-changelogs`."""

from __future__ import annotations

import typer

from lakecore.cli.engine import Engine
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import RunEngine, Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.expiry import ExpireChangelogs, ExpireSnapshots

__all__ = ["expire_changelogs", "expire_snapshots"]


def expire_snapshots(
    context: typer.Context,
    table: Tables,
    options: JobOptions[ExpireSnapshots],
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Delete old snapshots and the files that only they need."""
    run_on_tables(context, table, options, engine, concurrency)


def expire_changelogs(
    context: typer.Context,
    table: Tables,
    options: JobOptions[ExpireChangelogs],
    concurrency: Concurrency,
    engine: RunEngine = Engine.LOCAL,
) -> None:
    """Delete old changelogs that outlived their snapshots."""
    run_on_tables(context, table, options, engine, concurrency)
