"""This module finds the snapshot that has a stream's rows up to one of its commits, to be tagged."""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.errors import NotFoundError
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot

__all__ = ["state_after_commit"]


def state_after_commit(target: Target, user: str, identifier: int) -> Snapshot:
    """Return the last snapshot that `user` committed under `identifier` or a lower number: a commit without
    rows makes no snapshot, and changes no state.

    Raises NotFoundError where that snapshot has expired, or may have. Snapshots expire in their order, so
    that of those that are left the newest is the right one; of a tag only its own number tells. It costs a
    read of each snapshot that is newer, and of all tags if no snapshot is the right one.
    """
    snapshots = target.snapshots
    newest_first = filter(None, map(snapshots.find, reversed(snapshots.list_ids())))
    snapshot = _newest(newest_first, user, range(identifier + 1))
    if snapshot is None:
        tagged = sorted(map(target.tags.load, target.tags.list()), key=lambda one: one.id, reverse=True)
        snapshot = _newest(tagged, user, range(identifier, identifier + 1))
    if snapshot is None:
        raise NotFoundError(
            f"{target.name} has no snapshot of {user} up to its commit {identifier}: it has expired, or "
            "these commits had no rows; tag sooner after a commit, or retain more snapshots "
            "(snapshot.num-retained.min)"
        )
    return snapshot


def _newest(snapshots: Iterable[Snapshot], user: str, numbers: range) -> Snapshot | None:
    """Return the first of the snapshots, newest first, that is one of these commits."""
    for one in snapshots:
        number = one.commit_identifier
        if one.commit_user == user and number != BATCH_IDENTIFIER and number in numbers:
            return one
    return None
