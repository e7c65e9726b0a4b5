"""This module has the stores of a table for scans of a catalog with a cache: they may give snapshots that are
stale, and they cannot change anything.

Only scans get them. Whoever commits, works on a table or proves something has `TableStores`, which knows no
kept snapshot.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.fs.confined import ConfinedFileIO
from lakecore.fs.file_io import FileIO
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.cache.table_cache import TableCache
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.table_stores import TableStores

__all__ = ["CachedSnapshots", "ReadingStores"]

_REASON = "a scan of a catalog with a cache changes nothing; load the table, and change it with that"


@dataclass(frozen=True)
class CachedSnapshots(SnapshotStore):
    """These are the snapshots of a branch, from memory where the cache has them. Which one is the newest is
    asked of storage each time; hints and lists are read there, too.
    """

    cache: TableCache | None = field(default=None, compare=False)
    """It is None in a copy that was pickled."""

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot. Raises NotFoundError where there is none: the table may be gone, and
        only its schema in memory.
        """
        snapshot = super().latest()
        if snapshot is None and self.cache is not None:
            raise NotFoundError(f"{self.paths.root} has no snapshot; load the table again")
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot as it is, or was when the cache read it; None if storage has none."""
        if self.cache is None:
            return self._read(snapshot_id)
        changes = self.cache.changes()
        snapshot = self.cache.snapshot(self.paths.root, snapshot_id)
        if snapshot is None:
            snapshot = self._read(snapshot_id)
            if snapshot is not None:
                self.cache.put_snapshot(self.paths.root, snapshot, changes)
        return snapshot

    def missing_file(self, snapshot_id: int, err: NotFoundError) -> LakeError:
        """Return the error of `SnapshotStore.missing_file`, or NotFoundError where the snapshot in memory is
        not that of storage. It makes the cache forget the table.
        """
        if self.cache is not None:
            used = self.cache.snapshot(self.paths.root, snapshot_id)
            self.cache.forget_at(self.paths.table_path)
            if used is not None and self._read(snapshot_id) != used:
                return NotFoundError(
                    f"snapshot {snapshot_id} of {self.paths.root} was removed or replaced by another process "
                    f"after the cache of the catalog read it ({err}); load the table and read again"
                )
        return super().missing_file(snapshot_id, err)


@dataclass(frozen=True)
class ReadingStores(TableStores):
    """These are the stores of a table whose storage refuses each change. It can be pickled; the copy keeps
    nothing.
    """

    cache: TableCache | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, stores: TableStores, cache: TableCache) -> ReadingStores:
        """Return the stores of the same table for scans."""
        return cls(
            stores.schema,
            _read_only(stores.file_io),
            stores.paths,
            stores.clock,
            manifest_cache=stores.manifest_cache,
            cache=cache,
        )

    @cached_property
    def snapshots(self) -> SnapshotStore:
        return CachedSnapshots(self.file_io, self.paths, self.clock, cache=self.cache)


def _read_only(file_io: FileIO) -> FileIO:
    """Return the same storage, with its limits and rights, without changes."""
    if isinstance(file_io, ConfinedFileIO):
        return replace(file_io, inner=_read_only(file_io.inner))
    return ReadOnlyFileIO(file_io, _REASON)
