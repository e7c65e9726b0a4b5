"""Local disks.

Durability: a data file is fsynced when it is closed, and so is its directory entry, before any commit can
name it; a published file is fsynced before it becomes visible. A crash of the machine therefore never
leaves a snapshot that points to missing bytes. `LocalFileIO(sync=False)` leaves this to the kernel, as
other writers of the format do: faster, and safe against the death of a process but not of the machine.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, BinaryIO

import pyarrow as pa

from lakecore.clock import Clock, SystemClock
from lakecore.errors import CommitUncertainError, UnsupportedError
from lakecore.fs.failures import check_whole, storage_errors, translate
from lakecore.fs.file_io import SERVICE, FileStatus

__all__ = ["LocalFileIO"]

_PATH_OF = attrgetter("path")
_BUFFER = 1 << 18
"""Collects small writes; larger ones, as those of data files, pass by it uncopied."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True)
class LocalFileIO:
    """`FileIO` over the file system of this machine.

    `service_mode`: permissions of lakecore's own new files (`.lakecore/`), less what the umask takes: ledgers
    name users, parameters and paths. Files of tables are made as the umask says.
    """

    sync: bool = True
    service_mode: int = 0o600
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def open_input(self, path: str) -> Any:
        with storage_errors("read", path):
            return pa.OSFile(path, "rb")

    def open_ranges(self, path: str) -> LocalRanges:
        return LocalRanges(path)

    def read(self, path: str) -> bytes:
        with storage_errors("read", path), open(path, "rb") as file:
            check_whole(path, os.fstat(file.fileno()).st_size)
            return file.read()

    def open_output(self, path: str) -> LocalOutput:
        with storage_errors("create", path):
            _make_directories(os.path.dirname(path), self.sync)
            return LocalOutput(
                path, open(path, "xb", buffering=_BUFFER, opener=self._opener(path)), self.sync
            )

    def write_new(self, path: str, data: bytes) -> None:
        output = self.open_output(path)
        try:
            output.write(data)
            output.close()
        except BaseException:
            output.abort()
            raise

    def publish(self, path: str, data: bytes) -> bool:
        """A complete temporary file is hard-linked to its name: the kernel refuses a name that is taken."""
        temporary = self._temporary(path, "publish", data)
        try:
            return self._link(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def _opener(self, path: str) -> Callable[[str, int], int] | None:
        """How a new file is opened: with fewer rights for lakecore's own."""
        if f"/{SERVICE}/" not in path:
            return None
        return lambda name, flags: os.open(name, flags, self.service_mode)

    def _link(self, temporary: str, path: str) -> bool:
        try:
            os.link(temporary, path)
        except OSError as err:
            return _landed(temporary, path, err)
        try:
            _sync_directory(os.path.dirname(path), self.sync)
        except OSError as err:
            raise CommitUncertainError(f"{path}: published, but perhaps not durably: {err}") from err
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Through a temporary file and a rename, so that readers see the old or the new bytes."""
        temporary = self._temporary(path, "overwrite", data)
        with storage_errors("overwrite", path):
            try:
                os.replace(temporary, path)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            _sync_directory(os.path.dirname(path), self.sync)

    def _temporary(self, path: str, action: str, data: bytes) -> str:
        """A complete file beside `path`, under a fresh name that readers of the format ignore."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{self.clock.fresh_id()}.tmp")
        with storage_errors(action, path):
            _make_directories(directory, self.sync)
            try:
                with open(temporary, "xb", opener=self._opener(path)) as file:
                    file.write(data)
                    file.flush()
                    if self.sync:
                        os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        return temporary

    def list(self, path: str) -> list[FileStatus]:
        found = []
        with storage_errors("list", path):
            try:
                entries = os.scandir(path)
            except FileNotFoundError:
                return []
            with entries:
                for entry in entries:
                    try:  # a million times: entering a `suppress` would cost as much as the look itself
                        found.append(
                            _status(entry.path, entry.stat()) if not entry.is_symlink() else _link(entry)
                        )
                    except FileNotFoundError:  # deleted while we look: as if never seen
                        continue
        return sorted(found, key=_PATH_OF)

    def stat(self, path: str) -> FileStatus | None:
        with storage_errors("look at", path):
            try:
                return _status(path, os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, path: str) -> None:
        with storage_errors("delete", path):
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                return
            except (IsADirectoryError, PermissionError):
                if not os.path.isdir(path):
                    raise
                with suppress(FileNotFoundError):
                    os.rmdir(path)

    def move(self, path: str, target: str) -> None:
        """A second hard link, then the first one goes: never over a file that exists."""
        with storage_errors("move", path):
            _make_directories(os.path.dirname(target), self.sync)
            try:
                os.link(path, target)
            except OSError as err:
                if err.errno == errno.EXDEV:
                    self._copy(path, target)
                    return
                if err.errno not in _NO_LINKS:
                    raise
                if os.path.lexists(target):
                    raise FileExistsError(errno.EEXIST, "exists", target) from err
                os.rename(path, target)
            else:
                _sync_directory(os.path.dirname(target), self.sync)
                os.unlink(path)

    def _copy(self, path: str, target: str) -> None:
        """To another disk: a complete copy first, under its name at once. Raises UnsupportedError for a
        symbolic link: its copy would be of the file behind it.
        """
        if os.path.islink(path):
            raise UnsupportedError(
                f"cannot move {path}: it is a symbolic link; delete it or put the file there"
            )
        directory, name = os.path.split(target)
        temporary = os.path.join(directory, f".{name}.{self.clock.fresh_id()}.tmp")
        try:
            shutil.copy2(path, temporary)
            if self.sync:
                with open(temporary, "rb") as file:
                    os.fsync(file.fileno())
            os.link(temporary, target)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        _sync_directory(directory, self.sync)
        os.unlink(path)


