"""A `FileIO` that touches allowed paths only, and neither changes nor reads files elsewhere through links.

It is the last guard of several: decoders refuse names that are no names first, with the record and the field.
What still gets here, by whatever way, is refused before storage is asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import field, replace
from functools import partial
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.fs.allowed_paths import AllowedPaths, is_below
from lakecore.fs.base_output import BaseOutput
from lakecore.fs.file_io import SERVICE, FileIO, FileStatus, OutputFile, RangeSource
from lakecore.fs.link_checks import LinkChecks
from lakecore.fs.local import LocalFileIO
from lakecore.fs.routed import RoutedFileIO
from lakecore.fs.stores.watched import WatchedFileIO
from lakecore.fs.table_rights import TableRights
from lakecore.fs.tally import TALLY

__all__ = [
    "ConfinedFileIO",
    "ReferenceFileIO",
    "check_no_links",
    "confine",
    "reference_file_io",
    "rights_of",
    "service_files",
    "with_trusted_roots",
]


@dataclass(frozen=True)
class ConfinedFileIO:
    """This is `inner`, for paths that `allowed` allows. It pickles when `inner` does.

    Cost: about a microsecond an operation; on a local disk each change looks besides at every directory
    between the root and the file and opens it (a microsecond each), each read at the file and, once, at its
    directories. Errors as of `AllowedPaths`, and UnsupportedError for a change through a link below the
    warehouse, or a read through one that leads out of the table (out of its root for other files): a link of
    the table's own directory may lead anywhere for reads. The looks of reads are remembered, so a directory
    that becomes a link later is followed; changes are safe from that, too (`lakecore.fs.parent_directory`).
    """

    inner: FileIO
    allowed: AllowedPaths
    _checks: LinkChecks = field(default_factory=LinkChecks, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", _with_roots(self.inner, self.allowed.roots_of_changes))

    def open_input(self, path: str) -> Any:
        self._check_read(path)
        source = self.inner.open_input(path)
        _count(read=source.size())
        return source

    def open_ranges(self, path: str) -> RangeSource:
        self._check_read(path)
        return self.inner.open_ranges(path)

    def read(self, path: str) -> bytes:
        self._check_read(path)
        data = self.inner.read(path)
        _count(read=len(data))
        return data

    def open_output(self, path: str) -> OutputFile:
        self._check_change("create", path)
        return _CountedOutput(self.inner.open_output(path))

    def write_new(self, path: str, data: bytes) -> None:
        self._check_change("create", path)
        self.inner.write_new(path, data)
        _count(written=len(data))

    def publish(self, path: str, data: bytes) -> bool:
        self._check_change("publish", path)
        published = self.inner.publish(path, data)
        _count(written=len(data) if published else 0)
        return published

    def overwrite(self, path: str, data: bytes) -> None:
        self._check_change("overwrite", path)
        self.inner.overwrite(path, data)
        _count(written=len(data))

    def list(self, path: str) -> list[FileStatus]:
        self._check_read(path)
        return self.inner.list(path)

    def stat(self, path: str) -> FileStatus | None:
        self._check_read(path)
        return self.inner.stat(path)

    def delete(self, path: str) -> None:
        self._check_change("delete", path)
        self.inner.delete(path)

    def move(self, path: str, target: str) -> None:
        self._check_change("move", path)
        self._check_change("move to", target)
        self.inner.move(path, target)

    def make_directory(self, path: str) -> bool:
        self._check_change("create", path)
        return self.inner.make_directory(path)

    def move_directory(self, path: str, target: str) -> bool:
        self._check_change("move", path)
        self._check_change("move to", target)
        return self.inner.move_directory(path, target)

    def remove_directory(self, path: str) -> None:
        self._check_change("delete", path)
        self.inner.remove_directory(path)

    def delete_listed(self, directory: str, name: str) -> None:
        """Delete an entry that a listing of `directory` showed, also one whose name no record could have.

        Raises as `delete` does, and CorruptDataError for a name that is no single part of a path.
        """
        path = f"{directory}/{name}"
        if "/" in name or name in ("", ".", ".."):
            raise CorruptDataError(directory, f"{name!r} is not the name of an entry")
        _count(requests=1)
        check_no_links(self.allowed.root_of_change(directory), directory, "delete", last=True)
        self.inner.delete(path)

    def _check_read(self, path: str) -> None:
        _count(requests=1)
        root = self.allowed.root_of_read(path)
        if "://" not in path:
            self._checks.check(self.allowed.own if self._is_own(path) else root, path)

    def _is_own(self, path: str) -> bool:
        """Return whether `path` lies in the directory of the table, which may be a link as a whole."""
        own = self.allowed.own
        return own != self.allowed.service and (is_below(path, own) or path == own)

    def _check_change(self, action: str, path: str) -> None:
        _count(requests=1)
        check_no_links(self.allowed.root_of_change(path), path, action)


class _CountedOutput(BaseOutput):
    """This is a new file whose bytes are counted when it is complete."""

    def __init__(self, inner: OutputFile) -> None:
        self._inner = inner
        self.path = inner.path
        self.write = inner.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def abort(self) -> None:
        self._inner.abort()

    def close(self) -> None:
        if not self._inner.closed:
            size = self._inner.tell()
            self._inner.close()
            _count(written=size)


def _count(requests: int = 0, read: int = 0, written: int = 0) -> None:
    """Add to the tally of this process."""
    with TALLY.lock:
        TALLY.requests += requests
        TALLY.bytes_read += read
        TALLY.bytes_written += written


@dataclass(frozen=True)
class ReferenceFileIO:
    """A reader of the targets of blob references, which must be below the allowed roots and are not read
    through links.
    """

    inner: FileIO
    allowed: AllowedPaths

    def open_input(self, path: str) -> Any:
        """Open a target. Raises as `AllowedPaths.root_of_reference` does; UnsupportedError for a link."""
        root = self.allowed.root_of_reference(path)
        check_no_links(root, path, "read", last=True)
        return self.inner.open_input(path)


def confine(file_io: FileIO, allowed: AllowedPaths) -> ConfinedFileIO:
    """Return `file_io` with these limits instead of its own."""
    if isinstance(file_io, ConfinedFileIO):
        return replace(file_io, allowed=allowed)
    return ConfinedFileIO(file_io, allowed)


def with_trusted_roots(file_io: FileIO, roots: Iterable[str]) -> FileIO:
    """Return the same storage with more external roots that count as declared; storage without limits is
    returned as it is.
    """
    if not isinstance(file_io, ConfinedFileIO):
        return file_io
    return replace(file_io, allowed=file_io.allowed.with_trusted_roots(roots))


def rights_of(file_io: FileIO) -> TableRights | None:
    """Return the rights of the catalog's user on the table with this storage; None where nobody asks."""
    return file_io.allowed.rights if isinstance(file_io, ConfinedFileIO) else None


