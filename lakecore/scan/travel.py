"""Which snapshot a read sees: the latest, or one by id, tag or time."""

from __future__ import annotations

from dataclasses import dataclass

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore

__all__ = ["LATEST", "Travel", "travelled_snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """At most one is given; `timestamp_ms` since the epoch. None of them: the latest snapshot."""

    snapshot: int | None = None
    tag: str | None = None
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in self.__slots__ if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"{' and '.join(given)} exclude each other; give one")

    @property
    def is_latest(self) -> bool:
        """Nothing was asked for: the read uses the latest schema, else that of the snapshot."""
        return self.snapshot is None and self.tag is None and self.timestamp_ms is None


LATEST = Travel()


def travelled_snapshot(travel: Travel, snapshots: SnapshotStore, tags: TagStore) -> Snapshot | None:
    """The snapshot to read; None when the latest is asked for and there is none yet.

    Raises NotFoundError that names what there is.
    """
    if travel.snapshot is not None:
        return snapshots.load(travel.snapshot)
    if travel.tag is not None:
        return tags.load(travel.tag)
    if travel.timestamp_ms is not None:
        return _at_time(travel.timestamp_ms, snapshots)
    return snapshots.latest()


def _at_time(timestamp_ms: int, snapshots: SnapshotStore) -> Snapshot:
    """The last snapshot committed at or before a time. Costs a listing and a few reads.

    Times are taken to grow with ids, as the format assumes. Snapshots that expire meanwhile count as too old.
    """
    ids = snapshots.list_ids()
    low, high = 0, len(ids)
    found: Snapshot | None = None
    while low < high:
        middle = (low + high) // 2
        snapshot = _find(ids[middle], snapshots)
        if snapshot is None or snapshot.time_millis <= timestamp_ms:
            low, found = middle + 1, snapshot or found
        else:
            high = middle
    if found is None:
        earliest = snapshots.earliest()
        known = (
            f"the earliest is {earliest.id} at {earliest.time_millis} ms" if earliest else "there are none"
        )
        raise NotFoundError(f"no snapshot of {snapshots.paths.root} at or before {timestamp_ms} ms; {known}")
    return found


def _find(snapshot_id: int, snapshots: SnapshotStore) -> Snapshot | None:
    try:
        return snapshots.load(snapshot_id)
    except NotFoundError:
        return None
