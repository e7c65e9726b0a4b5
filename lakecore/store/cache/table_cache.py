"""This module has what a catalog keeps of its tables beside manifests: their schemas, snapshots and lists of
partitions. Others can change these, so that what is kept may be stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from lakecore.clock import Clock
from lakecore.fs.allowed_paths import is_below
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.cache.bounded import BoundedCache, ProcessMemory
from lakecore.store.cache.limits import CacheLimits

__all__ = ["TableCache", "TableKey"]

TableKey: TypeAlias = tuple[str, str, str]
"""These are the names of the database, the table and the branch."""


class TableCache(ProcessMemory):
    """It keeps tables and lists of partitions by the name of the table, and snapshots by path.

    A change that this process makes removes what it concerns: the storage of the catalog tells of changed
    paths, the catalog of changed names. A value that was read before a change is not kept after it. It is
    thread-safe.
    """

    def __init__(self, limits: CacheLimits, clock: Clock) -> None:
        self._changes = 0
        super().__init__(limits, clock)

    def _begin(self) -> None:
        super()._begin()
        self._tables = BoundedCache(replace(self.limits, memory=sys.maxsize), self._clock)
        self._lists = BoundedCache(replace(self.limits, memory=self.limits.partitions), self._clock)
        self._snapshots: dict[str, BoundedCache] = {}

    def changes(self) -> int:
        """Return how many changes it was told of. Who reads something to keep it asks before the read."""
        self._check_process()
        return self._changes

    def table(self, name: TableKey) -> Any | None:
        """Return what is kept under database, table and branch, None without it."""
        entry = self._tables.get(name)
        return None if entry is None else entry[1]

    def put_table(self, name: TableKey, root: str, value: Any, changes: int) -> None:
        """Keep a table whose directory is `root`, unless there was a change since `changes` were counted."""
        with self._lock:
            if changes == self._changes and self.limits.snapshots:
                self._tables.put(name, (root, value), 1)

    def partitions(self, name: TableKey) -> Any | None:
        """Return the list of the partitions of a table, None without it."""
        entry = self._lists.get(name)
        return None if entry is None else entry[1]

    def put_partitions(self, name: TableKey, root: str, value: Any, count: int, changes: int) -> None:
        """Keep a list of `count` partitions, unless there was a change since `changes` were counted."""
        with self._lock:
            if changes == self._changes and self.limits.partitions:
                self._lists.put(name, (root, value), max(1, count))

    def snapshot(self, root: str, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot of the branch at `root`, None without it."""
        of_table = self._snapshots.get(root)
        entry: Snapshot | None = None if of_table is None else of_table.get(snapshot_id)
        return entry

    def put_snapshot(self, root: str, snapshot: Snapshot, changes: int) -> None:
        """Keep a snapshot of the branch at `root`, unless there was a change since `changes` were
        counted.
        """
        with self._lock:
            if changes != self._changes or not self.limits.snapshots:
                return
            of_table = self._snapshots.get(root)
            if of_table is None:
                for other in [key for key, one in self._snapshots.items() if not len(one)]:
                    del self._snapshots[other]
                of_table = BoundedCache(replace(self.limits, memory=self.limits.snapshots), self._clock)
                self._snapshots[root] = of_table
            of_table.put(snapshot.id, snapshot, 1)

    def path_changed(self, path: str, *, is_directory: bool) -> None:
        """Forget the tables at, above or below a changed path, but for files that are no metadata of them."""
        if is_directory or "/snapshot/" in path or "/schema/" in path:
            self.forget_at(path)

    def forget_at(self, path: str) -> None:
        """Forget the tables whose directories are at, above or below a path, with all their branches."""
        path = path.rstrip("/")
        self._forget(lambda _, root: _is_in(root, path) or is_below(root, path))

    def forget_name(self, database: str, table: str) -> None:
        """Forget the table of a name, with all its branches."""
        name = database.lower(), table.lower()
        self._forget(lambda key, _: key is not None and (key[0].lower(), key[1].lower()) == name)

    def _forget(self, is_changed: Callable[[TableKey | None, str], bool]) -> None:
        """Forget the tables and lists of whose name and directory it is true, with all snapshots below these
        directories; of other snapshots only the directory is known.
        """
        self._check_process()
        with self._lock:
            self._changes += 1
            for cache in (self._tables, self._lists):
                outdated = {key: root for key, (root, _) in cache.entries() if is_changed(key, root)}
                cache.forget(outdated)
                for root in outdated.values():
                    self._forget_snapshots(partial(_is_in, root))
            self._forget_snapshots(partial(is_changed, None))

    def _forget_snapshots(self, at: Callable[[str], bool]) -> None:
        for root in [one for one in self._snapshots if at(one)]:
            del self._snapshots[root]


def _is_in(root: str, path: str) -> bool:
    return path == root or is_below(path, root)
