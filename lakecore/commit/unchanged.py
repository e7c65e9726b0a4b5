"""What rows were placed by must still be so when they land, or one key would be in two places. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakecore.commit.conflict import Conflict
from lakecore.commit.request import Unchanged
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["has_same_identity", "index_moves", "may_rescale", "row_moves"]

_KEEPS_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)


def index_moves(unchanged: Unchanged, files: Sequence[IndexFile]) -> Iterator[Conflict]:
    """Partitions that have other hash files than the rows were placed by. `files`: all valid ones."""
    if unchanged.hash_files is None:
        return
    now: dict[bytes, set[str]] = {partition: set() for partition in unchanged.hash_files}
    for file in files:
        if file.index_type == HASH_INDEX and file.partition in now:
            now[file.partition].add(file.file_name)
    for partition, names in unchanged.hash_files.items():
        for name in sorted(names ^ now[partition]):
            yield Conflict("another commit assigned keys of this partition to buckets", partition, -1, name)


def row_moves(unchanged: Unchanged, newer: Sequence[Snapshot | None]) -> Iterator[Conflict]:
    """Snapshots after the one whose rows were looked at that may hold other rows; None: it is gone."""
    for snapshot in newer:
        if snapshot is None or snapshot.commit_kind not in _KEEPS_ROWS:
            name = "an expired snapshot" if snapshot is None else f"snapshot {snapshot.id}"
            yield Conflict("another commit added rows, perhaps with the same keys", b"", -1, name)


def may_rescale(snapshot: Snapshot | None) -> bool:
    """Only an overwriting snapshot changes how many buckets a partition has. None: it is gone."""
    return snapshot is None or snapshot.commit_kind is CommitKind.OVERWRITE


def has_same_identity(left: Snapshot, right: Snapshot) -> bool:
    """Not another one that took the id after a rollback."""
    return (
        left.id,
        left.commit_user,
        left.commit_identifier,
        left.time_millis,
        left.delta_manifest_list,
    ) == (
        right.id,
        right.commit_user,
        right.commit_identifier,
        right.time_millis,
        right.delta_manifest_list,
    )
