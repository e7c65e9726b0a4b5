"""This module has the commands `expire-partitions`, `drop-partition`, `mark-partition-done`."""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.rows import DropPartition, ExpirePartitions, MarkPartitionDone

__all__ = ["drop_partition", "expire_partitions", "mark_partition_done"]


def expire_partitions(
    context: typer.Context, table: Tables, options: JobOptions[ExpirePartitions], concurrency: Concurrency
) -> None:
    """Drop partitions that are too old. Their files go when older snapshots expire."""
    run_on_tables(context, table, options, concurrency=concurrency)


def drop_partition(context: typer.Context, table: Tables, options: JobOptions[DropPartition]) -> None:
    """Remove all rows of some partitions."""
    run_on_tables(context, table, options, passes_over=False)


def mark_partition_done(
    context: typer.Context, table: Tables, options: JobOptions[MarkPartitionDone]
) -> None:
    """Say that partitions are complete, as option partition.mark-done-action wants: a file, a report."""
    run_on_tables(context, table, options, passes_over=False)
