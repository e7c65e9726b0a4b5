"""The scanner reads the manifests of a snapshot and plans its splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.metadata.dedicated_columns import counts_blob_size
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES, BucketCounts, in_groups
from lakecore.metadata.manifest.entries import NO_TIME, ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile, IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.options import PK_CLUSTERING_OVERRIDE, BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.scan.filters import EVERYTHING, ScanFilter, keeps_manifest, select_entries
from lakecore.scan.partition_request import entry_request, keeps_manifests
from lakecore.scan.plan import SplitPolicy, plan_splits
from lakecore.scan.pruning import prune_buckets, prune_files, prune_indexed, prune_partitions
from lakecore.scan.row_ranges import plan_row_ranges
from lakecore.scan.split import SplitPlan
from lakecore.scan.support import check_readable
from lakecore.store.table_stores import TableStores

__all__ = ["Scanner", "SkippedFiles", "created_since"]

T = TypeVar("T")

_COUNTED_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """It counts the files that one step of a plan leaves out."""

    reason: str
    """The step looks at this."""
    files: int
    """So many files are left out."""
    size: int
    """They have so many bytes."""

    @classmethod
    def between(cls, reason: str, before: ManifestEntries, after: ManifestEntries) -> SkippedFiles:
        """Return the difference of two selections."""
        size = int(before.file_size.sum()) - int(after.file_size.sum())
        return cls(reason, len(before) - len(after), size)


@dataclass(frozen=True)
class Scanner:
    """It scans one branch of a table. `table` is the table's name in messages."""

    table: str
    stores: TableStores
    lists: tuple[Snapshot, tuple[ManifestFile, ...]] | None = None
    """These are the manifests of one snapshot, where they are known already."""

    def with_lists(self, snapshot: Snapshot) -> Scanner:
        """Return the same scanner, which has read the manifest lists of `snapshot`: several plans of it read
        them once. It raises as `live_entries` does.
        """
        return replace(self, lists=(snapshot, self._manifests_of(snapshot)))

    def _manifests_of(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        if self.lists is not None and self.lists[0] == snapshot:
            return self.lists[1]
        return self._load(snapshot, lambda: self.stores.manifests_for_plans.data_manifests(snapshot))

    def check(self, schema: TableSchema) -> None:
        """Raise UnsupportedError unless this release reads a snapshot with `schema` correctly."""
        check_readable(self.table, schema, TableOptions.from_schema(schema))

    def index_files(self, snapshot: Snapshot) -> tuple[IndexFile, ...]:
        """Return the index files valid at `snapshot`. It raises as `live_entries` does."""
        return self._load(
            snapshot, lambda: self.stores.manifests_for_plans.read_index(snapshot.index_manifest)
        )

    def deletions(
        self, snapshot: Snapshot, where: ScanFilter = EVERYTHING
    ) -> dict[tuple[bytes, int, str], DeletionFile]:
        """Return the deletion vectors at `snapshot`, by serialised partition, bucket and name of the data
        file. Those of other partitions and buckets than `where` names may be left out.

        They count even if option `deletion-vectors.enabled` was switched off later (other engines then
        show the deleted rows again, until it is switched on). It costs a read of the index manifest, if
        there is one, and raises as `live_entries` does.
        """
        store = self.stores.indexes
        return {
            (file.partition, file.bucket, place.data_file): DeletionFile(store.path(file), place)
            for file in self.index_files(snapshot)
            if (where.serialized is None or file.partition in where.serialized)
            and (where.buckets is None or file.bucket in where.buckets)
            for place in file.deletions
        }

    def live_entries(
        self,
        snapshot: Snapshot,
        where: ScanFilter = EVERYTHING,
        predicate: Predicate | None = None,
        *,
        keys: bool = False,
    ) -> ManifestEntries:
        """Return the live files at `snapshot` that the filter selects, as ADD entries in the order of the
        manifests.

        Files of partitions for which `predicate` is false may be left out. `keys`: the caller asks for the
        keys of the files.

        Raises NotFoundError when the snapshot has expired meanwhile, CorruptDataError, InvalidInputError.
        """
        partition_type = self.stores.schema.partition_type
        files = self._manifests(snapshot, where, predicate)
        request = entry_request(where, predicate, partition_type, keys=keys)
        entries = self._load(snapshot, lambda: self.stores.manifests_for_plans.read(files, request))
        entries = select_entries(entries, where, partition_type)
        return live_entries(entries, where=f"manifests of snapshot {snapshot.id} of table {self.table}")

    def groups(
        self,
        snapshot: Snapshot,
        where: ScanFilter = EVERYTHING,
        predicate: Predicate | None = None,
        *,
        most: int = GROUP_FILES,
        undivided: int = GROUP_FILES,
    ) -> Iterator[ScanFilter]:
        """Yield filters that together select the files of `where`, each once: a plan with one of them has at
        most some `most` files. It is `where` alone if manifests have at most `undivided` entries for it.

        Files of partitions for which `predicate` is false may be left out. Of a larger table, all manifests
        that are needed are decoded once for the counts, some hundreds of thousands of entries at a time. This
        takes 2 s a million. The filters know in which blocks of the manifests their entries lie: together
        their plans decode every block once, and again only those that have entries of several groups. Where
        each block has entries of all partitions, each plan decodes all of them; so it does with manifests in
        parquet and orc. It raises as `live_entries` does.
        """
        rows = snapshot.total_record_count
        if rows is not None and rows <= undivided:  # a file has a row at least
            yield where
            return
        files = self._manifests(snapshot, where, predicate)
        if sum(file.entry_count for file in files) <= undivided:
            yield where
            return
        counts = BucketCounts()
        request = entry_request(where, predicate, self.stores.schema.partition_type, keys=False)
        for chunk in in_groups(((file, file.entry_count) for file in files), _COUNTED_AT_ONCE):
            entries = self._load(snapshot, partial(self.stores.manifests.read, chunk, request))
            counts.add(select_entries(entries, where, self.stores.schema.partition_type), entries)
        for group in counts.groups(most):
            yield where.of_group(group)

    def _manifests(
        self, snapshot: Snapshot, where: ScanFilter, predicate: Predicate | None
    ) -> tuple[ManifestFile, ...]:
        """Return the manifests that can have entries of the selection."""
        partition_type = self.stores.schema.partition_type
        where.check(partition_type)
        files = self._manifests_of(snapshot)
        files = tuple(file for file in files if keeps_manifest(file, where, partition_type))
        is_needed = keeps_manifests(files, predicate, partition_type).tolist()
        return tuple(file for file, keeps in zip(files, is_needed, strict=True) if keeps)

    def plan(
        self,
        snapshot: Snapshot | None,
        schema: TableSchema,
        where: ScanFilter = EVERYTHING,
        predicate: Predicate | None = None,
        *,
        created_ms: int | None = None,
        with_level_0: bool = False,
    ) -> SplitPlan:
        """Plan the splits of a batch read of `snapshot` with `schema`; there are none without a snapshot.

        Files that certainly hold no row for which `predicate` is true are left out: the reader still has
        to filter. Postponed buckets (negative numbers) hold rows that are not part of the table yet.
        `created_ms`: only files created at or after this time (milliseconds since the epoch).
        `with_level_0` includes level 0 where a batch read skips it, for streams that read on from there.
        It raises as `live_entries` does; call `check` first to learn whether the table can be read.
        """
        entries = ManifestEntries.empty()
        if snapshot is not None:
            entries = self.live_entries(snapshot, where, predicate, keys=bool(schema.primary_keys))
        steps = self._steps(entries, schema, predicate, created_ms=created_ms, with_level_0=with_level_0)
        for _, entries_left in steps:
            entries = entries_left
        return self._splits(snapshot, schema, entries, where)

    def _splits(
        self,
        snapshot: Snapshot | None,
        schema: TableSchema,
        entries: ManifestEntries,
        where: ScanFilter = EVERYTHING,
    ) -> SplitPlan:
        """Return the splits of the files that are read."""
        options = TableOptions.from_schema(schema)
        keyed = bool(schema.primary_keys)
        if not options.data_evolution:
            self._check_whole_rows(entries)
        policy = SplitPolicy.from_options(schema.options)
        key_type = schema.key_type if keyed else None
        if options.data_evolution:
            plan = plan_row_ranges(
                entries, policy, self.table, count_blob_size=counts_blob_size(schema.options)
            )
        else:
            alone = options.skips_level_0 or options.deletion_vectors
            unordered = self._is_unordered(entries, options)
            plan = plan_splits(entries, policy, key_type, keys_unique=alone, unordered=unordered)
        return plan if snapshot is None else replace(plan, deletions=self.deletions(snapshot, where))

    def explain(
        self,
        snapshot: Snapshot,
        schema: TableSchema,
        where: ScanFilter = EVERYTHING,
        predicate: Predicate | None = None,
        *,
        created_ms: int | None = None,
        with_level_0: bool = False,
    ) -> tuple[SplitPlan, tuple[SkippedFiles, ...]]:
        """Return the plan with these arguments, and what it leaves out, step by step. It reads all
        manifests, as a plan without a predicate does.
        """
        entries = self.live_entries(snapshot, keys=bool(schema.primary_keys))
        in_partitions = select_entries(entries, where, schema.partition_type)
        skipped = [
            SkippedFiles.between("partitions, buckets or levels that were named", entries, in_partitions)
        ]
        steps = self._steps(
            in_partitions, schema, predicate, created_ms=created_ms, with_level_0=with_level_0
        )
        for reason, rest in steps:
            skipped.append(SkippedFiles.between(reason, in_partitions, rest))
            in_partitions = rest
        return self._splits(snapshot, schema, in_partitions), tuple(one for one in skipped if one.files)

    def _steps(
        self,
        entries: ManifestEntries,
        schema: TableSchema,
        predicate: Predicate | None,
        *,
        created_ms: int | None,
        with_level_0: bool,
    ) -> Iterator[tuple[str, ManifestEntries]]:
        """Yield what is left after each step of the selection, and what the step looks at."""
        options = TableOptions.from_schema(schema)
        load = self.stores.schemas.load
        unique = bool(schema.primary_keys) and options.skips_level_0 and not with_level_0
        if unique:
            entries = entries.select(entries.level > 0)
            yield "level 0, which is read after a compaction", entries
        if predicate is not None:
            entries = prune_partitions(entries, predicate, schema.partition_type)
            yield "conditions on partitions", entries
            entries = prune_buckets(entries, predicate, schema, load)
            yield "conditions on bucket keys", entries
            if not options.data_evolution:
                entries = prune_files(entries, predicate, schema, load, unique=unique)
                yield "statistics of columns", entries
                if unique or not schema.primary_keys:
                    entries = prune_indexed(entries, predicate, schema, load)
                    yield "file indexes in manifests", entries
        if options.bucket_mode is BucketMode.POSTPONE:
            entries = entries.select(entries.bucket >= 0)
            yield "rows without a bucket", entries
        if created_ms is not None:
            entries = created_since(entries, created_ms)
            yield "creation times of files", entries

    def _is_unordered(self, entries: ManifestEntries, options: TableOptions) -> bool:
        """Return whether files are in no order of keys. Then no two of their rows share one, except for those
        of level 0.
        """
        if options.pk_clustering_override and (entries.level == 0).any():
            raise UnsupportedError(
                f"table {self.table}: option {PK_CLUSTERING_OVERRIDE.key}=true: this release does not merge "
                "level 0 with files that are sorted by other columns than the key; compact the table, or "
                "read without deletion-vectors.merge-on-read"
            )
        return options.pk_clustering_override

    def _check_whole_rows(self, entries: ManifestEntries) -> None:
        """Check that files of some columns only (data evolution) are not read as whole rows.

        Only tables that track rows write them. It costs the details of every file there.
        """
        for file in entries.files() if self._tracks_rows(entries) else ():
            names = self.stores.schemas.load(file.schema_id).row_type.names
            if file.write_cols is not None and not set(names) <= set(file.write_cols):
                columns = ", ".join(file.write_cols)
                raise UnsupportedError(
                    f"table {self.table}: file {file.file_name} holds the columns {columns} only, which this "
                    "release cannot join with the others; use another engine"
                )

    def _tracks_rows(self, entries: ManifestEntries) -> bool:
        return bool((entries.first_row_id >= 0).any()) or any(
            TableOptions.from_schema(self.stores.schemas.load(schema_id)).row_tracking
            for schema_id in np.unique(entries.schema_id).tolist()
        )

    def _load(self, snapshot: Snapshot, read: Callable[[], T]) -> T:
        """Return the result of `read()`; when a file is gone, the error tells whether the snapshot expired or
        the table is damaged.
        """
        try:
            return read()
        except NotFoundError as err:
            raise self.stores.snapshots.missing_file(snapshot.id, err) from err


def created_since(entries: ManifestEntries, created_ms: int) -> ManifestEntries:
    """Return the files created at or after a time, or at an unknown time. It costs some 1 us a file."""
    times = entries.times()
    return entries.select((times == NO_TIME) | (times >= created_ms))
