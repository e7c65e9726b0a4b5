"""This module searches the recent snapshots for an earlier commit of the same name.

A scheduler that retries a task starts a new process without any memory; only (user, identifier, kind) in the
snapshots shows that the first try had succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import TypeGuard

from lakecore.data_class import dataclass
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["LOOK_BACK", "DuplicateSearch", "LastCommit", "commits_of", "last_commit_of"]

LOOK_BACK = 256
"""So many snapshots are looked at, one read each: some 15 ms in all on a local disk. On an object store
requests overlap, and all take some 0.5 s.
"""

_REQUESTS = 16


def commits_of(snapshots: SnapshotStore, user: str, limit: int = LOOK_BACK) -> tuple[Snapshot, ...]:
    """Return the snapshots that `user` committed, newest first, among the last `limit`."""
    latest = snapshots.latest()
    if latest is None:
        return ()
    return tuple(snapshot for snapshot in _back(snapshots, latest, limit) if snapshot.commit_user == user)


@dataclass(frozen=True, slots=True)
class LastCommit:
    """This is the result of a search for the last commit of a user."""

    snapshot: Snapshot | None
    """This is the newest snapshot of the user; None without one."""
    looked_since: int
    """This snapshot and all later ones were looked at."""


def last_commit_of(snapshots: SnapshotStore, user: str) -> LastCommit:
    """Return the newest snapshot that `user` committed under an identifier, of all that are left.

    The cost is a read of each snapshot that is newer than the one found; of all that are left without one.
    """
    latest = snapshots.latest()
    if latest is None:
        return LastCommit(None, 1)
    looked = latest.id
    for snapshot in _back(snapshots, latest, latest.id):
        looked = snapshot.id
        if snapshot.commit_user == user and snapshot.commit_identifier != BATCH_IDENTIFIER:
            return LastCommit(snapshot, looked)
    return LastCommit(None, looked)


class DuplicateSearch:
    """It searches for one commit; every further call looks only at the snapshots that are new since the
    last call.

    When the newest snapshot that it knows was replaced or removed, it searches all of them again.
    """

    def __init__(self, snapshots: SnapshotStore, user: str, identifier: int) -> None:
        self._snapshots = snapshots
        self._name = (user, identifier)
        self._looked_at: Snapshot | None = None

    def find(self, latest: Snapshot | None, kind: CommitKind) -> Snapshot | None:
        """Return the snapshot of this commit and `kind` at or before `latest`, None without one. Cost: see
        LOOK_BACK.
        """
        if latest is None:
            return None
        limit = min(LOOK_BACK, latest.id - self._last_examined())
        for snapshot in _back(self._snapshots, latest, limit):
            name = (snapshot.commit_user, snapshot.commit_identifier)
            if name == self._name and snapshot.commit_kind is kind:
                return snapshot
        self._looked_at = latest
        return None

    def _last_examined(self) -> int:
        """Return the id up to which no snapshot needs another look: none, when another snapshot has that id
        now.
        """
        before = self._looked_at
        if before is None or self._snapshots.find(before.id) != before:
            return 0
        return before.id


def _back(snapshots: SnapshotStore, latest: Snapshot, limit: int) -> Iterator[Snapshot]:
    """Yield `latest` and the snapshots before it, up to `limit` or the first one missing."""
    if limit <= 0:
        return
    yield latest
    ids = range(latest.id - 1, max(latest.id - limit, 0), -1)
    if "://" not in snapshots.paths.snapshot_dir:
        yield from takewhile(_exists, map(snapshots.find, ids))
        return
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for start in range(0, len(ids), _REQUESTS):
            batch = list(pool.map(snapshots.find, ids[start : start + _REQUESTS]))
            yield from takewhile(_exists, batch)
            if None in batch:
                return


def _exists(snapshot: Snapshot | None) -> TypeGuard[Snapshot]:
    return snapshot is not None
