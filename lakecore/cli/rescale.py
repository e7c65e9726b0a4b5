"""`rescale`: another number of buckets for partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.chores import DryRun, LeaseTime, Options, Tables, run_jobs, safety, tables_of
from lakecore.cli.engine import Engine, key_values
from lakecore.clock import SystemClock
from lakecore.jobs import rescale as jobs

__all__ = ["rescale"]


def rescale(
    context: typer.Context,
    table: Tables,
    bucket_num: Annotated[
        int | None, typer.Option(help="How many buckets; without it, as option bucket says.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "--partitions", help="Only these: 'dt=a,hh=b;dt=c'.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Where units run.")] = Engine.SPARK,
    option: Options = None,
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Give partitions another number of buckets; rows, levels and changelogs stay as they are."""
    clock = SystemClock()
    work = [
        jobs.Job(
            table=name,
            bucket_num=bucket_num,
            where=where,
            options=key_values(option or [], "--option"),
            dry_run=dry_run,
            commit_user=f"lakecore-cli-{clock.fresh_id()}",
            safety=safety(None, "7 d", "none", lease),
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, engine)
