"""This module has the local directories of a process: lookup files are written there, read by ranges and
removed.

Each process makes a directory of its own, which it holds locked. Directories whose process has ended, however
it ended, are removed by the next process that starts.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from lakecore.errors import UnavailableError, reason

__all__ = ["LocalDisk", "StoredFile"]

_PREFIX = "lakecore-lookup-"
_LOCK = "lock"


class StoredFile:
    """It is one file on local disk, open for reading. It stays readable after it was removed."""

    def __init__(self, path: str, *, is_shared: bool = False) -> None:
        """Open a file, which other processes use, too, if it is shared. Raises OSError."""
        self.path = path
        self._is_shared = is_shared
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._close = weakref.finalize(self, os.close, self._handle)
        self.size = os.fstat(self._handle).st_size
        """The size is in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return these bytes; fewer where the file has been cut. Raises OSError."""
        return os.pread(self._handle, length, offset)

    def remove(self) -> None:
        """Say that this process needs the file no longer: it is removed unless it is shared, and may be gone
        already. Its bytes are free once nobody reads it any more.
        """
        if not self._is_shared:
            _unlink(self.path)

    def discard(self) -> None:
        """Remove the file, which is damaged, for all processes; a new one at its path stays."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._handle), os.lstat(self.path)):
                os.unlink(self.path)

    @property
    def is_removed(self) -> bool:
        """Return whether a process has removed the file, or the disk does not say."""
        try:
            return os.fstat(self._handle).st_nlink == 0
        except OSError:
            return True

    def record_use(self, now_ms: int) -> None:
        """Tell other processes that it is used now."""
        if self._is_shared:
            with suppress(OSError):
                os.utime(self._handle, ns=(now_ms * 1_000_000,) * 2)


class LocalDisk:
    """It writes files into several directories in turn; where one is full, into the next."""

    def __init__(self, directories: Sequence[str] = ()) -> None:
        """Make a directory of this process below each of these; without any, below that of TMPDIR. Raises
        UnavailableError when one cannot be made.
        """
        parents = tuple(directories) or (tempfile.gettempdir(),)
        self._numbers = itertools.count()
        try:
            owned = [_own_directory(parent) for parent in parents]
        except OSError as err:
            raise _refusal(parents, err) from err
        self.directories = tuple(path for path, _ in owned)
        """These directories are removed when the object is, or the process ends."""
        self._end = weakref.finalize(self, _remove, owned, os.getpid())

    def write(self, parts: Callable[[], Iterable[bytes]]) -> StoredFile:
        """Write the bytes of `parts()` as one file; it is called again for each directory that is full.

        Raises UnavailableError when all are full, or cannot be written to; nothing is left then.
        """
        number = next(self._numbers)
        failed: OSError | None = None
        for at in range(len(self.directories)):
            directory = self.directories[(number + at) % len(self.directories)]
            path = os.path.join(directory, f"{number}.lookup")
            try:
                os.makedirs(directory, mode=0o700, exist_ok=True)  # something may clean up TMPDIR
                self._write(path, parts())
                return StoredFile(path)
            except OSError as err:
                failed = err
            except BaseException:
                _unlink(path)
                raise
            _unlink(path)
        raise _refusal(self.directories, failed)

    def _write(self, path: str, parts: Iterable[bytes]) -> None:
        """Write a new file. Tests replace it with one that fails."""
        with open(path, "xb") as out:
            for part in parts:
                out.write(part)

    def close(self) -> None:
        """Remove the directories of this process."""
        self._end()


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _refusal(directories: Sequence[str], err: OSError | None) -> UnavailableError:
    listed = ", ".join(directories)
    return UnavailableError(
        f"local directory {listed}: a file for lookups cannot be written ({reason(err) if err else 'full'}): "
        "free some space, name other directories, or set lookup.cache-max-disk-size"
    )


def _own_directory(parent: str) -> tuple[str, int]:
    """Make a directory that is locked as long as this process lives, and remove those of ended processes."""
    os.makedirs(parent, exist_ok=True)
    for name in os.listdir(parent):
        if name.startswith(_PREFIX):
            _remove_if_ended(os.path.join(parent, name))
    path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    handle = os.open(os.path.join(path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path, handle


def _remove_if_ended(path: str) -> None:
    """Remove a directory of this user whose lock nobody holds. One without a lock is just being made."""
    try:
        if os.lstat(path).st_uid != os.getuid() or os.path.islink(path):
            return
        handle = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(handle)


def _remove(owned: Sequence[tuple[str, int]], process: int) -> None:
    if os.getpid() != process:  # a child that was forked does not own them
        return
    for path, handle in owned:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            os.close(handle)
