"""This module walks over a table's directories of data files, several at once, and keeps what looks like
an orphan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import partial

import numpy as np

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileStatus
from lakecore.fs.temporary import is_temporary
from lakecore.maintain.deletion.hashed_names import Hashes, within
from lakecore.maintain.orphans.listing import DirectoryListing, Lister
from lakecore.maintain.target import Target
from lakecore.metadata.dedicated_columns import is_blob_pack
from lakecore.metadata.manifest.byte_words import hash_bytes
from lakecore.metadata.options import TableOptions

__all__ = ["DirectoryScan", "KnownFiles", "Walk"]


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """These files are no orphans. `others` are names of index files and extra files. The rest are hashes of
    names of data files: those that wait in the quarantine (`aside`), that any entry names (`referenced`), and
    that a DELETE removes (`deleted`).
    """

    others: frozenset[str]
    aside: Hashes
    referenced: Hashes
    deleted: Hashes


@dataclass(frozen=True, slots=True)
class DirectoryScan:
    """This is one directory. `files` and `size` are those of all its files. `unnamed` are old files that
    nothing names.

    `removed`: old files that are named, but also removed somewhere: whether any state has them is to be found
    out; with the hashes of their names.
    """

    files: int
    size: int
    unnamed: tuple[FileStatus, ...] = ()
    removed: tuple[tuple[FileStatus, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Above:
    """A directory above those of data files, which has folders to list next, and old temporary files."""

    folders: list[str]
    temporary_files: tuple[FileStatus, ...]


@dataclass(slots=True)
class Walk:
    """It counts what it sees. Files that are younger than the limit of `lister` are ignored.

    `temporary_files`: old temporary files beside the directories of data files (of marks of partitions),
    complete once all of `data_files` was read.
    """

    target: Target
    lister: Lister
    files: int = 0
    size: int = 0
    temporary_files: list[FileStatus] = field(default_factory=list)

    def old_files(self, directory: str) -> tuple[FileStatus, ...]:
        """Return the old files of one directory."""
        entries = self.lister.list(directory)
        self._count(entries.files, entries.size)
        return entries.old

    def data_files(self, references: KnownFiles) -> Iterator[DirectoryScan]:
        """Yield all directories of data files. It keeps their paths in memory, and what looks like
        orphans.
        """
        for files in self.lister.each(self._buckets(), partial(_look, references)):
            self._count(files.files, files.size)
            yield files

    def _buckets(self) -> Iterator[str]:
        """Yield the bucket directories, which are below as many levels as there are partition columns."""
        directory = TableOptions.from_schema(self.target.schema).path_directory
        parts = (self.target.paths.table_path, (directory or "").strip("/"))
        level = ["/".join(part for part in parts if part)]
        for _ in self.target.schema.partition_keys:
            above = list(self.lister.each(level, _partitions))
            self.temporary_files += [half for directories in above for half in directories.temporary_files]
            level = [path for directories in above for path in directories.folders]
        for directories in self.lister.each(level, _bucket_dirs):
            self.temporary_files += directories.temporary_files
            yield from directories.folders

    def add(self, other: Walk) -> None:
        """Count what another walk saw."""
        self._count(other.files, other.size)

    def _count(self, files: int, size: int) -> None:
        self.files += files
        self.size += size


def _partitions(listing: DirectoryListing) -> _Above:
    return _Above([path for path in listing.folders if "=" in _name(path)], _halves(listing))


def _bucket_dirs(listing: DirectoryListing) -> _Above:
    return _Above([path for path in listing.folders if _name(path).startswith("bucket-")], _halves(listing))


def _halves(listing: DirectoryListing) -> tuple[FileStatus, ...]:
    return tuple(status for status in listing.old if is_temporary(status.name))


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _look(references: KnownFiles, listing: DirectoryListing) -> DirectoryScan:
    old = [status for status in listing.old if not is_blob_pack(status.path)]
    names = [status.path.rpartition("/")[2] for status in old]
    if not references.others.isdisjoint(names):
        old = [status for status, name in zip(old, names, strict=True) if name not in references.others]
        names = [name for name in names if name not in references.others]
    hashes = hash_bytes([name.encode() for name in names])
    is_known = within(hashes, references.referenced)
    free = ~within(hashes, references.aside)
    unnamed = np.flatnonzero(free & ~is_known).tolist()
    removed = np.flatnonzero(free & is_known & within(hashes, references.deleted)).tolist()
    return DirectoryScan(
        listing.files,
        listing.size,
        tuple(old[place] for place in unnamed),
        tuple((old[place], int(hashes[place])) for place in removed),
    )
