"""This module has jobs on branches, on older states of a table, and on the positions of consumers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import CommittingJob, TableJob

__all__ = [
    "ClearConsumers",
    "CreateBranch",
    "DeleteBranch",
    "ExpireConsumers",
    "FastForward",
    "MergeBranch",
    "RenameBranch",
    "ResetConsumer",
    "RollbackTo",
    "RollbackToAsLatest",
]

_MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class _BranchJob(TableJob):
    """A request about one branch. `table` is the table without a branch, `branch` the branch."""

    module: ClassVar[str] = "versions.branches"

    branch: Annotated[str, Parameter("Name the branch.")]


@dataclass(frozen=True, kw_only=True)
class CreateBranch(_BranchJob):
    """Create a branch from `tag`, or an empty one with the present schemas."""

    command: ClassVar[str] = "create-branch"

    tag: Annotated[str | None, Parameter("Start from this tag; without one the branch is empty.")] = None
    ignore_if_exists: Annotated[bool, Parameter("Leave a branch of that name as it is.")] = False
    """An existing branch stays as it is, whatever it was created from; a branch that an interrupted run left
    incomplete is completed.
    """


@dataclass(frozen=True, kw_only=True)
class DeleteBranch(_BranchJob):
    """Delete a branch with its snapshots, tags and schemas; files that only they needed become orphans."""

    command: ClassVar[str] = "delete-branch"
    removes: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RenameBranch(_BranchJob):
    """Rename a branch."""

    command: ClassVar[str] = "rename-branch"

    target_branch: Annotated[str, Parameter("Use this name.")]


@dataclass(frozen=True, kw_only=True)
class FastForward(_BranchJob):
    """Replace the main branch by the branch, from the branch's first snapshot on."""

    command: ClassVar[str] = "fast-forward"
    removes: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class MergeBranch(CommittingJob):
    """Merge one branch into another. `table` is an append table without a branch. The source stays as it
    is.
    """

    command: ClassVar[str] = "merge-branch"
    module: ClassVar[str] = "versions.merge_branch"

    source_branch: Annotated[str, Parameter("Append the files of this branch, which does not change.")]
    target_branch: Annotated[str, Parameter("Append the files to this branch.")] = _MAIN


@dataclass(frozen=True, kw_only=True)
class RollbackTo(TableJob):
    """Roll back to exactly one of four: a snapshot's id, a tag, or the last snapshot up to a time or a
    watermark.
    """

    command: ClassVar[str] = "rollback-to"
    module: ClassVar[str] = "versions.rollback"
    removes: ClassVar[bool] = True

    snapshot: Annotated[int | None, Parameter("Use the snapshot with this id.")] = None
    tag: Annotated[str | None, Parameter("Use the snapshot of this tag.")] = None
    timestamp_ms: Annotated[
        int | None, Parameter("Use the last snapshot committed at or before this time.", Kind.MOMENT)
    ] = None
    watermark: Annotated[
        int | None, Parameter("Use the last snapshot with at most this watermark (milliseconds).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RollbackToAsLatest(TableJob):
    """Commit the state of a snapshot's id or a tag again. Nothing is removed; a snapshot gets a tag, because
    Java's expiry needs it.

    If both are set, (`commit_user`, `commit_identifier`) names the run: a run that has committed is not
    repeated.
    """

    command: ClassVar[str] = "rollback-to-as-latest"
    module: ClassVar[str] = "versions.rollback"

    snapshot: Annotated[int | None, Parameter("Use the snapshot with this id.")] = None
    tag: Annotated[str | None, Parameter("Use the snapshot of this tag.")] = None
    commit_user: str = ""
    commit_identifier: int | None = None


@dataclass(frozen=True, kw_only=True)
class _ConsumerJob(TableJob):
    module: ClassVar[str] = "versions.consumers"


@dataclass(frozen=True, kw_only=True)
class ResetConsumer(_ConsumerJob):
    """Set the consumer's position to `next_snapshot`; None deletes the consumer."""

    command: ClassVar[str] = "reset-consumer"

    consumer: Annotated[str, Parameter("Use the consumer of this name.", flags=("--consumer-id",))]
    next_snapshot: Annotated[
        int | None, Parameter("Let it continue at this snapshot; without one it is removed.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClearConsumers(_ConsumerJob):
    """Delete the consumers whose whole names match `including` (a regular expression) and not `excluding`."""

    command: ClassVar[str] = "clear-consumers"

    including: Annotated[
        str,
        Parameter(
            "Select only consumers whose whole name matches this regular expression.",
            flags=("--including-consumers",),
        ),
    ] = ".*"
    excluding: Annotated[
        str | None,
        Parameter(
            "Exclude consumers whose whole name matches this regular expression.",
            flags=("--excluding-consumers",),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpireConsumers(_ConsumerJob):
    """Delete consumers that have not moved for `expiration_ms`; None takes option
    consumer.expiration-time.
    """

    command: ClassVar[str] = "expire-consumers"

    expiration_ms: Annotated[
        int | None,
        Parameter(
            "Remove consumers without progress for so long: '30 d'; by default the value of the table's "
            "option.",
            Kind.DURATION,
            flags=("--expiration-time",),
        ),
    ] = None
