"""This module has the commands `create-tag`, `create-tag-from-timestamp`, `replace-tag`, `rename-tag`,
`delete-tag`, `expire-tags`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.maintenance.chores import (
    OlderThan,
    RemovalOptions,
    SafetyOptions,
    Tables,
    moment,
    run_jobs,
    span,
    tables_of,
)
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.versions import tags as jobs

__all__ = ["create_tag", "delete_tag", "expire_tags", "rename_tag", "replace_tag"]

TagName = Annotated[str, typer.Option("--tag", help="Name of the tag.")]
TimeRetained = Annotated[
    str | None, typer.Option(help="How long it stays: '7 d'. Default: the table's option.")
]
Zone = Annotated[str, typer.Option("--time-zone", help="Time zone of the clock that tags are written by.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", help="Snapshot id; default the latest.")]


def create_tag(
    context: typer.Context,
    table: Tables,
    tag: TagName,
    snapshot: SnapshotId = None,
    timestamp: Annotated[
        str | None, typer.Option(help="The first snapshot committed at or after this time.")
    ] = None,
    watermark: Annotated[
        int | None, typer.Option(help="The first snapshot with at least this watermark (milliseconds).")
    ] = None,
    time_retained: TimeRetained = None,
    ignore_if_exists: Annotated[
        bool, typer.Option("--ignore-if-exists", help="Leave a tag of that name as it is.")
    ] = False,
    time_zone: Zone = "UTC",
    *,
    chore_options: SafetyOptions,
) -> None:
    """Keep a snapshot under a name, beyond its expiry."""
    work = [
        jobs.CreateTag(
            table=name,
            tag=tag,
            snapshot=snapshot,
            timestamp_ms=moment(timestamp, "--timestamp"),
            watermark=watermark,
            time_retained_ms=span(time_retained, "--time-retained"),
            ignore_if_exists=ignore_if_exists,
            zone=time_zone,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def replace_tag(
    context: typer.Context,
    table: Tables,
    tag: TagName,
    snapshot: SnapshotId = None,
    time_retained: TimeRetained = None,
    time_zone: Zone = "UTC",
    *,
    chore_options: RemovalOptions,
) -> None:
    """Let a tag stand for another snapshot, without a gap; free what only the old one needed."""
    work = [
        jobs.ReplaceTag(
            table=name,
            tag=tag,
            snapshot=snapshot,
            time_retained_ms=span(time_retained, "--time-retained"),
            zone=time_zone,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def rename_tag(
    context: typer.Context,
    table: Tables,
    tag: TagName,
    target_tag: Annotated[str, typer.Option(help="The new name.")],
    *,
    chore_options: SafetyOptions,
) -> None:
    """Give a tag another name."""
    work = [
        jobs.RenameTag(
            table=name,
            tag=tag,
            target_tag=target_tag,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def delete_tag(
    context: typer.Context,
    table: Tables,
    tag: Annotated[str, typer.Option("--tag", help="Names, split by commas.")],
    *,
    chore_options: RemovalOptions,
) -> None:
    """Delete tags and the files that only they need; into the quarantine."""
    work = [
        jobs.DeleteTag(
            table=name,
            tags=tuple(name.strip() for name in tag.split(",") if name.strip()),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def expire_tags(
    context: typer.Context,
    table: Tables,
    older_than: OlderThan = None,
    keep_newest: Annotated[int, typer.Option(help="How many of the newest tags stay in any case.")] = 0,
    time_zone: Zone = "UTC",
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
) -> None:
    """Delete tags whose time has passed, and those made before --older-than."""
    work = [
        jobs.ExpireTags(
            table=name,
            older_than_ms=moment(older_than, "--older-than"),
            keep_newest=keep_newest,
            zone=time_zone,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, concurrency=concurrency)
