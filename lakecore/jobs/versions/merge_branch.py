"""This module has the job that appends to one branch the files that only another one has."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import MergeBranch as Job
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import Change, counts_of
from lakecore.maintain.branches.merge import Merge, merge, plan_merge
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.shape import Shape
from lakecore.metadata.snapshot import CommitKind

__all__ = ["Job", "run"]

NAME = "merge-branch"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Merge the branches. Raises NotFoundError, InvalidInputError before anything is touched;
    CommitConflictError.
    """
    return run_on_table(ChoreKind(NAME), job, lake, partial(_merge, job), executor, clock)


def _merge(job: Job, chore: Chore) -> ChoreResult | Report:
    source, target = _at(chore, job.source_branch), _at(chore, job.target_branch)
    author = chore.author(job)
    if (landed := chore.committed_earlier(author, CommitKind.APPEND, target)) is not None:
        return landed
    if job.dry_run:
        merged = plan_merge(source, target)
        after = Change.adding(Shape.of(merged.files, keyed=False), snapshots=1).of
        return replace(_result(job, chore, merged, None), before=counts_of(target), after=after)
    return _result(job, chore, *merge(source, target, author, target.clock))


def _at(chore: Chore, branch: str) -> Target:
    table = chore.table.at_branch(branch)
    return chore.target.at_branch(table._stores.paths.branch, table.schema)


def _result(job: Job, chore: Chore, merged: Merge, snapshot: int | None) -> ChoreResult:
    verb = "would be" if job.dry_run else "were"
    count = len(merged.files)
    note = f"{count} files with {merged.rows} rows {verb} appended to branch {job.target_branch!r}"
    report = replace(
        chore.report,
        snapshot=snapshot,
        names=(job.source_branch, job.target_branch),
        notes=(note,) if count else (),
        nothing_to_do=not count,
    )
    return ChoreResult(report, work=chore.manifest_work(merged.base, count))
