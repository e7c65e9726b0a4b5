"""This module does for tables of a REST catalog what changes versions: the server does it."""

from __future__ import annotations

from dataclasses import replace

from lakecore.errors import AlreadyExistsError, NotFoundError, UnsupportedError
from lakecore.jobs.definitions.versions import CreateBranch, DeleteBranch, FastForward, RenameBranch
from lakecore.jobs.runner.chore import Chore, Report
from lakecore.maintain.branches import apply
from lakecore.maintain.deletion.roots import RootKind
from lakecore.maintain.rollback.apply import RollbackPlan
from lakecore.store.version_management import VersionManagement

__all__ = ["KEEPS_NOTHING", "change_branch", "refuse_files_of_server", "roll_back"]

KEEPS_NOTHING = "the server removed the metadata files and keeps none of them"


def change_branch(
    job: CreateBranch | DeleteBranch | RenameBranch | FastForward,
    versions: VersionManagement,
    chore: Chore,
    report: Report,
) -> Report:
    """Let the server change a branch. Raises NotFoundError, AlreadyExistsError, OnHoldError, and
    UnsupportedError for a renaming, which the interface does not have.
    """
    report = replace(report, quarantined=False)
    match job:
        case CreateBranch():
            return _create(job, versions, chore, report)
        case DeleteBranch():
            return _delete(job, versions, chore, report)
        case FastForward():
            return _fast_forward(job, versions, chore, report)
        case RenameBranch():
            raise UnsupportedError(
                f"branch {job.branch!r} of {job.table}: the server of a REST catalog cannot rename branches; "
                "create another branch from a tag, and delete this one"
            )


def _create(job: CreateBranch, versions: VersionManagement, chore: Chore, report: Report) -> Report:
    target = chore.main()
    apply.check_name(job.branch)
    if job.tag is not None:
        target.tags.load(job.tag)
    if job.branch in target.branches.list():
        if job.ignore_if_exists:
            return replace(report, nothing_to_do=True)
        raise AlreadyExistsError(
            f"branch {job.branch!r} of {target.name} exists; choose another name, or delete it"
        )
    if not job.dry_run:
        versions.create_branch(job.branch, job.tag)
    return report


def _delete(job: DeleteBranch, versions: VersionManagement, chore: Chore, report: Report) -> Report:
    removal, _ = apply.branch_removal(chore.main(), job.branch)
    report = report.planned(removal)
    if not job.dry_run:
        chore.sweeper.gate.check(quarantine=False)
        versions.delete_branch(job.branch)
    return _with_note(report)


def _fast_forward(job: FastForward, versions: VersionManagement, chore: Chore, report: Report) -> Report:
    plan = apply.fast_forward(chore.main(), job.branch)
    ids = tuple(root.snapshot.id for root in plan.removed_roots if root.kind is RootKind.SNAPSHOT)[::-1]
    if not job.dry_run:
        chore.sweeper.gate.check(quarantine=False)
        versions.fast_forward(job.branch)
    return _with_note(replace(report.planned(plan.removal), snapshots=ids, snapshot=plan.last))


def roll_back(plan: RollbackPlan, versions: VersionManagement, chore: Chore, report: Report) -> Report:
    """Let the server remove what `plan` names. A commit since the plan was made is not removed.

    Raises NotFoundError when there is no snapshot, OnHoldError, and UnavailableError when somebody committed.
    """
    target, state = chore.target, plan.state
    latest = target.snapshots.latest_id()
    if latest is None:
        raise NotFoundError(f"{target.name} has no snapshot from which it could be rolled back")
    chore.sweeper.gate.check(quarantine=False)
    to = state.name if state.kind is RootKind.TAG else state.snapshot.id
    versions.roll_back(target.paths.branch, to, latest)
    return _with_note(report)


def _with_note(report: Report) -> Report:
    return report if report.dry_run else replace(report, notes=(*report.notes, KEEPS_NOTHING))


def refuse_files_of_server(chore: Chore, what: str) -> None:
    """Raise UnsupportedError where a server owns the metadata files that a chore would change."""
    if chore.target.stores.versions is not None:
        raise UnsupportedError(
            f"table {chore.target.name}: {what} would change metadata files that the server of its REST "
            "catalog owns; roll the table back (rollback-to), or let the operator of the server repair it"
        )
