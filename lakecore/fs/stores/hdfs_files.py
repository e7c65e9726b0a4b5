"""This module is a `FileIO` over hdfs-native.

A file is published by a rename without overwrite, which the name node refuses if the name exists. The library
repeats no change whose answer was lost, so the outcome is settled here: the temporary file is deleted, and if
it was gone already, the rename has happened.

Durability: a closed file is complete on data nodes, as many as the name node requires (usually one, and the
others follow), but not necessarily on their disks. Java Paimon's files are as durable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import (
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    UnavailableError,
)
from lakecore.fs.failures import check_whole
from lakecore.fs.file_io import FileStatus
from lakecore.fs.object_output import ObjectOutput
from lakecore.fs.publish import create_by_publication
from lakecore.fs.stores.hdfs_errors import FAILURES, hdfs_errors, is_certain, translate_hdfs
from lakecore.fs.stores.object_files import RangeReader

__all__ = ["Connection", "HdfsFileIO"]

_SCHEME = "hdfs://"
_REPORT_TIMEOUT_S = 10.0  # how long a reader waits until data nodes have reported the last block
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 0.5


class Connection(Protocol):
    """It connects to name nodes. It can be pickled."""

    def connect(self, authority: str) -> Any:
        """Return the client of a name node or nameservice. Raises UnavailableError when the library is not
        installed.
        """

    def write_options(self, *, overwrite: bool = False) -> Any:
        """Return the library's options of a new file."""

    @property
    def directory_mode(self) -> int:
        """Return the permissions of new directories."""


