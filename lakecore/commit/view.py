"""This module has the views that a commit has of its table: the state at one try, and the live files of the
partitions that it touches, which are kept up to date between its tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from lakecore.commit.index_changes import DataFiles, Place
from lakecore.commit.partitions import PartitionBounds, SpecFilter
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.filters import ScanFilter
from lakecore.scan.partition_request import entry_request
from lakecore.store.table_stores import TableStores
from lakecore.types.datatypes import RowType

__all__ = ["LiveView", "TableView", "data_files"]


@dataclass(frozen=True, slots=True)
class TableView:
    """This is the state of the table that a try is planned on."""

    latest: Snapshot | None
    """This is the snapshot to build on; it is None before the first."""
    schema: TableSchema
    """This is the latest schema."""
    options: TableOptions
    """These are its options, without those of the commit."""
    raw: Mapping[str, str]
    """These are the options of the schema and, before them, those of the commit."""

    @classmethod
    def of(cls, latest: Snapshot | None, schema: TableSchema, overrides: Mapping[str, str]) -> TableView:
        """Return the view. Raises InvalidOptionError."""
        options = TableOptions.from_schema(schema)
        return cls(latest, schema, options, {**schema.options, **overrides})

    @property
    def next_id(self) -> int:
        """Return the id of the snapshot that the try would publish."""
        return 1 if self.latest is None else self.latest.id + 1


class LiveView:
    """These are the live entries of some partitions, which are given, or agree with a specification.

    Cost: reads the manifests whose partition bounds meet the given partitions (all of them for a
    specification), and keeps the entries of these partitions only; a later snapshot costs only the deltas
    since, while those snapshots still exist and their manifests were not merged.
    """

    def __init__(
        self,
        stores: TableStores,
        partition_type: RowType,
        partitions: frozenset[bytes] | SpecFilter,
    ) -> None:
        self._snapshots = stores.snapshots
        self._manifests = stores.manifests
        self._partitions = partitions
        self._box = (
            PartitionBounds.of(partitions, partition_type)
            if isinstance(partitions, frozenset) and partitions
            else None
        )
        self._request = WHOLE
        if isinstance(partitions, frozenset):
            where = ScanFilter(serialized=partitions)
            self._request = entry_request(where, None, partition_type, keys=False)
        self._entries = ManifestEntries.empty()
        self._at: Snapshot | None = None

    def at(self, snapshot: Snapshot | None) -> ManifestEntries:
        """Return the live entries as of `snapshot`. Raises CorruptDataError, NotFoundError for lost
        manifests.
        """
        if snapshot is None or self._partitions == frozenset():
            return ManifestEntries.empty()
        if self._at != snapshot:
            manifests = self._changes(snapshot)
            if manifests is None:
                self._entries = ManifestEntries.empty()
                manifests = self._manifests.data_manifests(snapshot)
            changes = self._read(manifests)
            where = f"the manifests of snapshot {snapshot.id}"
            self._entries = live_entries(ManifestEntries.concat([self._entries, changes]), where=where)
            self._at = snapshot
        return self._entries

    def _changes(self, snapshot: Snapshot) -> tuple[ManifestFile, ...] | None:
        """Return the manifests of the changes since the last snapshot; None when they cannot be determined.

        A writer that replaces files leaves snapshots behind that were built on an earlier state. So the base
        of `snapshot` has to name what each of those before it changed, which it does until it is merged.
        """
        if self._at is None or snapshot.id <= self._at.id:
            return None
        between = [self._snapshots.find(i) for i in range(self._at.id + 1, snapshot.id)]
        steps = [self._at, *(step for step in between if step is not None)]
        if len(steps) <= len(between):
            return None
        try:
            lists = [self._manifests.read_list(step.delta_manifest_list) for step in (*steps, snapshot)]
        except NotFoundError:  # the snapshot that we have, or one after it, has expired meanwhile
            return None
        base_names = {file.file_name for file in self._manifests.read_list(snapshot.base_manifest_list)}
        if any(file.file_name not in base_names for changed in lists[:-1] for file in changed):
            return None
        return tuple(file for changed in lists[1:] for file in changed)

    def _read(self, manifests: Sequence[ManifestFile]) -> ManifestEntries:
        box = self._box
        chosen = [manifest for manifest in manifests if box is None or box.meets(manifest)]
        entries = self._manifests.read(chosen, self._request)
        if isinstance(self._partitions, SpecFilter):
            inside = self._partitions.select(entries.partitions)
        else:
            inside = self._partitions
        codes = [code for code, value in enumerate(entries.partitions) if value in inside]
        return entries.select(np.isin(entries.partition, codes))


def data_files(
    base: ManifestEntries | None,
    delta: ManifestEntries,
    emptied: Callable[[Iterable[bytes]], frozenset[bytes]],
) -> DataFiles:
    """Return what `delta` does to the live files `base`, for the maintenance of their indexes."""

    def removed_places() -> frozenset[Place]:
        return _places(delta, EntryKind.DELETE) - _places(delta, EntryKind.ADD)

    def alive(buckets: frozenset[tuple[bytes, int]]) -> frozenset[Place]:
        before = base if base is not None else ManifestEntries.empty()
        after = _places(_of_buckets(before, buckets), EntryKind.ADD) - removed_places()
        return after | _places(delta, EntryKind.ADD)

    return DataFiles(removed_places, alive, emptied)


def _places(entries: ManifestEntries, kind: EntryKind) -> frozenset[Place]:
    part = entries.select(entries.kind == kind)
    partitions = [part.partitions[code] for code in part.partition.tolist()]
    names = (name.decode() for name in part.names())
    return frozenset(zip(partitions, part.bucket.tolist(), names, strict=True))


def _of_buckets(entries: ManifestEntries, buckets: frozenset[tuple[bytes, int]]) -> ManifestEntries:
    wanted_partitions = {partition for partition, _ in buckets}
    codes = [code for code, value in enumerate(entries.partitions) if value in wanted_partitions]
    numbers = sorted({bucket for _, bucket in buckets})
    return entries.select(np.isin(entries.partition, codes) & np.isin(entries.bucket, numbers))
