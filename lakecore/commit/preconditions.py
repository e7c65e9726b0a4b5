"""The checks of `Preconditions`: were they ignored, one key could be placed in two buckets, or rows replaced
unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakecore.commit.conflict import Conflict
from lakecore.commit.request import Preconditions, RowsRead
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = [
    "added_row_snapshots",
    "changed_hash_indexes",
    "changed_rows",
    "has_same_identity",
    "may_rescale",
]


def changed_hash_indexes(preconditions: Preconditions, files: Sequence[IndexFile]) -> Iterator[Conflict]:
    """Find partitions whose hash index files have changed since the rows were placed. `files`: all valid
    ones.
    """
    if preconditions.hash_indexes is None:
        return
    now: dict[bytes, set[str]] = {partition: set() for partition in preconditions.hash_indexes}
    for file in files:
        if file.index_type == HASH_INDEX and file.partition in now:
            now[file.partition].add(file.file_name)
    for partition, names in preconditions.hash_indexes.items():
        for name in sorted(names ^ now[partition]):
            yield Conflict("another commit assigned keys of this partition to buckets", partition, -1, name)


def added_row_snapshots(preconditions: Preconditions, newer: Sequence[Snapshot | None]) -> Iterator[Conflict]:
    """Find snapshots after the read one that may hold other rows; None stands for an expired snapshot."""
    for snapshot in newer:
        if snapshot is None or not snapshot.commit_kind.keeps_rows:
            reason = "another commit added rows, perhaps with the same keys"
            yield Conflict(reason, b"", -1, _name_of(snapshot))


def changed_rows(rows: RowsRead, newer: Sequence[Snapshot | None]) -> Iterator[Conflict]:
    """Find snapshots after the read one that may have changed the rows of which the commit was made."""
    for snapshot in rows.changed_by(newer):
        yield Conflict("another commit changed rows that this one has read", b"", -1, _name_of(snapshot))


def _name_of(snapshot: Snapshot | None) -> str:
    return "an expired snapshot" if snapshot is None else f"snapshot {snapshot.id}"


def may_rescale(snapshot: Snapshot | None, *, own_counts: bool) -> bool:
    """Return whether the snapshot may change the bucket counts of partitions. None: it has expired.

    An overwriting one may. With `own_counts` each partition gets a count of its own, from the first commit
    that gives its rows buckets, which may be any.
    """
    if snapshot is None or snapshot.commit_kind is CommitKind.OVERWRITE:
        return True
    return own_counts and snapshot.commit_kind is not CommitKind.ANALYZE


def has_same_identity(left: Snapshot, right: Snapshot) -> bool:
    """Return whether both are one snapshot, not another one that took the id after a rollback."""
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