class LocalRanges:
    """A local file by its descriptor: a look into it takes a quarter of what one of pyarrow takes."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError):
            with storage_errors("read", path):
                raise

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        try:
            found = os.pread(self._file, nbytes, offset)
            while 0 < len(found) < nbytes and (
                more := os.pread(self._file, nbytes - len(found), offset + len(found))
            ):
                found += more
        except OSError as err:
            raise translate(err, "read", self._path) from err
        return found

    def __enter__(self) -> LocalRanges:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


class LocalOutput:
    """A new local file. `close` makes it durable."""

    def __init__(self, path: str, file: BinaryIO, sync: bool) -> None:
        self.path = path
        self._file = file
        self._sync = sync

    @property
    def closed(self) -> bool:
        return self._file.closed

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        with storage_errors("write", self.path):
            return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Buffers are kept: writers flush after every page, and `close` is what counts."""

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            with storage_errors("write", self.path):
                self._file.flush()
                if self._sync:
                    os.fsync(self._file.fileno())
                self._file.close()
                _sync_directory(os.path.dirname(self.path), self._sync)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        with suppress(OSError):  # a full disk: the buffer cannot be flushed, and need not be
            self._file.close()
        with storage_errors("delete", self.path), suppress(FileNotFoundError):
            os.unlink(self.path)

    def __enter__(self) -> LocalOutput:
        return self

    def __exit__(self, kind: object, err: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def _status(path: str, found: os.stat_result) -> FileStatus:
    is_dir = (found.st_mode & 0o170000) == 0o040000
    return FileStatus(path, 0 if is_dir else found.st_size, is_dir, found.st_mtime_ns // 1_000_000)


def _link(entry: os.DirEntry[str]) -> FileStatus:
    """A symbolic link in a listing, also one that leads nowhere."""
    try:
        found = entry.stat()
    except OSError:  # it leads nowhere, or into itself
        return FileStatus(entry.path, 0, False, 0, is_link=True)
    is_dir = (found.st_mode & 0o170000) == 0o040000
    return FileStatus(entry.path, 0 if is_dir else found.st_size, False, 0, is_link=True)


def _landed(temporary: str, path: str, err: OSError) -> bool:
    """After a failed link: is `path` our file all the same? Network file systems repeat requests."""
    try:
        if os.path.samefile(temporary, path):
            return True
    except FileNotFoundError:
        if err.errno in _NO_LINKS:
            raise UnsupportedError(
                f"cannot publish {path}: this file system has no hard links, which atomic commits need; "
                "keep the warehouse on another one"
            ) from err
        raise translate(err, "publish", path) from err
    except OSError as unknown:
        raise CommitUncertainError(f"{path}: not known whether it was published: {unknown}") from err
    if isinstance(err, FileExistsError):
        return False
    raise translate(err, "publish", path) from err


def _make_directories(path: str, sync: bool) -> None:
    """Like `makedirs`; every new directory's own entry is made durable."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_directories(parent, sync)
    with suppress(FileExistsError):
        os.mkdir(path)
        _sync_directory(parent, sync)


def _sync_directory(path: str, sync: bool) -> None:
    if not sync:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as err:
        if err.errno != errno.EINVAL:  # some network file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)