class HdfsFileIO:
    """It implements `FileIO`. It connects on first use, once in each process, and is pickled as its
    connection. Each method sends one to four requests to the name node; a list one for each 1,000 names.
    """

    def __init__(self, connection: Connection, clock: Clock | None = None) -> None:
        self.connection = connection
        self._clock = clock or SystemClock()
        self._clients: dict[tuple[int, str], Any] = {}

    def __reduce__(self) -> tuple[type[HdfsFileIO], tuple[Connection]]:
        return HdfsFileIO, (self.connection,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsFileIO) and self.connection == other.connection

    def __hash__(self) -> int:
        return hash(self.connection)

    def __repr__(self) -> str:
        return f"HdfsFileIO({self.connection!r})"

    def open_input(self, path: str) -> Any:
        return pa.PythonFile(RangeReader(self.open_ranges(path)), mode="r")

    def open_ranges(self, path: str) -> HdfsRanges:
        """Locate the blocks of a file (two requests). A name node with
        `dfs.namenode.file.close.num-committed-allowed` closes a file before data nodes have reported its last
        block, and names the blocks without it until then, so that the file seems shorter than it is: wait for
        the report. Raises UnavailableError after ten seconds.
        """
        client, name = self._client(path)
        deadline, wait = self._clock.monotonic() + _REPORT_TIMEOUT_S, _FIRST_WAIT_S
        while True:
            with hdfs_errors("read", path):
                reader = client.read(name)
                length = client.get_file_info(name).length
            if len(reader) >= length:
                return HdfsRanges(path, reader, len(reader))
            if self._clock.monotonic() >= deadline:
                raise UnavailableError(
                    f"cannot read {path}: it has {length} bytes, but data nodes have reported {len(reader)} "
                    f"of them within {_REPORT_TIMEOUT_S:.0f} s; either it is still being written, or a data "
                    "node is late: look at `hdfs fsck PATH -files -blocks -openforwrite` and try again"
                )
            self._clock.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def read(self, path: str) -> bytes:
        ranges = self.open_ranges(path)
        check_whole(path, ranges.length)
        return ranges.read_at(ranges.length, 0)

    def open_output(self, path: str) -> ObjectOutput:
        """Write the file under its name; other clients see it grow. `abort` deletes it."""
        client, name = self._client(path)
        with hdfs_errors("create", path):
            writer = client.create(name, self.connection.write_options())
        return ObjectOutput(path, _Stream(writer), self, errors=hdfs_errors)

    def write_new(self, path: str, data: bytes) -> None:
        create_by_publication(self, path, data)

    def publish(self, path: str, data: bytes) -> bool:
        client, name = self._client(path)
        temporary = self._temporary(path, "publish", data)
        try:
            client.rename(temporary, name, overwrite=False)
        except FileExistsError:
            _delete_quietly(client, temporary)
            return False
        except FAILURES as err:
            if is_certain(err):
                _delete_quietly(client, temporary)
                raise translate_hdfs(err, "publish", path) from err
            return self._settled(path, temporary, data, err)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file through a temporary file and a rename, so that readers see the old or the new
        bytes.
        """
        client, name = self._client(path)
        temporary = self._temporary(path, "overwrite", data)
        try:
            client.rename(temporary, name, overwrite=True)
        except FAILURES as err:
            _delete_quietly(client, temporary)
            raise translate_hdfs(err, "overwrite", path) from err

    def list(self, path: str) -> list[FileStatus]:
        client, name = self._client(path)
        root = path.rstrip("/")
        with hdfs_errors("list", path):
            try:
                entries = list(client.list_status(name))
            except FileNotFoundError:
                return []
        below = (entry for entry in entries if entry.path.rstrip("/") != name.rstrip("/"))
        statuses = [_status(f"{root}/{entry.path.rpartition('/')[2]}", entry) for entry in below]
        return sorted(statuses, key=lambda status: status.path)

    def stat(self, path: str) -> FileStatus | None:
        client, name = self._client(path)
        with hdfs_errors("look at", path):
            try:
                return _status(path, client.get_file_info(name))
            except FileNotFoundError:
                return None
            except RuntimeError as err:
                if "ParentNotDirectoryException" in str(err):
                    return None
                raise

    def delete(self, path: str) -> None:
        client, name = self._client(path)
        with hdfs_errors("delete", path), suppress(FileNotFoundError):
            client.delete(name, recursive=False)

    def move(self, path: str, target: str) -> None:
        """Rename the file, which the name node refuses if the target exists."""
        self._rename(path, target)

    def make_directory(self, path: str) -> bool:
        """Create the directory; two that make it at once both get True."""
        client, name = self._client(path)
        if self.stat(path) is not None:
            return False
        with hdfs_errors("create", path):
            client.mkdirs(name, self.connection.directory_mode, create_parent=True)
        return True

    def move_directory(self, path: str, target: str) -> bool:
        """Rename the directory; another name node is no single step."""
        if self._root(path) != self._root(target):
            return False
        self._rename(path, target)
        return True

    def remove_directory(self, path: str) -> None:
        status = self.stat(path)
        if status is not None and not status.is_dir:
            raise UnavailableError(f"cannot delete {path}: it is a file, not a directory; check the path")
        self.delete(path)

    def _rename(self, path: str, target: str) -> None:
        client, name = self._client(path)
        if self._root(path) != self._root(target):
            raise UnavailableError(f"cannot move {path}: {target} is on another name node")
        new_name = self._client(target)[1]
        with hdfs_errors("move", path):
            client.get_file_info(name)  # before a directory is made for nothing
            client.mkdirs(_parent(new_name), self.connection.directory_mode, create_parent=True)
        try:
            client.rename(name, new_name, overwrite=False)
        except FAILURES as err:
            if is_certain(err) or self.stat(path) is not None or self.stat(target) is None:
                raise translate_hdfs(err, "move", path) from err

    def _temporary(self, path: str, action: str, data: bytes) -> str:
        """Write a complete file beside `path`, under a fresh name that readers of the format ignore, and
        return its name at the name node.
        """
        client, name = self._client(path)
        parent, _, last = name.rpartition("/")
        temporary = f"{parent}/.{last}.{self._clock.fresh_id()}.tmp"
        with hdfs_errors(action, path):
            try:
                writer = client.create(temporary, self.connection.write_options())
                writer.write(data)
                writer.close()
            except FAILURES:
                _delete_quietly(client, temporary)
                raise
        return temporary

    def _settled(self, path: str, temporary: str, data: bytes, err: Exception) -> bool:
        """Return whether a rename without an answer has happened. It cannot happen later, because its source
        is deleted first. Raises UnavailableError when it has not, CommitUncertainError when nobody answers.
        """
        client, _ = self._client(path)
        try:
            is_ours = not client.delete(temporary, recursive=False) and self.read(path) == data
        except (*FAILURES, LakeError) as unknown:
            raise CommitUncertainError(
                f"it is not known whether {path} was published: {translate_hdfs(err, 'publish', path)}"
            ) from unknown
        if is_ours:
            return True
        raise translate_hdfs(err, "publish", path) from err

    def _client(self, path: str) -> tuple[Any, str]:
        """Return the client of a path, and its name at the name node. A process that was forked connects
        anew: it has none of the threads of its parent.
        """
        root = self._root(path)
        key = (os.getpid(), root)
        if key not in self._clients:
            authority = root.removeprefix(_SCHEME)
            self._clients.setdefault(key, self.connection.connect(authority))  # threads share the first
        return self._clients[key], path[len(root) :].rstrip("/") or "/"

    def _root(self, path: str) -> str:
        """Return `hdfs://authority` of a path. Raises InvalidInputError for a path of another store."""
        scheme, _, rest = path.partition("://")
        authority = rest.partition("/")[0]
        if f"{scheme}://" != _SCHEME or not authority:
            raise InvalidInputError(f"{path!r} is not a path of the store {_SCHEME}")
        return f"{_SCHEME}{authority}"


@dataclass(frozen=True, slots=True)
class HdfsRanges:
    """It reads ranges of one file, whose blocks were located when it was opened. Threads may share it."""

    path: str
    reader: Any
    length: int

    def size(self) -> int:
        """Return the size of the file when it was opened."""
        return self.length

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return up to `nbytes` from `offset` on. Data nodes' checksums are verified."""
        size = min(nbytes, self.length - offset)
        if size <= 0:
            return b""
        with hdfs_errors("read", self.path):
            data: bytes = self.reader.read_range(offset, size)
        return data

    def __enter__(self) -> HdfsRanges:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because the library keeps no connection for a file."""


class _Stream:
    """It hands data to the library as `bytes`: other buffers it reads item by item."""

    def __init__(self, writer: Any) -> None:
        self.close: Callable[[], None] = writer.close
        self._writer = writer

    def write(self, view: memoryview) -> None:
        self._writer.write(bytes(view))


def _delete_quietly(client: Any, name: str) -> None:
    """Delete a temporary file; one that remains is an orphan. The first request may find that the connection
    is lost.
    """
    for _ in range(2):
        with suppress(*FAILURES):
            client.delete(name, recursive=False)
            return


def _status(path: str, entry: Any) -> FileStatus:
    return FileStatus(path, 0 if entry.isdir else entry.length, entry.isdir, entry.modification_time)


def _parent(name: str) -> str:
    return name.rpartition("/")[0] or "/"
