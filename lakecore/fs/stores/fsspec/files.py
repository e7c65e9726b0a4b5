"""This module reads files through fsspec.

File systems of fsspec that are not asynchronous share one connection among threads, so requests to one of
them follow each other. No connection is used in a process that was forked after it was opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError, UnavailableError, UnsupportedError
from lakecore.fs.failures import check_whole
from lakecore.fs.file_io import FileStatus
from lakecore.fs.stores.fsspec.connection import FsspecConnection
from lakecore.fs.stores.fsspec.failures import fsspec_errors
from lakecore.fs.stores.object_files import RangeReader

__all__ = ["FsspecFiles", "FsspecRanges"]

_TIMES = ("mtime", "modified", "last_modified", "LastModified", "modificationTime", "created")
_READS = 3


@dataclass(frozen=True, slots=True)
class _FileSystem:
    """It is a file system of fsspec, and what has to be held during a request."""

    file_system: Any
    turn: Any


class FsspecFiles:
    """It reads the files of one scheme. It connects on first use and is pickled as its connection."""

    def __init__(self, connection: FsspecConnection) -> None:
        self.connection = connection
        self._file_systems: dict[tuple[Any, ...], _FileSystem] = {}

    def __reduce__(self) -> tuple[type[FsspecFiles], tuple[FsspecConnection]]:
        return FsspecFiles, (self.connection,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FsspecFiles) and self.connection == other.connection

    def __hash__(self) -> int:
        return hash(self.connection)

    def __repr__(self) -> str:
        return f"FsspecFiles({self.connection!r})"

    def open_input(self, path: str) -> Any:
        """Open a seekable file. Raises NotFoundError."""
        return pa.PythonFile(RangeReader(self.open_ranges(path)), mode="r")

    def open_ranges(self, path: str) -> FsspecRanges:
        """Open a file for reads of ranges. It costs one request for the size. Raises NotFoundError."""
        return FsspecRanges(path, self, self._size(path))

    def read(self, path: str) -> bytes:
        """Return the whole file, for two requests. A file that is replaced meanwhile is read again. Raises
        NotFoundError, and UnavailableError when fewer bytes come than the file has.
        """
        for _ in range(_READS):
            size = self._size(path)
            check_whole(path, size)
            with self._request("read", path) as file_system:
                data = bytes(file_system.cat_file(self.connection.inner_path(path)))
            if len(data) == size:
                return data
        raise _short(path, len(data), size)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`, which the file has. Raises UnavailableError when fewer
        come, UnsupportedError when more do.
        """
        with self._request("read", path) as file_system:
            data = bytes(file_system.cat_file(self.connection.inner_path(path), start=start, end=end))
        if len(data) > end - start:
            raise UnsupportedError(
                f"cannot read {path}: the server answered {len(data)} bytes for a range of {end - start}; "
                "use a server that supports requests of ranges, or copy the table"
            )
        if len(data) < end - start:
            raise _short(path, len(data), end - start)
        return data

    def list(self, path: str) -> list[FileStatus]:
        """Return the children, sorted by path. It costs a further request for each file of which a listing
        does not tell the size (HTTP), and for each link.
        """
        own = self.connection.inner_path(path)
        try:
            with self._request("list", path) as file_system:
                file_system.invalidate_cache()
                entries = file_system.ls(f"{own}/" if self.connection.is_http else own, detail=True)
        except NotFoundError:
            return []
        children = {
            self.connection.child_name(entry["name"]): entry
            for entry in entries
            if str(entry["name"]).strip("/") != own.strip("/")
        }
        children.pop("", None)
        return [self._child(f"{path}/{name}", children[name]) for name in sorted(children)]

    def stat(self, path: str) -> FileStatus | None:
        """Return the status of a file or directory, or None if nothing exists there."""
        with suppress(NotFoundError):
            return _status(path, self._info(path))
        return None

    def _child(self, path: str, entry: Mapping[str, Any]) -> FileStatus:
        is_link = entry["type"] == "link"
        if not is_link and (entry["type"] == "directory" or entry.get("size") is not None):
            return _status(path, entry)
        status = self.stat(path)
        size = 0 if status is None else status.size
        return FileStatus(path, size, False, 0, True) if is_link else _status(path, {**entry, "size": size})

    def _size(self, path: str) -> int:
        entry = self._info(path)
        if entry.get("type") == "directory":
            raise UnavailableError(f"cannot read {path}: this is a directory, not a file; check the path")
        if entry.get("size") is None:
            raise UnsupportedError(
                f"cannot read {path}: the server does not tell the size of the file; use one that does, or "
                "copy the table"
            )
        return int(entry["size"])

    def _info(self, path: str) -> Mapping[str, Any]:
        with self._request("look at", path) as file_system:
            file_system.invalidate_cache()
            entry: Mapping[str, Any] = file_system.info(self.connection.inner_path(path))
        if self.connection.is_http and str(entry.get("url", "")).endswith("/"):
            return {**entry, "type": "directory"}  # servers answer for `dir` with the address `dir/`
        return entry

    @contextmanager
    def _request(self, action: str, path: str) -> Iterator[Any]:
        """Return the file system of a path for one request. After a failure the next one connects anew."""
        place = (os.getpid(), self.connection.key(path))
        shared = self._file_systems.get(place)
        if shared is None:
            file_system = self.connection.connect(path, place[1])
            turn = nullcontext() if file_system.async_impl else Lock()
            shared = self._file_systems.setdefault(place, _FileSystem(file_system, turn))
        try:
            with fsspec_errors(action, path, self.connection.secrets), shared.turn:
                yield shared.file_system
        except UnavailableError:
            self._file_systems.pop(place, None)
            raise


@dataclass(frozen=True, slots=True)
class FsspecRanges:
    """It reads ranges of one file, each with a request of its own. Threads may share it."""

    path: str
    files: FsspecFiles
    length: int

    def size(self) -> int:
        """Return the size of the file when it was opened."""
        return self.length

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return up to `nbytes` from `offset` on."""
        end = min(offset + nbytes, self.length)
        return self.files.read_range(self.path, offset, end) if end > offset else b""

    def __enter__(self) -> FsspecRanges:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because no connection belongs to this file."""


def _short(path: str, length: int, size: int) -> UnavailableError:
    return UnavailableError(
        f"cannot read {path}: {length} bytes came instead of {size}; the connection ended early, or another "
        "program changed the file; repeat the command"
    )


def _status(path: str, entry: Mapping[str, Any]) -> FileStatus:
    if entry["type"] == "directory":
        return FileStatus(path, 0, True, _time_ms(entry))
    return FileStatus(path, int(entry.get("size") or 0), False, _time_ms(entry))


def _time_ms(entry: Mapping[str, Any]) -> int:
    """Return the time of the last change in ms; 0 where fsspec does not tell it."""
    for name in _TIMES:
        time = entry.get(name)
        if isinstance(time, datetime):
            return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(time, int | float):
            return int(time if name == "modificationTime" else time * 1000)
    return 0
