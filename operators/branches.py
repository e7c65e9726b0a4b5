"""Operators that create, delete, rename, fast-forward and merge branches."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = [
    "CreateBranchOperator",
    "DeleteBranchOperator",
    "FastForwardOperator",
    "MergeBranchOperator",
    "RenameBranchOperator",
]


class CreateBranchOperator(ChoreOperator):
    """Create a branch from `tag`, or an empty one."""

    module = "versions.branches"
    job = "CreateBranch"
    parameters: ClassVar = {"branch": "text", "tag": "text", "ignore_if_exists": "bool"}


class DeleteBranchOperator(ChoreOperator):
    """Delete a branch; its files move to the quarantine."""

    module = "versions.branches"
    job = "DeleteBranch"
    parameters: ClassVar = {"branch": "text"}


class RenameBranchOperator(ChoreOperator):
    """Rename a branch."""

    module = "versions.branches"
    job = "RenameBranch"
    parameters: ClassVar = {"branch": "text", "target_branch": "text"}


class FastForwardOperator(ChoreOperator):
    """Fast-forward the main branch to the state of another branch. Stop the writers first."""

    module = "versions.branches"
    job = "FastForward"
    parameters: ClassVar = {"branch": "text"}


class MergeBranchOperator(ChoreOperator):
    """Append to `target_branch` (None: main) the files that only `source_branch` has. Only append tables can
    be merged.
    """

    module = "versions.merge_branch"
    parameters: ClassVar = {"source_branch": "text", "target_branch": "text"}
    repeatable = True
