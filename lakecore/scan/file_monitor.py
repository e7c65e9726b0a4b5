"""The file monitor follows a table by its data files: first all files of the latest snapshot, then for each
snapshot the files that it removed and added, bucket by bucket, those of compactions included.

This is Paimon's `stream-scan-mode=file-monitor` (AllDeltaFollowUpScanner). Beyond it the deletion vectors of
a bucket come along, and a table that was rolled back is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import ExpiredError, NotFoundError
from lakecore.metadata.manifest.data_file import DataFile, EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.row.binary_row import decode_row
from lakecore.scan.plan import by_bucket
from lakecore.scan.pruning import prune_partitions
from lakecore.scan.scanner import Scanner

__all__ = ["FileChanges", "FileMonitor", "FilePlan"]

Bucket = tuple[bytes, int]
Vectors = dict[Bucket, dict[str, DeletionFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """These files of one bucket were removed and added."""

    snapshot_id: int
    partition: bytes
    """This is the serialised partition row."""
    partition_values: tuple[object, ...]
    """These are the values of the partition, as internal values."""
    bucket: int
    """The number is negative for rows that have no bucket yet."""
    total_buckets: int
    """It is 0 where only deletion vectors changed."""
    before: tuple[DataFile, ...]
    """These files were removed; there are none in the first plan."""
    after: tuple[DataFile, ...]
    """These files were added."""
    deletions: Mapping[str, DeletionFile]
    """These are all deletion vectors of the bucket at the snapshot, by the name of the data file."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """These are the changes of one snapshot, or all files of it."""

    snapshot: Snapshot
    full: bool
    """It tells whether these are all files of the snapshot, and not its changes."""
    buckets: tuple[FileChanges, ...]


class FileMonitor:
    """It iterates over the plans that exist by now; iterate again later for more. One thread may use it.

    The first plan costs the manifests of the latest snapshot, each further one those of its delta.
    """

    def __init__(
        self, scanner: Scanner, partitions: Predicate | None = None, start: Snapshot | None = None
    ) -> None:
        """Begin with all files of the snapshot `start`, None: of the latest when `poll` is first called.

        Buckets of partitions for which `partitions` is false are left out.
        """
        self._scanner = scanner
        self._partitions = partitions
        self._start = start
        self._last: Snapshot | None = None
        self._vectors: Vectors = {}

    def __iter__(self) -> Iterator[FilePlan]:
        while (plan := self.poll()) is not None:
            yield plan

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot of the last plan; None before the first."""
        return None if self._last is None else self._last.id

    def restart(self) -> None:
        """Start again with all files of the latest snapshot."""
        self._start = self._last = None
        self._vectors = {}

    def poll(self) -> FilePlan | None:
        """Return the next plan; None while there is no snapshot to follow.

        Raises ExpiredError when the next snapshot has expired, or the first one while it was read, or the
        table was rolled back or created again: `restart` then begins with a full plan.
        """
        if self._last is None:
            return self._first()
        snapshots = self._scanner.stores.snapshots
        snapshot = snapshots.find(self._last.id + 1)
        if snapshot is None:
            self._check_position(self._last)
        last = snapshots.find(self._last.id)  # after a rollback, as many commits may have come as were lost
        if last is not None and last != self._last:
            raise self._lost_error(self._last, "was replaced: the table was rolled back or created again")
        return None if snapshot is None else self._next(snapshot)

    def _first(self) -> FilePlan | None:
        snapshot = self._start or self._scanner.stores.snapshots.latest()
        if snapshot is None:
            return None
        try:
            entries = self._scanner.live_entries(snapshot, predicate=self._partitions, keys=True)
            entries, vectors = self._prune(entries), self._vectors_at(snapshot)
        except NotFoundError as err:
            raise ExpiredError(str(err)) from err
        plan = FilePlan(snapshot, True, tuple(self._changes(snapshot, entries, vectors)))
        self._last, self._vectors = snapshot, vectors
        return plan

    def _next(self, snapshot: Snapshot) -> FilePlan:
        manifests = self._scanner.stores.manifests_for_plans
        try:
            entries = manifests.read(manifests.read_list(snapshot.delta_manifest_list))
            last = self._last
            same = last is not None and last.index_manifest == snapshot.index_manifest
            vectors = self._vectors if same else self._vectors_at(snapshot)
        except NotFoundError as err:
            missing = self._scanner.stores.snapshots.missing_file(snapshot.id, err)
            if isinstance(missing, NotFoundError):
                raise ExpiredError(str(missing)) from err
            raise missing from err
        plan = FilePlan(snapshot, False, tuple(self._changes(snapshot, self._prune(entries), vectors)))
        self._last, self._vectors = snapshot, vectors
        return plan

    def _prune(self, entries: ManifestEntries) -> ManifestEntries:
        if self._partitions is None:
            return entries
        return prune_partitions(entries, self._partitions, self._scanner.stores.schema.partition_type)

    def _vectors_at(self, snapshot: Snapshot) -> Vectors:
        vectors: Vectors = {}
        for (partition, bucket, name), deletion in self._scanner.deletions(snapshot).items():
            vectors.setdefault((partition, bucket), {})[name] = deletion
        return vectors

    def _changes(
        self, snapshot: Snapshot, entries: ManifestEntries, vectors: Vectors
    ) -> Iterator[FileChanges]:
        """Yield the changes of files, then those of buckets where only deletion vectors changed."""
        buckets: set[Bucket] = set()
        for total, (partition, bucket), before, after in _by_bucket(entries):
            buckets.add((partition, bucket))
            yield self._of(snapshot, (partition, bucket), total, (before, after), vectors)
        if self._last is None:
            return
        for place in {*vectors, *self._vectors} - buckets:
            if vectors.get(place) != self._vectors.get(place):
                yield self._of(snapshot, place, 0, ((), ()), vectors)

    def _of(
        self,
        snapshot: Snapshot,
        place: Bucket,
        total: int,
        files: tuple[tuple[DataFile, ...], tuple[DataFile, ...]],
        vectors: Vectors,
    ) -> FileChanges:
        stores = self._scanner.stores
        return FileChanges(
            snapshot_id=snapshot.id,
            partition=place[0],
            partition_values=decode_row(place[0], stores.schema.partition_type, stores.paths.table_path),
            bucket=place[1],
            total_buckets=total,
            before=files[0],
            after=files[1],
            deletions=vectors.get(place, {}),
        )

    def _check_position(self, last: Snapshot) -> None:
        """Raise unless the next snapshot merely does not exist yet."""
        snapshots = self._scanner.stores.snapshots
        latest = snapshots.latest_id()
        if latest is None or latest < last.id:
            raise self._lost_error(last, "is after the latest: the table was rolled back or created again")
        if latest > last.id and snapshots.find(last.id + 1) is None:
            raise self._lost_error(last, "is the last that was read, and the next has expired")

    def _lost_error(self, last: Snapshot, problem: str) -> ExpiredError:
        snapshots = self._scanner.stores.snapshots
        earliest, latest = snapshots.earliest(), snapshots.latest_id()
        range_text = (
            "no snapshots exist" if earliest is None else f"snapshots {earliest.id} to {latest} exist"
        )
        return ExpiredError(
            f"snapshot {last.id} of {snapshots.paths.root} {problem}; {range_text}: "
            "start again with all files"
        )


def _by_bucket(
    entries: ManifestEntries,
) -> Iterator[tuple[int, Bucket, tuple[DataFile, ...], tuple[DataFile, ...]]]:
    """Yield the number of buckets, the bucket, the removed and the added files. A file that one snapshot both
    added and removed is in neither.
    """
    if not len(entries):
        return
    order, bounds = by_bucket(entries)
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        lanes = order[low:high]
        rows = entries.rows(np.asarray(lanes))
        removed = {row.identity: row.file for row in rows if row.kind is EntryKind.DELETE}
        added = {row.identity: row.file for row in rows if row.kind is EntryKind.ADD}
        both = removed.keys() & added.keys()
        before = tuple(file for identity, file in removed.items() if identity not in both)
        after = tuple(file for identity, file in added.items() if identity not in both)
        if before or after:
            yield rows[-1].total_buckets, (rows[0].partition, rows[0].bucket), before, after
