"""`create-branch`, `delete-branch`, `rename-branch`, `fast-forward`, `merge-branch`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.chores import (
    DryRun,
    LeaseTime,
    OneTable,
    Quarantine,
    QuarantineCap,
    QuarantineTime,
    run_jobs,
    safety,
)
from lakecore.jobs import branches as jobs
from lakecore.jobs import merge_branch as merge_jobs
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["create_branch", "delete_branch", "fast_forward", "merge_branch", "rename_branch"]

BranchName = Annotated[str, typer.Option("--branch", help="Name of the branch.")]


def create_branch(
    context: typer.Context,
    table: OneTable,
    branch: BranchName,
    tag: Annotated[str | None, typer.Option(help="The tag it starts from; without, it is empty.")] = None,
    ignore_if_exists: Annotated[
        bool, typer.Option("--ignore-if-exists", help="Leave a branch of that name as it is.")
    ] = False,
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Make a branch of a table."""
    job = jobs.CreateBranch(
        table=table,
        branch=branch,
        tag=tag,
        ignore_if_exists=ignore_if_exists,
        dry_run=dry_run,
        safety=safety(None, "7 d", "none", lease),
    )
    run_jobs(context, [job], jobs.run)


def delete_branch(
    context: typer.Context,
    table: OneTable,
    branch: BranchName,
    dry_run: DryRun = False,
    quarantine: Quarantine = None,
    quarantine_ttl: QuarantineTime = "7 d",
    quarantine_cap: QuarantineCap = "100 gb",
    lease: LeaseTime = "60 s",
) -> None:
    """Delete a branch; into the quarantine."""
    settings = safety(quarantine, quarantine_ttl, quarantine_cap, lease)
    job = jobs.DeleteBranch(table=table, branch=branch, dry_run=dry_run, safety=settings)
    run_jobs(context, [job], jobs.run)


def rename_branch(
    context: typer.Context,
    table: OneTable,
    branch: BranchName,
    target_branch: Annotated[str, typer.Option(help="The new name.")],
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Give a branch another name. Stop its writers first."""
    settings = safety(None, "7 d", "none", lease)
    job = jobs.RenameBranch(
        table=table, branch=branch, target_branch=target_branch, dry_run=dry_run, safety=settings
    )
    run_jobs(context, [job], jobs.run)


def fast_forward(
    context: typer.Context,
    table: OneTable,
    branch: BranchName,
    dry_run: DryRun = False,
    quarantine: Quarantine = None,
    quarantine_ttl: QuarantineTime = "7 d",
    quarantine_cap: QuarantineCap = "100 gb",
    lease: LeaseTime = "60 s",
) -> None:
    """Let main become what a branch is. Stop writers first."""
    settings = safety(quarantine, quarantine_ttl, quarantine_cap, lease)
    job = jobs.FastForward(table=table, branch=branch, dry_run=dry_run, safety=settings)
    run_jobs(context, [job], jobs.run)


def merge_branch(
    context: typer.Context,
    table: OneTable,
    source_branch: Annotated[str, typer.Option(help="Whose files are appended; it stays as it is.")],
    target_branch: Annotated[str, typer.Option(help="The branch that gets them.")] = MAIN_BRANCH,
    dry_run: DryRun = False,
    lease: LeaseTime = "60 s",
) -> None:
    """Append to a branch what only another one has; append tables only."""
    job = merge_jobs.Job(
        table=table,
        source_branch=source_branch,
        target_branch=target_branch,
        dry_run=dry_run,
        safety=safety(None, "7 d", "none", lease),
    )
    run_jobs(context, [job], merge_jobs.run)
