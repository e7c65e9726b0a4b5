"""This module has the command `rescale`, which gives partitions another number of buckets."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine, key_values
from lakecore.cli.maintenance.chores import Options, SafetyOptions, Tables, run_jobs, tables_of
from lakecore.cli.option_groups import Concurrency, RunName, Window
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
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
    window: Window,
    concurrency: Concurrency,
) -> None:
    """Give partitions another number of buckets; rows, levels and changelogs stay as they are."""
    user, until_ms = run_name.user_or_fresh, window.until_ms
    work = [
        jobs.Job(
            table=name,
            bucket_num=bucket_num,
            where=where,
            options=key_values(option or [], "--option"),
            commit_user=user,
            commit_identifier=run_name.identifier,
            until_ms=until_ms,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, engine, concurrency=concurrency)
