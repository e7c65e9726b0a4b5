"""This module implements storage on local disks.

Durability: a data file is fsynced when it is closed (a large one also while it is written), and so is its
directory entry, before any commit can name it; a published file is fsynced before it becomes visible. A crash
of the machine therefore never leaves a snapshot that points to missing bytes. `LocalFileIO(sync=False)`
leaves this to the kernel, as other writers of the format do: faster, and safe against the death of a process
but not of the machine.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from operator import attrgetter
from threading import Thread
from typing import Any, BinaryIO

import pyarrow as pa

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, UnsupportedError
from lakecore.fs.base_output import BaseOutput
from lakecore.fs.failures import check_whole, storage_errors, translate
from lakecore.fs.file_io import SERVICE, FileStatus
from lakecore.fs.parent_directory import ParentDirectory, parent_directory

__all__ = ["LocalFileIO"]

_PATH_OF = attrgetter("path")
_BUFFER = 1 << 18
"""The size of the buffer that collects small writes; larger ones, as those of data files, bypass it
without a copy.
"""
_COPIED = 1 << 20
"""The number of bytes of a copy that are in memory at a time."""
_EARLY_BYTES = 32 << 20
"""After so many bytes those before are made durable in a thread, so that `close` has to wait for few."""
_ANYONE = 0o666
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True)
class LocalFileIO:
    """It implements `FileIO` over the file system of this machine."""

    sync: bool = True
    service_mode: int = 0o600
    """These are the permissions of lakecore's own new files (`.lakecore/`), reduced by the umask: ledgers
    name users, parameters and paths. Files of tables follow the umask alone.
    """
    roots: tuple[str, ...] = ()
    """Below these directories nothing is made, renamed or deleted through a symbolic link, even if a
    directory becomes one at the same moment (`lakecore.fs.parent_directory`). Each may be a link itself.
    """
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
        with storage_errors("create", path), self._making(path) as parent:
            opener = self._opener(parent)
            return LocalOutput(
                path, open(parent.name, "xb", buffering=_BUFFER, opener=opener), self.sync, self.roots
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
        """Create the file by a hard link from a complete temporary file to its name: the kernel refuses a
        name that is taken.
        """
        with storage_errors("publish", path), self._making(path) as parent:
            temporary = self._temporary(parent, "publish", data)
            try:
                return self._link(parent, temporary)
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent.descriptor)

    def _making(self, path: str) -> AbstractContextManager[ParentDirectory]:
        return parent_directory(path, self.roots, make=True, sync=self.sync)

    def _opener(self, parent: ParentDirectory) -> Callable[[str, int], int]:
        """Return a function that opens a new file in the open directory; files of lakecore's own are created
        with fewer rights.
        """
        mode = self.service_mode if f"/{SERVICE}/" in parent.path else _ANYONE
        return lambda name, flags: parent.open_new(name, flags, mode)

    def _link(self, parent: ParentDirectory, temporary: str) -> bool:
        try:
            _link_beside(parent, temporary)
        except OSError as err:
            return _landed(parent, temporary, err)
        try:
            parent.sync(self.sync)
        except OSError as err:
            raise CommitUncertainError(
                f"{parent.path} was published, but may not survive a crash of the machine: {err}"
            ) from err
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file through a temporary file and a rename, so that readers see the old or the new
        bytes.
        """
        with storage_errors("overwrite", path), self._making(path) as parent:
            temporary, within = self._temporary(parent, "overwrite", data), parent.descriptor
            try:
                os.replace(temporary, parent.name, src_dir_fd=within, dst_dir_fd=within)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=within)
                raise
            parent.sync(self.sync)

    def _temporary(self, parent: ParentDirectory, action: str, data: bytes) -> str:
        """Write a complete file beside that of `parent`, under a fresh name that readers of the format
        ignore, and return the name.
        """
        temporary = parent.sibling(f".{os.path.basename(parent.name)}.{self.clock.fresh_id()}.tmp")
        with storage_errors(action, parent.path):
            try:
                with open(temporary, "xb", opener=self._opener(parent)) as file:
                    file.write(data)
                    file.flush()
                    if self.sync:
                        os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent.descriptor)
                raise
        return temporary

    def list(self, path: str) -> list[FileStatus]:
        statuses = []
        with storage_errors("list", path):
            try:
                entries = os.scandir(path)
            except FileNotFoundError:
                return []
            with entries:
                for entry in entries:
                    try:  # a million times: entering a `suppress` would cost as much as the look itself
                        statuses.append(
                            _status(entry.path, entry.stat()) if not entry.is_symlink() else _link(entry)
                        )
                    except FileNotFoundError:  # deleted while we look: as if never seen
                        continue
        return sorted(statuses, key=_PATH_OF)

    def stat(self, path: str) -> FileStatus | None:
        with storage_errors("look at", path):
            try:
                return _status(path, os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, path: str) -> None:
        with storage_errors("delete", path):
            try:
                with parent_directory(path, self.roots) as parent:
                    _delete(parent)
            except (FileNotFoundError, NotADirectoryError):
                return

    def move(self, path: str, target: str) -> None:
        """Make a second hard link, then remove the first one, so that no existing file is overwritten."""
        with (
            storage_errors("move", path),
            parent_directory(path, self.roots) as old,
            self._making(target) as new,
        ):
            try:
                _link_between(old, new)
            except OSError as err:
                if err.errno == errno.EXDEV:
                    self._copy(old, new)
                    return
                if err.errno not in _NO_LINKS:
                    raise
                if _exists(new):
                    raise FileExistsError(errno.EEXIST, "exists", target) from err
                os.rename(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor)
            else:
                new.sync(self.sync)
                os.unlink(old.name, dir_fd=old.descriptor)

    def make_directory(self, path: str) -> bool:
        with storage_errors("create", path), self._making(path) as parent:
            try:
                os.mkdir(parent.name, dir_fd=parent.descriptor)
            except FileExistsError:
                return False
            parent.sync(self.sync)
            return True

    def move_directory(self, path: str, target: str) -> bool:
        """Rename the directory. The kernel refuses a target that holds something; another disk is no single
        step.
        """
        with (
            storage_errors("move", path),
            parent_directory(path, self.roots) as old,
            self._making(target) as new,
        ):
            if _exists(new):
                raise FileExistsError(errno.EEXIST, "exists", target)
            try:
                os.rename(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor)
            except OSError as err:
                if err.errno == errno.EXDEV:
                    return False
                if err.errno == errno.ENOTEMPTY:
                    raise FileExistsError(errno.EEXIST, "exists", target) from err
                raise
            new.sync(self.sync)
            old.sync(self.sync)
            return True

    def remove_directory(self, path: str) -> None:
        with storage_errors("delete", path):
            try:
                with parent_directory(path, self.roots) as parent:
                    os.rmdir(parent.name, dir_fd=parent.descriptor)
            except FileNotFoundError:
                return

    def _copy(self, old: ParentDirectory, new: ParentDirectory) -> None:
        """Copy a file to another disk: the copy is complete before it gets its name. Raises UnsupportedError
        for a symbolic link, because the copy would be of the file that it refers to.
        """
        if stat.S_ISLNK(old.look(old.name).st_mode):
            raise UnsupportedError(
                f"cannot move {old.path}: it is a symbolic link; delete it or put the file itself there"
            )
        temporary = new.sibling(f".{os.path.basename(new.name)}.{self.clock.fresh_id()}.tmp")
        try:
            _copy_file(old, new, temporary, self.sync)
            _link_beside(new, temporary)
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=new.descriptor)
        new.sync(self.sync)
        os.unlink(old.name, dir_fd=old.descriptor)


