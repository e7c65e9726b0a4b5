"""The position of a table's watcher, and its events: each snapshot is emitted at least once.

A watcher that only remembered an id would miss what is committed after a rollback, or to a table that was
dropped and created again, because ids begin again there. So a position is an id and the time of that
snapshot: when the two no longer belong together, every snapshot that is not older than the position is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.jobs.watching.arrivals import Arrivals, added_entries
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text
from lakecore.store.snapshots import SnapshotStore
from lakecore.table import Table

__all__ = [
    "BEGINNING",
    "EARLIEST",
    "LATEST",
    "WatchPosition",
    "first_watch_position",
    "new_snapshots_since",
    "newest",
    "watch_position",
]

LATEST = "latest"
EARLIEST = "earliest"

_LISTED = 20
_LOOKED_INTO = 50


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """This is where a watcher stands: everything up to `snapshot` has been emitted; `time_millis` is when
    that snapshot was committed.
    """

    snapshot: int
    time_millis: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> WatchPosition:
        return cls(int(raw["snapshot"]), int(raw["time_millis"]))


BEGINNING = WatchPosition(0, 0)


class Tables(Protocol):
    """This is the part of a catalog that a watcher uses."""

    def load_table(self, name: str) -> Table: ...


def watch_position(snapshot: Snapshot | None) -> WatchPosition:
    """Return the position at a snapshot."""
    return BEGINNING if snapshot is None else WatchPosition(snapshot.id, snapshot.time_millis)


def first_watch_position(tables: Tables, table: str, start: str) -> WatchPosition:
    """Return the position of a watcher that has never emitted anything; with `latest` it is after the present
    snapshots.

    A table that does not exist yet is watched from its first snapshot on.
    """
    if start not in (LATEST, EARLIEST):
        raise InvalidInputError(f"start={start!r}: use {LATEST} or {EARLIEST}")
    if start == EARLIEST:
        return BEGINNING
    try:
        return watch_position(tables.load_table(table)._stores.snapshots.latest())
    except NotFoundError:
        return BEGINNING


def newest(snapshots: SnapshotStore) -> WatchPosition | None:
    """Return the position at the latest snapshot, with three small reads; None for a table without any."""
    latest = snapshots.latest()
    return None if latest is None else watch_position(latest)


def new_snapshots_since(
    arrivals: Arrivals, position: WatchPosition
) -> tuple[dict[str, Any] | None, WatchPosition]:
    """Return the event for the snapshots after `position`, if any, and the position to store when it has been
    emitted.

    While the condition does not hold, the position stays. The event is a small JSON object: `table`, `first`,
    `last` and `snapshot` (the last), `count`, `watermark`, and, where they are known, `partitions` (of at
    most 50 snapshots) and `tags`, the first 20 of each.
    """
    store, condition = arrivals.table._stores.snapshots, arrivals.condition
    ids = store.list_ids()
    after = [
        snapshot
        for snapshot in arrivals.existing(_candidates(store, ids, position))
        if _is_new(snapshot, position)
    ]
    if not after:
        return None, position
    snapshots, rows = arrivals.gather(after)
    if not snapshots:
        return None, watch_position(after[-1])
    if len(snapshots) < condition.count or rows < condition.rows:
        return None, position
    return _event(arrivals.table, snapshots, after[-1]), watch_position(after[-1])


def _candidates(store: SnapshotStore, ids: Sequence[int], position: WatchPosition) -> Sequence[int]:
    """Return the ids above the position; all ids when the position was made in another history."""
    there = store.find(position.snapshot) if position.snapshot in ids else None
    other = bool(ids) and (
        ids[-1] < position.snapshot or (there is not None and watch_position(there) != position)
    )
    return ids if other else [one for one in ids if one > position.snapshot]


def _is_new(snapshot: Snapshot, position: WatchPosition) -> bool:
    return snapshot.id > position.snapshot or (
        snapshot.time_millis >= position.time_millis and watch_position(snapshot) != position
    )


def _event(table: Table, snapshots: Sequence[Snapshot], latest: Snapshot) -> dict[str, Any]:
    news: dict[str, Any] = {
        "table": table.name,
        "first": snapshots[0].id,
        "last": snapshots[-1].id,
        "snapshot": snapshots[-1].id,
        "count": len(snapshots),
        "watermark": latest.watermark,
    }
    if table.schema.partition_keys and len(snapshots) <= _LOOKED_INTO:
        names = _partitions(table, snapshots)
        news |= {"partitions": names[:_LISTED], "partitions_count": len(names)}
    tags = _tags(table, snapshots)
    return news | ({"tags": tags} if tags else {})


def _partitions(table: Table, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the partitions that got files."""
    partition_type, partitions = table.schema.partition_type, set()
    for snapshot in snapshots:
        try:
            entries = added_entries(table, snapshot)
        except NotFoundError:
            continue  # expired meanwhile: it is told all the same
        partitions |= {entries.partitions[code] for code in np.unique(entries.partition).tolist()}
    return sorted(
        partition_text(decode_row(one, partition_type, table.path), partition_type) for one in partitions
    )


def _tags(table: Table, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the tags that refer to one of the snapshots; tags older than the first one are not opened."""
    ids, oldest = {snapshot.id for snapshot in snapshots}, snapshots[0].time_millis
    names = []
    for status in table._stores.file_io.list(table._stores.paths.tag_dir):
        name = status.name.removeprefix("tag-")
        if status.is_dir or name == status.name or 0 < status.mtime_ms < oldest:
            continue
        try:
            if table._stores.tags.load(name).id in ids:
                names.append(name)
        except NotFoundError:
            continue  # deleted meanwhile
    return sorted(names)[:_LISTED]
