"""This module has the commands `expire-partitions`, `drop-partition`, `mark-partition-done`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.maintenance.chores import Options, SafetyOptions, Tables, run_jobs, span, tables_of
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.jobs import partitions as jobs

__all__ = ["drop_partition", "expire_partitions", "mark_partition_done"]

Partitions = Annotated[str, typer.Option("--partition", help="'dt=a,hh=b;dt=c'.")]


def expire_partitions(
    context: typer.Context,
    table: Tables,
    expiration_time: Annotated[
        str | None, typer.Option(help="Older partitions go: '30 d'. Default: the table's option.")
    ] = None,
    timestamp_formatter: Annotated[
        str | None, typer.Option(help="How the time of a partition is written: 'yyyyMMdd'.")
    ] = None,
    timestamp_pattern: Annotated[
        str | None, typer.Option(help="How its columns make the time: '$dt $hour:00:00'.")
    ] = None,
    expire_strategy: Annotated[str | None, typer.Option(help="values-time or update-time.")] = None,
    max_expires: Annotated[int | None, typer.Option(help="Drop at most so many.")] = None,
    time_zone: Annotated[
        str, typer.Option(help="Time zone of the clock that partitions were written by.")
    ] = "UTC",
    option: Options = None,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
    concurrency: Concurrency,
) -> None:
    """Drop partitions that are too old. Their files go when older snapshots expire."""
    work = [
        jobs.ExpirePartitions(
            table=name,
            expiration_ms=span(expiration_time, "--expiration-time"),
            timestamp_formatter=timestamp_formatter,
            timestamp_pattern=timestamp_pattern,
            expire_strategy=expire_strategy,
            max_expires=max_expires,
            zone=time_zone,
            options=key_values(option or [], "--option"),
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, concurrency=concurrency)


def drop_partition(
    context: typer.Context,
    table: Tables,
    partition: Partitions,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
) -> None:
    """Remove all rows of some partitions."""
    work = [
        jobs.DropPartition(
            table=name,
            partitions=partition,
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def mark_partition_done(
    context: typer.Context,
    table: Tables,
    partition: Partitions,
    *,
    chore_options: SafetyOptions,
) -> None:
    """Say that partitions are complete, as option partition.mark-done-action wants: a file, a report."""
    work = [
        jobs.MarkPartitionDone(
            table=name, partitions=partition, dry_run=chore_options.dry_run, safety=chore_options.safety
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)
