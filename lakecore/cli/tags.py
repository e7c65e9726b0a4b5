"""`create-tag`, `create-tag-from-timestamp`, `replace-tag`, `rename-tag`, `delete-tag`, `expire-tags`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.chores import (
    DryRun,
    LeaseTime,
    OlderThan,
    OneTable,
    Quarantine,
    QuarantineCap,
    QuarantineTime,
    Tables,
    moment,
    run_jobs,
    safety,
    span,
    tables_of,
)
from lakecore.jobs import tags as jobs

__all__ = ["create_tag", "delete_tag", "expire_tags", "rename_tag", "replace_tag"]

TagName = Annotated[str, typer.Option("--tag", help="Name of the tag.")]
TimeRetained = Annotated[
    str | None, typer.Option(help="How long it stays: '7 d'. Default: the table's option.")
]
Zone = Annotated[str, typer.Option("--time-zone", help="Of the clock that tags are written by.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", help="Snapshot id; default the latest.")]


def create_tag(
    context: typer.Context,
    table: OneTable,
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
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Keep a snapshot under a name, beyond its expiry."""
    job = jobs.CreateTag(
        table=table,
        tag=tag,
        snapshot=snapshot,
        timestamp_ms=moment(timestamp, "--timestamp"),
        watermark=watermark,
        time_retained_ms=span(time_retained, "--time-retained"),
        ignore_if_exists=ignore_if_exists,
        zone=time_zone,
        dry_run=dry_run,
        safety=safety(None, "7 d", "none", lease),
    )
    run_jobs(context, [job], jobs.run)


def replace_tag(
    context: typer.Context,
    table: OneTable,
    tag: TagName,
    snapshot: SnapshotId = None,
    time_retained: TimeRetained = None,
    time_zone: Zone = "UTC",
    dry_run: DryRun = False,
    quarantine: Quarantine = None,
    quarantine_ttl: QuarantineTime = "7 d",
    quarantine_cap: QuarantineCap = "100 gb",
    lease: LeaseTime = "60 s",
) -> None:
    """Let a tag stand for another snapshot, without a gap; free what only the old one needed."""
    job = jobs.ReplaceTag(
        table=table,
        tag=tag,
        snapshot=snapshot,
        time_retained_ms=span(time_retained, "--time-retained"),
        zone=time_zone,
        dry_run=dry_run,
        safety=safety(quarantine, quarantine_ttl, quarantine_cap, lease),
    )
    run_jobs(context, [job], jobs.run)


def rename_tag(
    context: typer.Context,
    table: OneTable,
    tag: TagName,
    target_tag: Annotated[str, typer.Option(help="The new name.")],
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Give a tag another name."""
    settings = safety(None, "7 d", "none", lease)
    job = jobs.RenameTag(table=table, tag=tag, target_tag=target_tag, dry_run=dry_run, safety=settings)
    run_jobs(context, [job], jobs.run)


def delete_tag(
    context: typer.Context,
    table: OneTable,
    tag: Annotated[str, typer.Option("--tag", help="Names, split by commas.")],
    dry_run: DryRun = False,
    quarantine: Quarantine = None,
    quarantine_ttl: QuarantineTime = "7 d",
    quarantine_cap: QuarantineCap = "100 gb",
    lease: LeaseTime = "60 s",
) -> None:
    """Delete tags and the files that only they need; into the quarantine."""
    job = jobs.DeleteTag(
        table=table,
        tags=tuple(name.strip() for name in tag.split(",") if name.strip()),
        dry_run=dry_run,
        safety=safety(quarantine, quarantine_ttl, quarantine_cap, lease),
    )
    run_jobs(context, [job], jobs.run)


def expire_tags(
    context: typer.Context,
    table: Tables,
    older_than: OlderThan = None,
    keep_newest: Annotated[
        int, typer.Option(help="So many of the tags that were made last stay in any case.")
    ] = 0,
    time_zone: Zone = "UTC",
    dry_run: DryRun = False,
    quarantine: Quarantine = None,
    quarantine_ttl: QuarantineTime = "7 d",
    quarantine_cap: QuarantineCap = "100 gb",
    lease: LeaseTime = "60 s",
) -> None:
    """Delete tags whose time has passed, and those made before --older-than."""
    work = [
        jobs.ExpireTags(
            table=name,
            older_than_ms=moment(older_than, "--older-than"),
            keep_newest=keep_newest,
            zone=time_zone,
            dry_run=dry_run,
            safety=safety(quarantine, quarantine_ttl, quarantine_cap, lease),
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run)
