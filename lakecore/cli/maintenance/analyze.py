"""This module has the command `analyze`, which computes statistics of a table's rows."""

from __future__ import annotations

import typer

from lakecore.cli.engine import EngineOptions
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.rows import Analyze

__all__ = ["analyze"]


def analyze(
    context: typer.Context,
    table: Tables,
    options: JobOptions[Analyze],
    concurrency: Concurrency,
    engine: EngineOptions,
) -> None:
    """Make statistics for planners of queries: row count, distinct values, bounds, nulls, lengths."""
    run_on_tables(context, table, options, engine, concurrency)
