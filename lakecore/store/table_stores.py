"""This module holds all stores of a table in one value."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.store.branches import BranchStore
from lakecore.store.cache.manifest_cache import ManifestCache
from lakecore.store.cache.manifest_reader import ManifestReader
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.consumers import ConsumerStore
from lakecore.store.indexes import IndexStore
from lakecore.store.manifests import ManifestStore
from lakecore.store.partition_list import DoneMarks, PartitionList
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.table_lock import TableLock
from lakecore.store.tags import TagStore
from lakecore.store.version_management import VersionManagement

__all__ = ["TableStores"]


@dataclass(frozen=True)
class TableStores:
    """These are the stores of the parts of a table, or of a branch of one. It can be pickled when its
    storage can.

    A store is made when it is first used, and kept; making one reads nothing. What the methods of the stores
    read is in their docstrings. `schemas` keeps the schemas that it loaded, because they never change; the
    other stores keep nothing.
    """

    schema: TableSchema
    """This is the latest schema when the table was loaded, with the options of the handle."""
    file_io: FileIO
    paths: TablePaths
    """These are the paths of the branch."""
    clock: Clock = field(default_factory=SystemClock)
    lock: TableLock | None = None
    """Whoever publishes a snapshot holds it; None where the catalog has no lock."""
    versions: VersionManagement | None = None
    """This is the server that commits snapshots; None where files are published."""
    partition_list: PartitionList | None = None
    """Commits and tags are entered there; None where the catalog keeps no list of the table's partitions, or
    keeps it by itself.
    """
    done_marks: DoneMarks | None = None
    """The catalog stores there which partitions are complete; None where it does not."""

    manifest_cache: ManifestCache | None = field(default=None, repr=False, compare=False)
    """Plans of reads keep decoded manifests there; None where the catalog keeps none."""

    @property
    def root(self) -> str:
        """Return the directory of the branch, which is its name in messages of commits."""
        return self.paths.root

    @cached_property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.file_io, self.paths, self.clock, self.lock, self.versions)

    @cached_property
    def schemas(self) -> SchemaStore:
        return SchemaStore(self.file_io, self.paths, self.clock)

    @cached_property
    def manifests(self) -> ManifestStore:
        return ManifestStore(self.file_io, self.paths, self.schema, self.clock)

    @property
    def manifests_for_plans(self) -> ManifestStore | ManifestReader:
        """Return what plans of reads read manifests with."""
        if self.manifest_cache is None:
            return self.manifests
        return ManifestReader(self.manifests, self.manifest_cache)

    @cached_property
    def indexes(self) -> IndexStore:
        return IndexStore(self.file_io, self.paths, self.schema, self.clock)

    @cached_property
    def tags(self) -> TagStore:
        return TagStore(self.file_io, self.paths)

    @cached_property
    def branches(self) -> BranchStore:
        return BranchStore(self.file_io, self.paths)

    @cached_property
    def changelogs(self) -> ChangelogStore:
        return ChangelogStore(self.file_io, self.paths)

    @cached_property
    def consumers(self) -> ConsumerStore:
        return ConsumerStore(self.file_io, self.paths, self.clock)
