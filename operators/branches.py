"""Branches as Airflow tasks: make, delete, rename, fast-forward, merge."""

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
    """Make a branch: from `tag`, or empty."""

    module = "versions.branches"
    job = "CreateBranch"
    parameters: ClassVar = {"branch": "text", "tag": "text", "ignore_if_exists": "bool"}


class DeleteBranchOperator(ChoreOperator):
    """Delete a branch; into the quarantine."""

    module = "versions.branches"
    job = "DeleteBranch"
    parameters: ClassVar = {"branch": "text"}


class RenameBranchOperator(ChoreOperator):
    """Give a branch another name."""

    module = "versions.branches"
    job = "RenameBranch"
    parameters: ClassVar = {"branch": "text", "target_branch": "text"}


class FastForwardOperator(ChoreOperator):
    """Let main become what a branch is. Stop writers first."""

    module = "versions.branches"
    job = "FastForward"
    parameters: ClassVar = {"branch": "text"}


class MergeBranchOperator(ChoreOperator):
    """Append to `target_branch` (None: main) what only `source_branch` has; append tables only."""

    module = "versions.merge_branch"
    parameters: ClassVar = {"source_branch": "text", "target_branch": "text"}
    repeatable = True
