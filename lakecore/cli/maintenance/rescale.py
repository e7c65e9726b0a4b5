"""This module has the command `rescale`, which gives partitions another number of buckets."""

from __future__ import annotations

import typer

from lakecore.cli.engine import EngineOptions
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.rows import Rescale

__all__ = ["rescale"]


def rescale(
    context: typer.Context,
    table: Tables,
    options: JobOptions[Rescale],
    concurrency: Concurrency,
    engine: EngineOptions,
) -> None:
    """Give partitions another number of buckets; rows, levels and changelogs stay as they are."""
    run_on_tables(context, table, options, engine, concurrency)
