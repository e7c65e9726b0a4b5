"""This module defines what every chore needs to know of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from lakecore.clock import Clock
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
from lakecore.store.tags import TagStore

__all__ = ["THREADS", "Target", "in_threads"]

THREADS = 8
"""Requests to storage at once, where they are many and small."""
_AHEAD = 1024
_FEW = 4

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True)
class Target:
    """One branch of a table, which has `paths` in a warehouse. `schema` is the branch's latest, with options
    of the run.
    """

    name: str
    warehouse: str
    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    clock: Clock

    @property
    def settle_ms(self) -> int:
        """Return how long a published snapshot is watched; see `lakecore.commit.publication`."""
        return settle_ms(self.schema.options, self.paths.root)

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.file_io, self.paths, self.clock)

    @property
    def schemas(self) -> SchemaStore:
        return SchemaStore(self.file_io, self.paths, self.clock)

    @property
    def tags(self) -> TagStore:
        return TagStore(self.file_io, self.paths)

    @property
    def changelogs(self) -> ChangelogStore:
        return ChangelogStore(self.file_io, self.paths)

    @property
    def consumers(self) -> ConsumerStore:
        return ConsumerStore(self.file_io, self.paths, self.clock)

    @property
    def branches(self) -> BranchStore:
        return BranchStore(self.file_io, self.paths)

    @property
    def manifests(self) -> ManifestStore:
        return ManifestStore(self.file_io, self.paths, self.schema, self.clock)


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
