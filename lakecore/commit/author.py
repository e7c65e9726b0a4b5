"""Who commits, and whether a run of that name has done so already."""

from __future__ import annotations

from dataclasses import dataclass

from lakecore.commit.duplicates import commits_of
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["Author"]


@dataclass(frozen=True, slots=True)
class Author:
    """With an `identifier` the pair names a run, and one that landed is not to be repeated; without one every
    commit is a new one.
    """

    user: str
    identifier: int | None = None

    @property
    def number(self) -> int:
        """What its commits are recorded with."""
        return BATCH_IDENTIFIER if self.identifier is None else self.identifier

    def landed(self, snapshots: SnapshotStore, kind: CommitKind) -> Snapshot | None:
        """What a run of this name committed. Cost: see `commits_of`."""
        if self.identifier is None:
            return None
        same = (one for one in commits_of(snapshots, self.user) if one.commit_identifier == self.identifier)
        return next((one for one in same if one.commit_kind is kind), None)
