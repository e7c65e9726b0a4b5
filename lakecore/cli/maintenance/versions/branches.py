"""This module has the commands `create-branch`, `delete-branch`, `rename-branch`, `fast-forward`,
`merge-branch`.
"""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.jobs.definitions.versions import (
    CreateBranch,
    DeleteBranch,
    FastForward,
    MergeBranch,
    RenameBranch,
)

__all__ = ["create_branch", "delete_branch", "fast_forward", "merge_branch", "rename_branch"]


def create_branch(context: typer.Context, table: Tables, options: JobOptions[CreateBranch]) -> None:
    """Make a branch of a table."""
    run_on_tables(context, table, options, passes_over=False)


def delete_branch(context: typer.Context, table: Tables, options: JobOptions[DeleteBranch]) -> None:
    """Delete a branch; into the quarantine."""
    run_on_tables(context, table, options, passes_over=False)


def rename_branch(context: typer.Context, table: Tables, options: JobOptions[RenameBranch]) -> None:
    """Give a branch another name. Stop its writers first."""
    run_on_tables(context, table, options, passes_over=False)


def fast_forward(context: typer.Context, table: Tables, options: JobOptions[FastForward]) -> None:
    """Let main become what a branch is. Stop writers first."""
    run_on_tables(context, table, options, passes_over=False)


def merge_branch(context: typer.Context, table: Tables, options: JobOptions[MergeBranch]) -> None:
    """Append to a branch what only another one has; append tables only."""
    run_on_tables(context, table, options, passes_over=False)
