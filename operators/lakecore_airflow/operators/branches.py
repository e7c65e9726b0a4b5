"""This module has operators that create, delete, rename, fast-forward and merge branches."""

from __future__ import annotations

from lakecore.jobs.definitions.versions import (
    CreateBranch,
    DeleteBranch,
    FastForward,
    MergeBranch,
    RenameBranch,
)
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = [
    "CreateBranchOperator",
    "DeleteBranchOperator",
    "FastForwardOperator",
    "MergeBranchOperator",
    "RenameBranchOperator",
]


class CreateBranchOperator(ChoreOperator):
    """Create a branch from `tag`, or an empty one."""

    definition = CreateBranch


class DeleteBranchOperator(ChoreOperator):
    """Delete a branch; its files move to the quarantine."""

    definition = DeleteBranch


class RenameBranchOperator(ChoreOperator):
    """Rename a branch."""

    definition = RenameBranch


class FastForwardOperator(ChoreOperator):
    """Fast-forward the main branch to the state of another branch. Stop the writers first."""

    definition = FastForward


class MergeBranchOperator(ChoreOperator):
    """Append to `target_branch` (None: main) the files that only `source_branch` has. Only append tables can
    be merged.
    """

    definition = MergeBranch
    repeatable = True
