"""This module has the jobs on tags: create, replace, rename, delete, expire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.tags import CreateTag, DeleteTag, ExpireTags, RenameTag, ReplaceTag
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.maintain.retention_options import TAG_DEFAULT_TIME
from lakecore.maintain.tags import apply
from lakecore.maintain.tags.plan import expired_tags
from lakecore.maintain.wall_clock import WallClock

__all__ = ["CreateTag", "DeleteTag", "ExpireTags", "RenameTag", "ReplaceTag", "run", "zone_offset_ms"]


TagJob = CreateTag | ReplaceTag | RenameTag | DeleteTag | ExpireTags

_NAMES = {
    CreateTag: "create-tag",
    ReplaceTag: "replace-tag",
    RenameTag: "rename-tag",
    DeleteTag: "delete-tag",
    ExpireTags: "expire-tags",
}


def run(job: TagJob, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Run a job on tags. Raises NotFoundError, AlreadyExistsError, InvalidInputError before anything is
    touched.
    """
    expires = isinstance(job, ExpireTags)
    kind = ChoreKind(_NAMES[type(job)], quarantine=not expires, by_age=expires)
    return run_on_table(kind, job, lake, partial(_run, job), executor, clock)


def _run(job: TagJob, chore: Chore) -> Report:
    match job:
        case CreateTag():
            return _create(job, chore)
        case ReplaceTag():
            return _replace(job, chore)
        case RenameTag():
            tag = chore.target.tags.load(job.tag)
            apply.check_auto_name(chore.target, job.target_tag, tag.id, instead_of=job.tag)
            if not job.dry_run:
                apply.rename(chore.target, job.tag, job.target_tag)
            return replace(chore.report, names=(job.tag, job.target_tag), quarantined=False)
        case DeleteTag():
            if not chore.report.resumed:  # else an interrupted run may have deleted some of them
                for name in job.tags:
                    chore.target.tags.load(name)
            return _delete(job, chore, job.tags)
        case ExpireTags():
            now, offset = chore.target.clock.now_ms(), zone_offset_ms(job.zone, chore.target.clock.now_ms())
            tags = apply.aged_tags(chore.target, offset)
            return _delete(job, chore, expired_tags(tags, now, job.older_than_ms, max(0, job.keep_newest)))


def _create(job: CreateTag, chore: Chore) -> Report:
    target = chore.target
    report = replace(chore.report, names=(job.tag,), quarantined=False)
    if job.ignore_if_exists and target.file_io.stat(target.paths.tag(job.tag)) is not None:
        return replace(report, nothing_to_do=True)
    root = apply.choose(target, snapshot=job.snapshot, timestamp_ms=job.timestamp_ms, watermark=job.watermark)
    report = replace(report, snapshot=root.snapshot.id)
    apply.check_auto_name(target, job.tag, root.snapshot.id)
    if job.dry_run:
        return report
    is_new = apply.create(target, job.tag, root, _lifetime(job.time_retained_ms, job.zone, chore))
    return replace(report, nothing_to_do=not is_new)


def _replace(job: ReplaceTag, chore: Chore) -> Report:
    """Move the tag first; what only the old one needed is deleted afterwards."""
    target = chore.target
    target.tags.load(job.tag)
    root = apply.choose(target, snapshot=job.snapshot, timestamp_ms=None, watermark=None)
    report = replace(chore.report, names=(job.tag,), snapshot=root.snapshot.id)
    apply.check_auto_name(target, job.tag, root.snapshot.id)
    if job.dry_run:
        return report
    lifetime = _lifetime(job.time_retained_ms, job.zone, chore)
    swept = apply.replace(
        job.tag, root, lifetime, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
    )
    return report.with_sweep_result(swept)


def _delete(job: DeleteTag | ExpireTags, chore: Chore, names: Sequence[str]) -> Report:
    planned = apply.deletion(chore.target, chore.sweeper, names)
    report = replace(chore.report.planned(planned[0]), names=tuple(names), nothing_to_do=not planned[0].roots)
    if not planned[0].roots or job.dry_run:
        return report
    swept = apply.delete(
        _NAMES[type(job)], planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
    )
    return report.with_sweep_result(swept)


def _lifetime(retained_ms: int | None, zone: str, chore: Chore) -> apply.Lifetime | None:
    if retained_ms is None:
        retained_ms = TAG_DEFAULT_TIME.read(chore.target.schema.options)
    return apply.Lifetime.starting(chore.target.clock.now_ms(), WallClock.of(zone), retained_ms)


def zone_offset_ms(zone: str, now_ms: int) -> int:
    """Return how far that zone's wall clock is ahead of UTC now. Raises InvalidInputError."""
    local = WallClock.of(zone).local_ms(now_ms)
    return 0 if local is None else local - now_ms
