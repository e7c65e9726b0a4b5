"""This module defines what every chore needs to know of its table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from typing import TypeVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.store.branches import BranchStore
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.consumers import ConsumerStore
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.settle_time import settle_ms
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.table_stores import TableStores
from lakecore.store.tags import TagStore

__all__ = ["THREADS", "Target", "discard_files", "in_threads"]

logger = logging.getLogger(__name__)

THREADS = 8
"""So many requests to storage are made at once, where they are many and small."""
_AHEAD = 1024
_FEW = 4

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True)
class Target:
    """This is one branch of a table in a warehouse, as chores see it. The schema of `stores` is the
    branch's latest, with options of the run.

    Its properties are those of `stores` under shorter names; none of them reads anything.
    """

    name: str
    warehouse: str
    stores: TableStores

    def at_branch(self, branch: str, schema: TableSchema | None = None) -> Target:
        """Return another branch of the table; without `schema` with that of this one. It reads nothing."""
        paths = self.paths.with_branch(branch)
        return replace(self, stores=replace(self.stores, paths=paths, schema=schema or self.schema))

    def at_root(self, root: str) -> Target:
        """Return the target as if the table were at `root`, for files of it that are stored elsewhere."""
        return replace(self, stores=replace(self.stores, paths=TablePaths(root)))

    def with_storage(self, file_io: FileIO) -> Target:
        """Return the target with another storage, which allows other paths."""
        return replace(self, stores=replace(self.stores, file_io=file_io))

    @property
    def settle_ms(self) -> int:
        """Return how long a published snapshot is watched; see `lakecore.commit.publication`."""
        return settle_ms(self.schema.options, self.paths.root)

    @property
    def file_io(self) -> FileIO:
        return self.stores.file_io

    @property
    def paths(self) -> TablePaths:
        return self.stores.paths

    @property
    def schema(self) -> TableSchema:
        return self.stores.schema

    @property
    def clock(self) -> Clock:
        return self.stores.clock

    @property
    def snapshots(self) -> SnapshotStore:
        return self.stores.snapshots

    @property
    def schemas(self) -> SchemaStore:
        return self.stores.schemas

    @property
    def tags(self) -> TagStore:
        return self.stores.tags

    @property
    def changelogs(self) -> ChangelogStore:
        return self.stores.changelogs

    @property
    def consumers(self) -> ConsumerStore:
        return self.stores.consumers

    @property
    def branches(self) -> BranchStore:
        return self.stores.branches

    @property
    def manifests(self) -> ManifestStore:
        return self.stores.manifests


def in_threads(function: Callable[[A], R], items: Iterable[A], threads: int = THREADS) -> Iterator[R]:
    """Yield results in order; the first error is raised. It keeps some thousand results at most."""
    waiting = iter(items)
    first = list(islice(waiting, _FEW + 1))
    if len(first) <= _FEW:
        yield from map(function, first)
        return
    waiting = chain(first, waiting)
    with ThreadPoolExecutor(threads, thread_name_prefix="maintain") as pool:
        while batch := list(islice(waiting, _AHEAD)):
            yield from pool.map(function, batch)


def discard_files(target: Target, paths: Iterable[str]) -> None:
    """Delete files to which nothing refers. A failure is logged: what stays is an orphan, no damage."""
    for path in paths:
        try:
            target.file_io.delete(path)
        except LakeError as err:
            logger.warning("%s is not needed but could not be removed: %s", path, err)
