"""This module commits what still fits the table, and tries again without what another commit has made
impossible.

Rule of the uncertain commit: files that a run made may be removed only while it is known that no snapshot
names them. `CommitGuard` keeps that rule for a run, `commit_fitting` for what is written for one try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError, ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.proof.snapshot_check import SnapshotCheck

__all__ = ["CommitDraft", "CommitGuard", "CommitLoopResult", "Commits", "commit_fitting"]

Item = TypeVar("Item")


class CommitGuard:
    """It answers whether the files of a run may be removed."""

    def __init__(self) -> None:
        self.uncertain = False
        """Whether a snapshot may name files that the run does not know to be committed."""

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Commit within the block, and note there what was committed.

        The outcome stays uncertain after a CommitUncertainError, and after an interruption at any line of the
        block: it may come after the snapshot was published.
        """
        self.uncertain = True
        try:
            yield
        except LakeError as err:
            self.uncertain = isinstance(err, CommitUncertainError)
            raise
        self.uncertain = False


def nothing_written() -> None:
    """Do nothing, because nothing was written for a try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDraft:
    """This is the draft of one try, which says what is to be committed."""

    messages: Sequence[CommitMessage]
    """These files are added and removed."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """They become properties of the snapshot."""
    faults: Callable[[], Mapping[int, ProofError]]
    """It finds what is not as it was proven, by the number of the item. Raises ProofError where the
    messages hold what belongs to no item.
    """
    discard: Callable[[], None] = nothing_written
    """It removes what was written for this try: no snapshot refers to it, and none will."""
    landed: Callable[[], None] = nothing_written
    """It records that the commit is published."""


class Commits(Protocol[Item]):
    """The protocol says how items of one kind of rewriting are committed."""

    @property
    def overwrites(self) -> bool:
        """Return whether the snapshot is an OVERWRITE; it is a COMPACT otherwise."""
        ...

    @property
    def preconditions(self) -> Preconditions | None:
        """Return what must still hold of the table."""
        ...

    def draft(self, items: Sequence[Item]) -> CommitDraft:
        """Return one try; files that must come with the items are written here."""
        ...

    def affected(self, items: Sequence[Item], err: CommitConflictError) -> list[Item]:
        """Return the items that the conflict makes impossible."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLoopResult(Generic[Item]):
    """This is the result of a commit, which has the items by what became of them."""

    items: tuple[Item, ...] = ()
    """They are committed."""
    lost: tuple[Item, ...] = ()
    """These are the items that another commit made impossible."""
    refused: tuple[tuple[Item, ProofError], ...] = ()
    """It is True when what was to be committed was not what was proven."""
    snapshots: tuple[int, ...] = ()
    duplicate: bool = False
    """Another run with this identity was faster."""
    notes: tuple[str, ...] = ()
    """These are the notes of the commit, for the report."""


def commit_fitting(
    committer: Committer, items: Sequence[Item], identity: tuple[str, int], commits: Commits[Item]
) -> CommitLoopResult[Item]:
    """Commit every item that fits the table as it is now, and is what was proven, in one snapshot.

    `identity`: commit user and identifier. Raises CommitUncertainError (delete nothing), UnavailableError
    (nothing landed), UnsupportedError, ProofError where the commit holds what belongs to no item,
    CommitConflictError where the conflict concerns none.
    """
    rest, lost = list(items), list[Item]()
    refused: list[tuple[Item, ProofError]] = []
    while rest:
        draft = commits.draft(rest)
        try:
            if faults := draft.faults():
                draft.discard()
                refused += [(rest[number], error) for number, error in faults.items()]
                rest = [item for number, item in enumerate(rest) if number not in faults]
                continue
            result = committer.commit(
                draft.messages,
                CommitRequest(
                    user=identity[0],
                    identifier=identity[1],
                    properties=draft.properties,
                    preconditions=commits.preconditions,
                    examine=SnapshotCheck(draft.messages, overwrites=commits.overwrites),
                ),
            )
        except CommitUncertainError:
            raise
        except CommitConflictError as err:
            draft.discard()
            lost_items = commits.affected(rest, err)
            if not lost_items:
                raise
            lost += lost_items
            rest = [item for item in rest if item not in lost_items]
            continue
        except LakeError:
            draft.discard()
            raise
        if result.duplicate:
            draft.discard()
        else:
            draft.landed()
        return CommitLoopResult(
            items=tuple(rest),
            lost=tuple(lost),
            refused=tuple(refused),
            snapshots=result.snapshot_ids,
            duplicate=result.duplicate,
            notes=result.notes,
        )
    return CommitLoopResult(lost=tuple(lost), refused=tuple(refused))
