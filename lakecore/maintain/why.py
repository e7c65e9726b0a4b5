"""This module explains what retains a snapshot or a file."""

from __future__ import annotations

import numpy as np

from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.deletion.sweep import owner_of
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.byte_words import hash_bytes

__all__ = ["expiry_blockers", "holders_of_file", "holders_of_snapshot"]

_DAY_MS = 86_400_000


def expiry_blockers(target: Target) -> list[str]:
    """Return what blocks the expiry of the branch, the oldest first: consumers, tags, other branches."""
    roots = read_roots(target.file_io, target.paths)
    blockers = [
        (consumer.next_snapshot, _consumer(target, consumer.id)) for consumer in target.consumers.list()
    ]
    for root in roots.of(RootKind.TAG, target.paths.branch):
        age = _days(target, root.snapshot.time_millis)
        blockers.append(
            (
                root.snapshot.id,
                f"tag {root.name} keeps the files of snapshot {root.snapshot.id}, which was committed {age}",
            )
        )
    for branch in roots.branches:
        theirs = roots.of(RootKind.SNAPSHOT, branch)
        if branch != target.paths.branch and theirs:
            first = theirs[0].snapshot.id
            blockers.append((first, f"branch {branch} keeps the files of its snapshots from {first} on"))
    return [text for _, text in sorted(blockers)]


def holders_of_snapshot(target: Target, snapshot_id: int) -> list[str]:
    """Return why the files of a snapshot stay; nothing when they do not."""
    roots = read_roots(target.file_io, target.paths)
    holders = [f"{root} needs it" for root in _of(roots, snapshot_id)]
    if any(
        root.kind is RootKind.SNAPSHOT and root.branch == target.paths.branch
        for root in _of(roots, snapshot_id)
    ):
        holders += [
            _consumer(target, c.id) for c in target.consumers.list() if c.next_snapshot <= snapshot_id
        ]
    return holders


def holders_of_file(target: Target, runs: RunStore, name: str) -> list[str]:
    """Return the roots that reach a file, by its name, with those in the quarantine. This reads what all
    roots refer to.
    """
    name = name.rstrip("/").rpartition("/")[2]
    hashes = np.unique(hash_bytes([name.encode(), owner_of(name).encode()]))
    own = hash_bytes([name.encode()])[0]
    holders = []
    aside = quarantined_roots(runs, target.name)
    for reach, roots in (
        (Reach(target), read_roots(target.file_io, target.paths).roots),
        (aside.reach(target), aside.roots),
    ):
        for root in roots:
            reached = reach.data([root], hashes)
            is_named = any(path.rpartition("/")[2] == name for path in reach.metadata([root]))
            if is_named or own in reached.names or name in reached.extras:
                holders.append(f"{root} needs it")
    return holders


def _of(roots: RootSet, snapshot_id: int) -> list[Root]:
    return [root for root in roots.roots if root.snapshot.id == snapshot_id]


def _consumer(target: Target, name: str) -> str:
    consumer = target.consumers.find(name)
    if consumer is None:
        return f"consumer {name} keeps snapshots, but was removed in the meantime"
    idle = _days(target, consumer.updated_ms)
    return (
        f"consumer {name} still needs the snapshots from {consumer.next_snapshot} on; its position "
        f"last changed {idle}"
    )


def _days(target: Target, time_ms: int) -> str:
    return f"{max(0, target.clock.now_ms() - time_ms) / _DAY_MS:.1f} days ago"
