"""A walk over a table's directories of data files, several at once, that keeps what looks like an orphan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from lakecore.fs.file_io import FileStatus
from lakecore.maintain.name_sets import Hashes, within
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.byte_words import hash_bytes
from lakecore.metadata.dedicated import is_shared
from lakecore.metadata.options import TableOptions

__all__ = ["Known", "Look", "Walk"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is no orphan. `others`: names of index files and extra files. The rest are hashes of names of
    data files; `aside`: that wait in the quarantine, `named`: by any entry, `deleted`: by a DELETE.
    """

    others: frozenset[str]
    aside: Hashes
    named: Hashes
    deleted: Hashes


@dataclass(frozen=True, slots=True)
class Look:
    """One directory. `files`, `size`: all of its files. `unnamed`: old files that nothing names.

    `removed`: old files that are named, but also removed somewhere: whether any state has them is to be found
    out; with the hashes of their names.
    """

    files: int
    size: int
    unnamed: tuple[FileStatus, ...] = ()
    removed: tuple[tuple[FileStatus, int], ...] = ()


@dataclass(slots=True)
class Walk:
    """Counts what it sees. Files younger than `older_than_ms` are left alone."""

    target: Target
    older_than_ms: int
    files: int = 0
    size: int = 0

    def old_files(self, directory: str) -> list[FileStatus]:
        """Those of one directory; one whose age is not known counts as young."""
        found = [status for status in self.target.file_io.list(directory) if not status.is_dir]
        self._count(len(found), sum(status.size for status in found))
        return [status for status in found if 0 < status.mtime_ms < self.older_than_ms]

    def data_files(self, known: Known) -> Iterator[Look]:
        """All directories of data files. Memory: their paths, and what looks like orphans."""
        look = partial(_look, self.target.file_io.list, known, self.older_than_ms)
        for seen in in_threads(look, self._buckets()):
            self._count(seen.files, seen.size)
            yield seen

    def _buckets(self) -> Iterator[str]:
        """As deep as there are partition columns, then the buckets."""
        directory = TableOptions.from_schema(self.target.schema).path_directory
        parts = (self.target.paths.table_path, (directory or "").strip("/"))
        level = ["/".join(part for part in parts if part)]
        for _ in self.target.schema.partition_keys:
            level = [path for below in in_threads(self._partitions, level) for path in below]
        for below in in_threads(self._bucket_dirs, level):
            yield from below

    def _partitions(self, directory: str) -> list[str]:
        return [s.path for s in self.target.file_io.list(directory) if s.is_dir and "=" in s.name]

    def _bucket_dirs(self, directory: str) -> list[str]:
        found = self.target.file_io.list(directory)
        return [s.path for s in found if s.is_dir and s.name.startswith("bucket-")]

    def add(self, other: Walk) -> None:
        """Count what another walk saw."""
        self._count(other.files, other.size)

    def _count(self, files: int, size: int) -> None:
        self.files += files
        self.size += size


def _look(
    list_files: Callable[[str], list[FileStatus]], known: Known, older_than_ms: int, directory: str
) -> Look:
    found = [status for status in list_files(directory) if not status.is_dir]
    size = sum([status.size for status in found])
    old = [status for status in found if 0 < status.mtime_ms < older_than_ms and not is_shared(status.path)]
    names = [status.path.rpartition("/")[2] for status in old]
    if not known.others.isdisjoint(names):
        old = [status for status, name in zip(old, names, strict=True) if name not in known.others]
        names = [name for name in names if name not in known.others]
    hashes = hash_bytes([name.encode() for name in names])
    named = within(hashes, known.named)
    free = ~within(hashes, known.aside)
    unnamed = np.flatnonzero(free & ~named).tolist()
    removed = np.flatnonzero(free & named & within(hashes, known.deleted)).tolist()
    return Look(
        len(found),
        size,
        tuple(old[place] for place in unnamed),
        tuple((old[place], int(hashes[place])) for place in removed),
    )
