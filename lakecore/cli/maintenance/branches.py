"""This module has the commands `create-branch`, `delete-branch`, `rename-branch`, `fast-forward`,
`merge-branch`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.maintenance.chores import RemovalOptions, SafetyOptions, Tables, run_jobs, tables_of
from lakecore.cli.option_groups import RunName
from lakecore.jobs.versions import branches as jobs
from lakecore.jobs.versions import merge_branch as merge_jobs
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["create_branch", "delete_branch", "fast_forward", "merge_branch", "rename_branch"]

BranchName = Annotated[str, typer.Option("--branch", help="Name of the branch.")]


def create_branch(
    context: typer.Context,
    table: Tables,
    branch: BranchName,
    tag: Annotated[
        str | None, typer.Option(help="The tag that it starts from; without one it is empty.")
    ] = None,
    ignore_if_exists: Annotated[
        bool, typer.Option("--ignore-if-exists", help="Leave a branch of that name as it is.")
    ] = False,
    *,
    chore_options: SafetyOptions,
) -> None:
    """Make a branch of a table."""
    work = [
        jobs.CreateBranch(
            table=name,
            branch=branch,
            tag=tag,
            ignore_if_exists=ignore_if_exists,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def delete_branch(
    context: typer.Context,
    table: Tables,
    branch: BranchName,
    *,
    chore_options: RemovalOptions,
) -> None:
    """Delete a branch; into the quarantine."""
    work = [
        jobs.DeleteBranch(
            table=name, branch=branch, dry_run=chore_options.dry_run, safety=chore_options.safety
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def rename_branch(
    context: typer.Context,
    table: Tables,
    branch: BranchName,
    target_branch: Annotated[str, typer.Option(help="The new name.")],
    *,
    chore_options: SafetyOptions,
) -> None:
    """Give a branch another name. Stop its writers first."""
    work = [
        jobs.RenameBranch(
            table=name,
            branch=branch,
            target_branch=target_branch,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def fast_forward(
    context: typer.Context,
    table: Tables,
    branch: BranchName,
    *,
    chore_options: RemovalOptions,
) -> None:
    """Let main become what a branch is. Stop writers first."""
    work = [
        jobs.FastForward(
            table=name, branch=branch, dry_run=chore_options.dry_run, safety=chore_options.safety
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def merge_branch(
    context: typer.Context,
    table: Tables,
    source_branch: Annotated[
        str, typer.Option(help="The branch whose files are appended; it stays as it is.")
    ],
    target_branch: Annotated[str, typer.Option(help="The branch that gets them.")] = MAIN_BRANCH,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
) -> None:
    """Append to a branch what only another one has; append tables only."""
    work = [
        merge_jobs.Job(
            table=name,
            source_branch=source_branch,
            target_branch=target_branch,
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, merge_jobs.run, passes_over=False)
