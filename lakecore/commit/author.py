"""This module has the identity of a commit, and the search for an earlier commit of the same run."""

from __future__ import annotations

from lakecore.commit.duplicates import commits_of
from lakecore.data_class import dataclass
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["Author"]


@dataclass(frozen=True, slots=True)
class Author:
    """It identifies who commits. `user` and `identifier` together name a run: once it has committed, it
    must not be repeated. Without an identifier every commit counts as a new one.
    """

    user: str
    identifier: int | None = None

    @property
    def number(self) -> int:
        """Return the commit identifier to record in snapshots."""
        return BATCH_IDENTIFIER if self.identifier is None else self.identifier

    def landed(self, snapshots: SnapshotStore, kind: CommitKind) -> Snapshot | None:
        """Return the snapshot that an earlier run of this name committed, None without one. For the cost see
        `commits_of`.
        """
        if self.identifier is None:
            return None
        same = (one for one in commits_of(snapshots, self.user) if one.commit_identifier == self.identifier)
        return next((one for one in same if one.commit_kind is kind), None)
