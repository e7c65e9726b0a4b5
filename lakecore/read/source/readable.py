"""The interface through which reading sees a table: its schema and where its parts are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakecore.clock import Clock
from lakecore.fs.file_io import FileIO
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.scan.scanner import Scanner
from lakecore.store.branches import BranchStore
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.consumers import ConsumerStore
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore

__all__ = ["Readable"]


class Readable(Protocol):
    """A table, or a branch of one. `overrides` are options that hold for this handle only."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> TableSchema: ...
    @property
    def options(self) -> TableOptions: ...
    @property
    def overrides(self) -> Mapping[str, str]: ...
    @property
    def file_io(self) -> FileIO: ...
    @property
    def paths(self) -> TablePaths: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def changelogs(self) -> ChangelogStore: ...
    @property
    def schemas(self) -> SchemaStore: ...
    @property
    def manifests(self) -> ManifestStore: ...
    @property
    def tags(self) -> TagStore: ...
    @property
    def branches(self) -> BranchStore: ...
    @property
    def consumers(self) -> ConsumerStore: ...
    @property
    def scanner(self) -> Scanner: ...

    def with_options(self, options: Mapping[str, str]) -> Readable:
        """Return a handle with options that hold for it only."""

    def at_branch(self, branch: str) -> Readable:
        """Return a handle of the branch of that name."""

    def at_schema(self, schema: TableSchema) -> Readable:
        """Return a handle that reads with that schema."""

    def read_context(self, schema: TableSchema | None = None) -> ReadContext:
        """Return the context for reading with `schema`, None: with the schema of the handle."""
