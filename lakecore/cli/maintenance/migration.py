"""This module has the commands `migrate-table`, `migrate-database` and `copy`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import run_jobs
from lakecore.jobs.definitions.migration import Copy, MigrateDatabase, MigrateTable

__all__ = ["copy", "migrate_database", "migrate_table"]

Source = Annotated[str, typer.Argument(metavar="DIRECTORY", help="Name the directory with the data files.")]


def migrate_table(
    context: typer.Context,
    source: Source,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE", help="Name the new table.")],
    options: JobOptions[MigrateTable],
) -> None:
    """Make a table of parquet, orc or avro files in Hive's directories; they are copied, not rewritten."""
    run_jobs(context, [options.job(source=source, target=table)], passes_over=False)


def migrate_database(
    context: typer.Context,
    source: Source,
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="Name the database of the new tables.")],
    options: JobOptions[MigrateDatabase],
) -> None:
    """Make a table of each directory below a directory, as migrate-table does."""
    run_jobs(context, [options.job(source=source, target=database)], passes_over=False)


def copy(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="DB[.TABLE]", help="Name the table, or a database for all its tables.")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="DB[.TABLE]", help="Name the new table, or the database of the new tables."),
    ],
    options: JobOptions[Copy],
) -> None:
    """Copy the latest snapshot of a table into a new table; the files are copied as they are."""
    run_jobs(context, [options.job(source=source, target=target)], passes_over=False)