def reference_file_io(file_io: FileIO, table_path: str) -> ReferenceFileIO:
    """Return the storage for targets of a table's references. Without limits it is the storage of the
    table's warehouse.
    """
    if isinstance(file_io, ConfinedFileIO):
        return ReferenceFileIO(file_io.inner, file_io.allowed)
    warehouse = table_path.rsplit("/", 2)[0] or "/"
    return ReferenceFileIO(file_io, AllowedPaths(warehouse=warehouse, own=table_path))


def service_files(file_io: FileIO, warehouse: str) -> ConfinedFileIO:
    """Return storage for lakecore's own files in the warehouse, which changes nothing outside of
    `.lakecore/`.
    """
    allowed = AllowedPaths(warehouse=warehouse.rstrip("/") or "/", own=f"{warehouse.rstrip('/')}/{SERVICE}")
    return confine(file_io, allowed)


def _with_roots(file_io: FileIO, roots: tuple[str, ...]) -> FileIO:
    """Return storage whose local changes pass through no link below `roots`."""
    if isinstance(file_io, LocalFileIO):
        return replace(file_io, roots=roots)
    if isinstance(file_io, WatchedFileIO):
        return replace(file_io, inner=_with_roots(file_io.inner, roots))
    if isinstance(file_io, RoutedFileIO):
        return RoutedFileIO(file_io.route.with_each(partial(_with_roots, roots=roots)))
    return file_io


def check_no_links(root: str, path: str, action: str, *, last: bool = False) -> None:
    """Raise UnsupportedError if a directory below `root` on the way to a local `path` is a symbolic link.

    `last`: the file itself must not be one either. Deleting or moving a link changes only the link, so
    there it may be one. Other storage has no links. This check has the better message; a link that is made
    just afterwards is refused by `LocalFileIO` when it makes the change.
    """
    if "://" in path:
        return
    parts = path[len(root) :].strip("/").split("/")
    place = root.rstrip("/")
    for part in parts if last else parts[:-1]:
        place = f"{place}/{part}"
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            return  # nothing is there yet; storage says what is wrong with it
        if stat.S_ISLNK(mode):
            raise UnsupportedError(
                f"cannot {action} {path}: {place} is a symbolic link, and below the warehouse lakecore "
                "neither changes files nor reads blobs through links; put the directory itself there"
            )
