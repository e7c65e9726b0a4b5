"""This module has the commands `rollback-to`, `rollback-to-as-latest`, `reset-consumer`, `clear-consumers`,
`expire-consumers`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.maintenance.chores import (
    RemovalOptions,
    SafetyOptions,
    Tables,
    moment,
    run_jobs,
    span,
    tables_of,
)
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.jobs.versions import consumers, rollback

__all__ = ["clear_consumers", "expire_consumers", "reset_consumer", "rollback_to", "rollback_to_as_latest"]

SnapshotId = Annotated[int | None, typer.Option("--snapshot", help="Snapshot id.")]
TagName = Annotated[str | None, typer.Option("--tag", help="Name of a tag.")]


def rollback_to(
    context: typer.Context,
    table: Tables,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Annotated[
        str | None, typer.Option(help="The last snapshot committed at or before this time.")
    ] = None,
    watermark: Annotated[
        int | None, typer.Option(help="The last snapshot with at most this watermark (milliseconds).")
    ] = None,
    *,
    chore_options: RemovalOptions,
) -> None:
    """Remove the snapshots and tags after a state; into the quarantine. Stop writers first."""
    work = [
        rollback.RollbackTo(
            table=name,
            snapshot=snapshot,
            tag=tag,
            timestamp_ms=moment(timestamp, "--timestamp"),
            watermark=watermark,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, rollback.run, passes_over=False)


def rollback_to_as_latest(
    context: typer.Context,
    table: Tables,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
) -> None:
    """Commit an older state as the newest snapshot; nothing is removed."""
    work = [
        rollback.RollbackToAsLatest(
            table=name,
            snapshot=snapshot,
            tag=tag,
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, rollback.run, passes_over=False)


def reset_consumer(
    context: typer.Context,
    table: Tables,
    consumer_id: Annotated[str, typer.Option("--consumer-id", help="Name of the consumer.")],
    next_snapshot: Annotated[
        int | None, typer.Option(help="The snapshot where it goes on; without one it is forgotten.")
    ] = None,
    *,
    chore_options: SafetyOptions,
) -> None:
    """Move the saved position of a streaming read, or forget it."""
    work = [
        consumers.ResetConsumer(
            table=name,
            consumer=consumer_id,
            next_snapshot=next_snapshot,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, consumers.run, passes_over=False)


def clear_consumers(
    context: typer.Context,
    table: Tables,
    including_consumers: Annotated[str, typer.Option(help="Regular expression on whole names.")] = ".*",
    excluding_consumers: Annotated[
        str | None, typer.Option(help="Leave out consumers whose whole name matches this one.")
    ] = None,
    *,
    chore_options: SafetyOptions,
) -> None:
    """Forget the saved positions of streaming reads."""
    work = [
        consumers.ClearConsumers(
            table=name,
            including=including_consumers,
            excluding=excluding_consumers,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, consumers.run, passes_over=False)


def expire_consumers(
    context: typer.Context,
    table: Tables,
    expiration_time: Annotated[
        str | None, typer.Option(help="How long they may be idle: '30 d'. Default: the table's option.")
    ] = None,
    *,
    chore_options: SafetyOptions,
    concurrency: Concurrency,
) -> None:
    """Forget consumers that have not moved for long: each of them holds back expiry."""
    work = [
        consumers.ExpireConsumers(
            table=name,
            expiration_ms=span(expiration_time, "--expiration-time"),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, consumers.run, concurrency=concurrency)
