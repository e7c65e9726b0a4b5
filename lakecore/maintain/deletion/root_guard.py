"""This module looks, right before root files are removed, whether they and the snapshots that are to remain
are still those of the plan.

A plan takes minutes for a large table. Meanwhile other processes that hold no lease roll the table back, drop
it and create it again, or replace tags: then a file of the plan has another snapshot, or is the last one of
the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from lakecore.errors import NotFoundError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.snapshot import Snapshot

__all__ = ["check_roots", "checked_roots"]

_BATCH = 20


def checked_roots(
    target: Target, deletions: Iterable[PlannedDeletion], remaining: RootSet
) -> Iterator[tuple[PlannedDeletion, ...]]:
    """Yield the deletions of roots in batches, each of which was looked at immediately before. The caller
    removes a batch before it takes the next.

    Raises UnavailableError if a root is another one now, or if the snapshot nearest to those of a batch that
    is to remain is gone: then nothing of that batch may be removed. It costs a read a root, in threads, and
    one a batch.
    """
    waiting = iter(deletions)
    while batch := tuple(islice(waiting, _BATCH)):
        check_roots(target, batch, remaining)
        yield batch


def check_roots(target: Target, batch: Sequence[PlannedDeletion], remaining: RootSet) -> None:
    """Raise UnavailableError if the batch must not be removed, as `checked_roots` says."""
    state_of = partial(_state_of, target.file_io)
    planned = [deletion for deletion in batch if deletion.state is not None]
    states = zip(planned, in_threads(state_of, [deletion.path for deletion in planned]), strict=True)
    changed = [deletion.path for deletion, state in states if state not in (None, deletion.state)]
    anchors = _nearest_that_remain(planned, remaining)
    changed += [root.path for root in anchors if state_of(root.path) != root.snapshot.state]
    if changed:
        raise UnavailableError(
            f"{target.name}: the table was rolled back, created again or changed in another way while the "
            f"job ran ({', '.join(changed[:3])}), so its plan does not fit any more and nothing else was "
            "removed; run again"
        )


def _state_of(file_io: FileIO, path: str) -> tuple[str, str] | None:
    """Return the state of a root file; None if it does not exist. Raises CorruptDataError."""
    try:
        return Snapshot.from_json(file_io.read(path), path).state
    except NotFoundError:
        return None


def _nearest_that_remain(deletions: Sequence[PlannedDeletion], remaining: RootSet) -> list[Root]:
    """Return, for each directory of snapshots, the snapshot that remains next to those that are removed:
    expiry leaves the first one above them, a rollback the last one below them.
    """
    numbers: dict[str, int] = {}
    for deletion in deletions:
        folder, _, name = deletion.path.rpartition("/")
        digits = name.removeprefix("snapshot-")
        if digits != name and digits.isdigit():
            numbers[folder] = int(digits)
    nearest = []
    for folder, number in numbers.items():
        roots = [root for root in remaining.roots if _is_snapshot_in(root, folder)]
        above = [root for root in roots if root.snapshot.id > number]
        if roots:
            nearest.append(min(above, key=_snapshot_id) if above else max(roots, key=_snapshot_id))
    return nearest


def _is_snapshot_in(root: Root, folder: str) -> bool:
    return root.kind is RootKind.SNAPSHOT and root.path.rpartition("/")[0] == folder


def _snapshot_id(root: Root) -> int:
    return root.snapshot.id
