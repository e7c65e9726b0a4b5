"""This module has a directory of copies that the processes of a user share.

A copy is `<name>.lookup`, and while it is made `<name>.tmp`, which its maker holds locked and renames when it
is complete. So a copy is made by one process at a time, is never seen in part, and the lock of a process that
was killed is free at once: who asks next makes the copy in the file that was left, others remove it. The time
of change of a copy is the time of its last use. A copy that is removed stays readable for who has it open.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lakecore.clock import Clock
from lakecore.lookup.copies.shared_file import SharedFile
from lakecore.lookup.query.local_disk import StoredFile
from lakecore.processes.private_directory import make_private_directory

__all__ = ["NoProgressError", "SharedDirectory"]

_NAME = re.compile(r"[0-9a-f]{64}\.(lookup|tmp)")
_STALLED_SECONDS = 30.0
"""A process gives up waiting for a copy that has not grown for so long: its maker may be stopped."""
_WAIT_SECONDS = 0.01


class NoProgressError(Exception):
    """Another process holds the turn to make a copy and does not go on. It never leaves the package."""


class SharedDirectory:
    """Any number of processes and threads may use it. What makes copies raises OSError; the rest finds and
    removes what it can.
    """

    def __init__(self, parent: str) -> None:
        """Use the directory of this user below `parent`; it is made if it does not exist. Raises
        PermissionError where it belongs to somebody else, or others may use it.
        """
        self.path = os.path.join(parent, f"lakecore-shared-lookup-{os.getuid()}")
        make_private_directory(self.path)

    def find(self, name: str) -> StoredFile | None:
        """Return the complete copy of that name; None without one."""
        try:
            return StoredFile(self._path(name, "lookup"), is_shared=True)
        except OSError:
            return None

    @contextmanager
    def turn(self, name: str, clock: Clock) -> Iterator[int]:
        """Hold the turn to make the copy of that name, as the handle of its file. It waits for a process that
        has the turn; NoProgressError when that does not go on. What is not published is removed at the end.
        """
        path = self._path(name, "tmp")
        handle = self._open_locked(path, clock)
        try:
            yield handle
        finally:
            try:
                if _is_at(handle, path):
                    os.unlink(path)
            finally:
                os.close(handle)

    def publish(self, name: str, handle: int, parts: Iterable[bytes], now_ms: int) -> StoredFile:
        """Write a copy in its turn, and give it its name when it is complete."""
        os.lseek(handle, 0, os.SEEK_SET)
        os.ftruncate(handle, 0)
        for part in parts:
            _write(handle, part)
        os.utime(handle, ns=(now_ms * 1_000_000,) * 2)
        temporary, complete = self._path(name, "tmp"), self._path(name, "lookup")
        stored = StoredFile(temporary, is_shared=True)
        os.rename(temporary, complete)
        stored.path = complete
        return stored

    def files(self) -> list[SharedFile]:
        """Return the copies and what was left of some; files of other names are not ours."""
        out: list[SharedFile] = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        state = entry.stat(follow_symlinks=False)
                        used_ms = state.st_mtime_ns // 1_000_000
                        complete = entry.name.endswith(".lookup")
                        out.append(SharedFile(entry.path, state.st_size, used_ms, complete))
        return out

    def remove(self, file: SharedFile) -> None:
        """Remove a copy; one that is incomplete only where nobody makes it."""
        with suppress(OSError):
            if file.is_complete:
                os.unlink(file.path)
                return
            handle = os.open(file.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _lock(handle) and _is_at(handle, file.path):
                    os.unlink(file.path)
            finally:
                os.close(handle)

    def _path(self, name: str, ending: str) -> str:
        return os.path.join(self.path, f"{name}.{ending}")

    def _open_locked(self, path: str, clock: Clock) -> int:
        """Return the handle of the file at `path`, which is locked. Who had it may have renamed or removed it
        meanwhile: then it is opened anew.
        """
        while True:
            make_private_directory(self.path)  # something may clean up TMPDIR
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                _wait_for_lock(handle, clock)
                if _is_at(handle, path):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def _wait_for_lock(handle: int, clock: Clock) -> None:
    size, since = -1, clock.monotonic()
    while not _lock(handle):
        now_size = os.fstat(handle).st_size
        if now_size != size:
            size, since = now_size, clock.monotonic()
        elif clock.monotonic() - since > _STALLED_SECONDS:
            raise NoProgressError
        clock.sleep(_WAIT_SECONDS)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _write(handle: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[os.write(handle, view) :]
