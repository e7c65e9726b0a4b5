"""This module has the job that appends to one branch the files that only another one has."""

from __future__ import annotations

from dataclasses import replace

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import MergeBranch as Job
from lakecore.jobs.runner.chore import Chore, Lake, Report, begin
from lakecore.jobs.runner.counts import Change, counts_of
from lakecore.maintain.branches.merge import Merge, merge, plan_merge
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import CommitKind

__all__ = ["Job", "run"]

NAME = "merge-branch"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Merge the branches. Raises NotFoundError, InvalidInputError before anything is touched;
    CommitConflictError.
    """
    with begin(NAME, job, lake, quarantine=False, executor=executor, clock=clock) as chore:
        source, target = _at(chore, job.source_branch), _at(chore, job.target_branch)
        author = chore.author(job)
        if (landed := chore.committed_earlier(author, CommitKind.APPEND, target)) is not None:
            return chore.timed(landed)
        if job.dry_run:
            merged = plan_merge(source, target)
            chore.before = counts_of(target)
            chore.after = Change.adding(merged.files, keyed=False, snapshots=1).of
            return chore.timed(_report(job, chore, merged, None))
        return chore.timed(_report(job, chore, *merge(source, target, author, target.clock)))


def _at(chore: Chore, branch: str) -> Target:
    table = chore.table.at_branch(branch)
    return chore.target.at_branch(table._stores.paths.branch, table.schema)


def _report(job: Job, chore: Chore, merged: Merge, snapshot: int | None) -> Report:
    verb = "would be" if job.dry_run else "were"
    count = len(merged.files)
    chore.estimate_manifest_work(merged.base, count)
    note = f"{count} files with {merged.rows} rows {verb} appended to branch {job.target_branch!r}"
    return replace(
        chore.report,
        snapshot=snapshot,
        names=(job.source_branch, job.target_branch),
        notes=(note,) if count else (),
        nothing_to_do=not count,
    )
