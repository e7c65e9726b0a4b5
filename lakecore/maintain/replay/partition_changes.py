"""This module reads what each commit of a table did to its partitions, for a replay of their expiry.

Cost: the manifests of the first snapshot and the delta manifests of the later ones are read once; an entry
takes some 5 us and some 300 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakecore.maintain.partitions.apply import partition_of
from lakecore.maintain.replay.partition_history import PartitionCommit, PartitionFile, PartitionHistory
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["read_partition_history"]


def read_partition_history(target: Target) -> PartitionHistory:
    """Read the commits of a branch, oldest first. The first one adds all files of its snapshot.

    Raises UnavailableError, NotFoundError, CorruptDataError when something that a snapshot needs cannot be
    read.
    """
    reader = _Reader(target)
    commits = tuple(reader.commits())
    return PartitionHistory(
        partitions=tuple(partition_of(target, one) for one in reader.partitions),
        rows=tuple(reader.partitions),
        commits=commits,
    )


class _Reader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self.partitions: dict[bytes, int] = {}
        """These are the serialised partitions, with their numbers."""
        self._live: set[int] = set()

    def commits(self) -> Iterator[PartitionCommit]:
        """Yield the commits. Where a snapshot is missing before one, all of its files are compared."""
        before: int | None = None
        for number in self._target.snapshots.list_ids():
            snapshot = self._target.snapshots.load(number)
            added, removed = self._change(snapshot, follows=before == number - 1)
            self._live = (self._live - removed) | {file.name for file in added}
            yield PartitionCommit(
                snapshot=number,
                time_ms=snapshot.time_millis,
                compacts=snapshot.commit_kind is CommitKind.COMPACT,
                added=tuple(added),
                removed=tuple(removed),
            )
            before = number

    def _change(self, snapshot: Snapshot, *, follows: bool) -> tuple[list[PartitionFile], set[int]]:
        manifests = self._target.manifests
        if follows:
            entries = manifests.read(manifests.read_list(snapshot.delta_manifest_list))
            added = self._files(entries.select(entries.kind == EntryKind.ADD))
            return added, set(entries.name_hash[entries.kind == EntryKind.DELETE].tolist())
        where = f"snapshot {snapshot.id}"
        every = self._files(live_entries(manifests.read(manifests.data_manifests(snapshot)), where=where))
        removed = self._live - {file.name for file in every}
        return [file for file in every if file.name not in self._live], removed

    def _files(self, entries: ManifestEntries) -> list[PartitionFile]:
        codes = [self.partitions.setdefault(one, len(self.partitions)) for one in entries.partitions]
        partitions = np.array(codes, np.int64)[entries.partition] if codes else entries.partition
        columns = (entries.name_hash, partitions, entries.bucket, entries.file_size, entries.row_count)
        times = np.maximum(entries.times(), 0)
        rows = zip(*(one.tolist() for one in (*columns, times)), strict=True)
        return [PartitionFile(*row) for row in rows]
