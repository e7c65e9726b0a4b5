"""A table of metadata only, to commit to: manifests and snapshots are real, data files are a few bytes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.clock import Clock
from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest
from lakecore.fs.file_io import FileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.paths import TablePaths
from lakecore.store.table_stores import TableStores
from tests.support.builders import data_file, table_schema
from tests.support.fake_clock import FakeClock

__all__ = ["CommitTable"]


class CommitTable:
    """Stores and a committer over one storage. `through` opens the same table through another one."""

    def __init__(
        self,
        schema: TableSchema | None = None,
        *,
        storage: FileIO | None = None,
        path: str = "memory://t/db.db/t",
        clock: Clock | None = None,
    ) -> None:
        self.schema = schema or table_schema()
        self.storage = storage or MemoryFileIO(uuid.uuid4().hex)
        self.clock = clock or FakeClock()
        self.paths = TablePaths(path)
        self.stores = TableStores(self.schema, self.storage, self.paths, self.clock)
        self.snapshots, self.schemas = self.stores.snapshots, self.stores.schemas
        self.manifests, self.indexes = self.stores.manifests, self.stores.indexes

    def created(self) -> CommitTable:
        """Publish the schema; returns itself."""
        self.schemas.publish(self.schema)
        return self

    def through(self, storage: FileIO) -> CommitTable:
        return CommitTable(self.schema, storage=storage, path=self.paths.table_path, clock=self.clock)

    def committer(self, options: Mapping[str, str] | None = None) -> Committer:
        return Committer(self.stores, options)

    def commit(self, messages: Sequence[Any], *, identifier: int, **arguments: Any) -> Any:
        """By user `u` unless said otherwise."""
        user = arguments.pop("commit_user", "u")
        options = arguments.pop("options", None)
        return self.committer(options).commit(
            messages, CommitRequest(user=user, identifier=identifier, **arguments)
        )

    def file(self, name: str, **fields: Any) -> DataFile:
        """A data file that exists, in bucket 0 of a table without partitions."""
        file = data_file(name, schema=self.schema, **fields)
        path = f"{self._bucket_dir()}/{name}"
        if self.storage.stat(path) is None:
            self.storage.write_new(path, b"x")
        return file

    def live(self, snapshot: Snapshot | None = None) -> list[str]:
        """Names of the live files, `name@level` above level 0, sorted."""
        snapshot = snapshot or self.snapshots.latest()
        if snapshot is None:
            return []
        entries = live_entries(self.manifests.read(self.manifests.data_manifests(snapshot))).rows()
        return sorted(
            entry.file.file_name + (f"@{entry.file.level}" if entry.file.level else "") for entry in entries
        )

    def history(self) -> list[str]:
        """One line a snapshot: id, kind, user and identifier."""
        found = [self.snapshots.load(snapshot_id) for snapshot_id in self.snapshots.list_ids()]
        return [f"{s.id} {s.commit_kind.value} {s.commit_user}/{s.commit_identifier}" for s in found]

    def referenced(self) -> set[str]:
        """Names of all manifests and lists that some snapshot needs; reading them proves that they are whole."""
        names: set[str] = set()
        for snapshot_id in self.snapshots.list_ids():
            snapshot = self.snapshots.load(snapshot_id)
            lists = (
                snapshot.base_manifest_list,
                snapshot.delta_manifest_list,
                snapshot.changelog_manifest_list,
            )
            for name in filter(None, lists):
                manifests = self.manifests.read_list(name)
                self.manifests.read(manifests)
                names |= {name, *(manifest.file_name for manifest in manifests)}
            if snapshot.index_manifest is not None:
                self.manifests.read_index(snapshot.index_manifest)
                names.add(snapshot.index_manifest)
        return names

    def index_files(self) -> tuple[IndexFile, ...]:
        """Of the latest snapshot."""
        snapshot = self.snapshots.latest()
        return () if snapshot is None else self.manifests.read_index(snapshot.index_manifest)

    def orphans(self) -> set[str]:
        """Manifests and lists that no snapshot needs."""
        return {status.name for status in self.storage.list(self.paths.manifest_dir)} - self.referenced()

    def missing_data(self) -> list[str]:
        """Live data files that are not there (tables without partitions, bucket 0)."""
        names = [name.partition("@")[0] for name in self.live()]
        return [name for name in names if self.storage.stat(f"{self._bucket_dir()}/{name}") is None]

    def _bucket_dir(self) -> str:
        return self.paths.bucket_dir("", 0, TableOptions.from_schema(self.schema))