class LocalRanges:
    """It reads a local file by its descriptor, which costs a quarter of a range read through pyarrow."""

    _file = -1
    """This is the descriptor; -1 where the file is not open."""

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
            data = os.pread(self._file, nbytes, offset)
            while 0 < len(data) < nbytes and (
                more := os.pread(self._file, nbytes - len(data), offset + len(data))
            ):
                data += more
        except OSError as err:
            raise translate(err, "read", self._path) from err
        return data

    def __enter__(self) -> LocalRanges:
        return self

    def __exit__(self, *_: object) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        """Close a file that was opened ahead, and that nobody asked for after a failure."""
        self.__exit__()


class LocalOutput(BaseOutput):
    """This is a new local file. `close` makes it durable."""

    def __init__(self, path: str, file: BinaryIO, sync: bool, roots: tuple[str, ...] = ()) -> None:
        self.path = path
        self._file = file
        self._sync = sync
        self._roots = roots
        self._unsynced = 0
        self._early: _EarlySync | None = None

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        with storage_errors("write", self.path):
            count = self._file.write(data)
            self._unsynced += count
            if self._sync and self._unsynced >= _EARLY_BYTES:
                self._sync_early()
            return count

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Keep the buffers: writers flush after every page, and only `close` must be durable."""

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            with storage_errors("write", self.path):
                self._file.flush()
                if self._early is not None:
                    self._early.finish()
                if self._sync:
                    os.fsync(self._file.fileno())
                self._file.close()
                if self._sync:
                    with parent_directory(self.path, self._roots) as parent:
                        parent.sync(self._sync)
        except BaseException:
            self.abort()
            raise

    def _sync_early(self) -> None:
        """Make durable what the file has, unless a thread still does so with what came before. Raises the
        error that this one met.
        """
        if self._early is not None:
            if self._early.is_running():
                return
            self._early.finish()
        self._early = _EarlySync(self._file.fileno())
        self._unsynced = 0

    def abort(self) -> None:
        with suppress(OSError):  # a full disk: the buffer cannot be flushed, and need not be
            self._file.close()
        with (
            storage_errors("delete", self.path),
            suppress(FileNotFoundError),
            parent_directory(self.path, self._roots) as parent,
        ):
            os.unlink(parent.name, dir_fd=parent.descriptor)


class _EarlySync:
    """This thread makes durable what an open file has so far, while more is written.

    The kernel reports an error of the disk once for an open file, so that it is stored for the writer. The
    thread has a descriptor of its own, because the writer may close its one at any time.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        self._error: OSError | None = None
        self._thread = Thread(target=self._run, name="early-sync", daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> None:
        """Wait for the end of the thread. Raises the error that it met."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as err:
            self._error = err
        finally:
            os.close(self._descriptor)


def _status(path: str, status: os.stat_result) -> FileStatus:
    is_dir = (status.st_mode & 0o170000) == 0o040000
    return FileStatus(path, 0 if is_dir else status.st_size, is_dir, status.st_mtime_ns // 1_000_000)


def _link(entry: os.DirEntry[str]) -> FileStatus:
    """Return the status of a symbolic link in a listing, also of one that leads nowhere."""
    try:
        status = entry.stat()
    except OSError:  # it leads nowhere, or into itself
        return FileStatus(entry.path, 0, False, 0, is_link=True)
    is_dir = (status.st_mode & 0o170000) == 0o040000
    return FileStatus(entry.path, 0 if is_dir else status.st_size, False, 0, is_link=True)


def _link_beside(parent: ParentDirectory, temporary: str) -> None:
    """Give a temporary file of the directory the name of `parent`, which must be free."""
    within = parent.descriptor
    os.link(temporary, parent.name, src_dir_fd=within, dst_dir_fd=within, follow_symlinks=False)


def _link_between(old: ParentDirectory, new: ParentDirectory) -> None:
    os.link(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor, follow_symlinks=False)


def _landed(parent: ParentDirectory, temporary: str, err: OSError) -> bool:
    """Return whether the file is our own although a link failed. Network file systems repeat requests."""
    path = parent.path
    try:
        if os.path.samestat(parent.look(temporary), parent.look(parent.name)):
            return True
    except FileNotFoundError:
        if err.errno in _NO_LINKS:
            raise UnsupportedError(
                f"cannot publish {path}: this file system has no hard links, which atomic commits need; keep "
                "the warehouse on a file system that has them"
            ) from err
        raise translate(err, "publish", path) from err
    except OSError as unknown:
        raise CommitUncertainError(f"it is not known whether {path} was published: {unknown}") from err
    if isinstance(err, FileExistsError):
        return False
    raise translate(err, "publish", path) from err


def _delete(parent: ParentDirectory) -> None:
    try:
        os.unlink(parent.name, dir_fd=parent.descriptor)
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(parent.look(parent.name).st_mode):
            raise
        os.rmdir(parent.name, dir_fd=parent.descriptor)


def _exists(parent: ParentDirectory) -> bool:
    try:
        parent.look(parent.name)
    except FileNotFoundError:
        return False
    return True


def _copy_file(old: ParentDirectory, new: ParentDirectory, temporary: str, sync: bool) -> None:
    """Copy bytes, times and permissions of the file `old` to a new file beside `new`."""
    with (
        open(old.name, "rb", opener=lambda name, flags: old.open_new(name, flags, 0)) as source,
        open(temporary, "xb", opener=lambda name, flags: new.open_new(name, flags, 0o600)) as copy,
    ):
        shutil.copyfileobj(source, copy, _COPIED)
        copy.flush()
        status = os.fstat(source.fileno())
        os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
        os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        if sync:
            os.fsync(copy.fileno())
