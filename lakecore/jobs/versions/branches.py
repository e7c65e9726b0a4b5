"""This module has the jobs on branches: create, delete, rename, fast-forward."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import CreateBranch, DeleteBranch, FastForward, RenameBranch
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.counts import Counts, counts_of
from lakecore.jobs.versions.by_server import change_branch
from lakecore.maintain.branches import apply
from lakecore.maintain.deletion.roots import RootKind

__all__ = ["CreateBranch", "DeleteBranch", "FastForward", "RenameBranch", "run"]


_NAMES = {
    CreateBranch: "create-branch",
    DeleteBranch: "delete-branch",
    RenameBranch: "rename-branch",
    FastForward: "fast-forward",
}


def run(
    job: CreateBranch | DeleteBranch | RenameBranch | FastForward,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Run a job on branches. Raises NotFoundError, AlreadyExistsError, InvalidInputError before anything is
    touched.
    """
    kind = ChoreKind(_NAMES[type(job)], quarantine=True)
    return run_on_table(kind, job, lake, partial(_run, job), executor, clock)


def _run(job: CreateBranch | DeleteBranch | RenameBranch | FastForward, chore: Chore) -> ChoreResult | Report:
    report = replace(chore.report, names=(job.branch,))
    if (versions := chore.target.stores.versions) is not None:
        return change_branch(job, versions, chore, report)
    match job:
        case CreateBranch():
            return _create(job, chore, replace(report, quarantined=False))
        case DeleteBranch():
            return _delete(job, chore, report)
        case RenameBranch():
            if not job.dry_run:
                sweeper = replace(chore.sweeper, target=chore.main())
                fields: dict[str, object] = {"branch": job.branch, "target_branch": job.target_branch}
                apply.rename(job.branch, job.target_branch, sweeper, parameters=fields)
            return replace(report, names=(job.branch, job.target_branch), quarantined=False)
        case FastForward():
            return _fast_forward(job, chore, report)


def _create(job: CreateBranch, chore: Chore, report: Report) -> Report:
    target = chore.main()
    apply.check_name(job.branch)
    sweeper = replace(chore.sweeper, target=target)
    half_made = apply.is_incomplete(sweeper, job.branch, job.tag)
    if job.ignore_if_exists and not half_made and job.branch in target.branches.list():
        return replace(report, nothing_to_do=True)
    if half_made:
        report = replace(
            report,
            notes=(f"branch {job.branch} was created only in part by an earlier run: it is complete now",),
        )
    is_new = True if job.dry_run else apply.create(sweeper, job.branch, job.tag, begun=half_made)
    return replace(report, nothing_to_do=not is_new)


def _delete(job: DeleteBranch, chore: Chore, report: Report) -> Report:
    target = chore.main()
    if not job.dry_run and apply.remove_empty(target, job.branch):
        return replace(report, quarantined=False)
    planned = apply.branch_removal(target, job.branch)
    report = report.planned(planned[0])
    if job.dry_run:
        return report
    sweeper = replace(chore.sweeper, target=target)
    swept = apply.delete(
        job.branch, planned, sweeper, quarantine=chore.quarantine, parameters=parameters(job)
    )
    return report.with_sweep_result(swept)


def _fast_forward(job: FastForward, chore: Chore, report: Report) -> ChoreResult | Report:
    target = chore.main()
    plan = apply.fast_forward(target, job.branch)
    ids = tuple(root.snapshot.id for root in plan.removed_roots if root.kind is RootKind.SNAPSHOT)[::-1]
    report = replace(report.planned(plan.removal), snapshots=ids, snapshot=plan.last)
    if job.dry_run:
        return ChoreResult(report, after=lambda before: _ahead(chore, job.branch, plan.first, before))
    sweeper = replace(chore.sweeper, target=target)
    return report.with_sweep_result(
        plan.apply(sweeper, quarantine=chore.quarantine, parameters=parameters(job))
    )


def _ahead(chore: Chore, branch: str, first: int, before: Counts) -> Counts:
    """Return the branch's own state; its snapshots follow those of main before it."""
    target = chore.main()
    counts = counts_of(target.at_branch(branch))
    if before.snapshots is None or counts.snapshots is None:
        return replace(counts, snapshots=None)
    older = sum(number < first for number in target.snapshots.list_ids())
    return replace(counts, snapshots=older + counts.snapshots)
