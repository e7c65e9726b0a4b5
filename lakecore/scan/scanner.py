"""Reads the manifests of a snapshot and plans its splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.index_file import IndexFile
from lakecore.metadata.key_order import key_order
from lakecore.metadata.netting import live
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.scan.filters import EVERYTHING, ScanFilter, keeps_manifest, select_entries
from lakecore.scan.plan import SplitPolicy, plan_splits
from lakecore.scan.pruning import prune_buckets, prune_files, prune_indexed, prune_partitions
from lakecore.scan.split import SplitPlan
from lakecore.scan.support import check_index_files, check_readable
from lakecore.store.manifests import ManifestStore
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore

__all__ = ["Scanner"]

T = TypeVar("T")


@dataclass(frozen=True)
class Scanner:
    """Scans one branch of a table. `table` is its name in messages."""

    table: str
    snapshots: SnapshotStore
    schemas: SchemaStore
    manifests: ManifestStore

    def check(self, snapshot: Snapshot | None, schema: TableSchema) -> None:
        """Raises UnsupportedError unless this release can read `snapshot` with `schema` right.

        Costs a read of the index manifest, if there is one.
        """
        check_readable(self.table, schema, TableOptions.from_schema(schema))
        if snapshot is not None:
            check_index_files(self.table, snapshot.id, self.index_files(snapshot))

    def index_files(self, snapshot: Snapshot) -> tuple[IndexFile, ...]:
        """The index files valid at `snapshot`. Errors as `live_entries`."""
        return self._load(snapshot, lambda: self.manifests.read_index(snapshot.index_manifest))

    def live_entries(self, snapshot: Snapshot, where: ScanFilter = EVERYTHING) -> ManifestEntries:
        """The live files at `snapshot` that `where` wants, as ADD entries in the order of the manifests.

        Raises NotFoundError when the snapshot expired meanwhile, CorruptDataError, InvalidInputError.
        """
        partition_type = self.manifests.schema.partition_type
        where.check(partition_type)
        files = self._load(snapshot, lambda: self.manifests.data_manifests(snapshot))
        files = tuple(file for file in files if keeps_manifest(file, where, partition_type))
        entries = self._load(snapshot, lambda: self.manifests.read(files))
        entries = select_entries(entries, where, partition_type)
        return live(entries, where=f"manifests of snapshot {snapshot.id} of table {self.table}")

    def plan(
        self,
        snapshot: Snapshot | None,
        schema: TableSchema,
        where: ScanFilter = EVERYTHING,
        predicate: Predicate | None = None,
        *,
        created_ms: int | None = None,
    ) -> SplitPlan:
        """The splits of a batch read of `snapshot` with `schema`; none when there is no snapshot.

        Files that cannot hold a row for which `predicate` is true are left out where that is certain: the
        reader still has to filter. Postponed buckets (negative numbers) hold rows that are not part of the
        table yet. `created_ms`: only files made at or after this time; costs the details of every file.
        Errors as `live_entries`; `check` first whether the table can be read.
        """
        entries = ManifestEntries.empty() if snapshot is None else self.live_entries(snapshot, where)
        if predicate is not None:
            entries = prune_partitions(entries, predicate, schema.partition_type)
            entries = prune_buckets(entries, predicate, schema, self.schemas.load)
            entries = prune_files(entries, predicate, schema, self.schemas.load)
            if not schema.primary_keys:
                entries = prune_indexed(entries, predicate, schema, self.schemas.load)
        if TableOptions.from_schema(schema).bucket_mode is BucketMode.POSTPONE:
            entries = entries.select(entries.bucket >= 0)
        if created_ms is not None:
            made = [
                file.creation_time is None or file.creation_time >= created_ms for file in entries.files()
            ]
            entries = entries.select(np.array(made, np.bool_))
        self._check_whole_rows(entries)
        keyed = bool(schema.primary_keys)
        key_of = key_order(schema.key_type) if keyed else None
        return plan_splits(entries, SplitPolicy.from_options(schema.options), key_of)

    def _check_whole_rows(self, entries: ManifestEntries) -> None:
        """Files of some columns only (data evolution) must not be read as whole rows.

        Only tables that track rows write them. Costs the details of every file there.
        """
        for file in entries.files() if self._tracks_rows(entries) else ():
            names = self.schemas.load(file.schema_id).row_type.names
            if file.write_cols is not None and not set(names) <= set(file.write_cols):
                held = ", ".join(file.write_cols)
                raise UnsupportedError(
                    f"table {self.table}: file {file.file_name} holds the columns {held} only, which this "
                    "release cannot join with the others; use another engine"
                )

    def _tracks_rows(self, entries: ManifestEntries) -> bool:
        return bool((entries.first_row_id >= 0).any()) or any(
            TableOptions.from_schema(self.schemas.load(schema_id)).row_tracking
            for schema_id in np.unique(entries.schema_id).tolist()
        )

    def _load(self, snapshot: Snapshot, read: Callable[[], T]) -> T:
        """`read()`; when a file is gone, says whether the snapshot expired or the table is damaged."""
        try:
            return read()
        except NotFoundError as err:
            raise self.snapshots.missing_file(snapshot.id, err) from err
