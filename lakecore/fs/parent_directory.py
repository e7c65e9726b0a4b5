"""This module holds the directory of a local file open while the file is made, renamed or deleted.

A check of a path and a later operation on the same path are two looks: whoever exchanges a directory for a
symbolic link between them chooses what is changed. So below a root every directory is opened from the one
above it, the kernel refuses links in the same call, and the operation names the file relative to the open
directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError

__all__ = ["ParentDirectory", "parent_directory", "root_above", "sync_directory"]

_SEARCH = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""The flag that opens a directory for operations on its entries; it needs no right to list it."""
_NOT_FOLLOWED = frozenset({errno.ELOOP, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class ParentDirectory:
    """This is the parent directory of a local file, for operations that follow no link."""

    path: str
    name: str
    descriptor: int | None
    """This is the open directory, in which `name` is the file. None: there is no root to stay below, and
    `name` is the whole path.
    """

    def sibling(self, name: str) -> str:
        """Return the name of another file of this directory for operations with `descriptor`."""
        return name if self.descriptor is not None else os.path.join(os.path.dirname(self.path), name)

    def open_new(self, name: str, flags: int, mode: int) -> int:
        """Return a descriptor of `name`; a link of that name is not followed. Raises OSError as `os.open`
        does.
        """
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=self.descriptor)

    def look(self, name: str) -> os.stat_result:
        """Return the state of `name`, of a link itself. Raises OSError as `os.lstat` does."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def sync(self, sync: bool) -> None:
        """Make the entries of this directory durable."""
        if not sync:
            return
        if self.descriptor is None:
            sync_directory(os.path.dirname(self.path))
        else:
            sync_directory(".", self.descriptor)


@contextmanager
def parent_directory(
    path: str, roots: tuple[str, ...], *, make: bool = False, sync: bool = False
) -> Iterator[ParentDirectory]:
    """Open the directory of `path`, below the deepest of `roots` through no link. A root may be a link.

    `make` creates missing directories, durably with `sync`. Raises UnsupportedError for a link, OSError as
    storage does. It costs two system calls a directory below the root.
    """
    directory, name = os.path.split(path)
    root = root_above(path, roots)
    if make:
        _make_directories(root or directory, sync)
    if root is None:
        yield ParentDirectory(path, path, None)
        return
    descriptor = _open_below(root, directory, make=make, sync=sync)
    try:
        yield ParentDirectory(path, name, descriptor)
    finally:
        os.close(descriptor)


def root_above(path: str, roots: tuple[str, ...]) -> str | None:
    """Return the deepest of `roots` that `path` is below, compared by text."""
    above = [root for root in roots if path.startswith(f"{root.rstrip('/')}/") and path != root]
    return max(above, key=len, default=None)


def sync_directory(path: str, within: int | None = None) -> None:
    """Make the entries of a directory durable. `within`: the open directory that `path` is relative to."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=within)
    try:
        os.fsync(descriptor)
    except OSError as err:
        if err.errno != errno.EINVAL:  # some network file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)


def _make_directories(path: str, sync: bool) -> None:
    """Create a directory and its parents as `makedirs` does; the entry of every new directory is made
    durable.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_directories(parent, sync)
    with suppress(FileExistsError):
        os.mkdir(path)
        if sync:
            sync_directory(parent)


def _open_below(root: str, directory: str, *, make: bool, sync: bool) -> int:
    current = os.open(root, _SEARCH)
    place = root.rstrip("/")
    try:
        for part in directory[len(place) :].split("/"):
            if part:
                place = f"{place}/{part}"
                below = _open_part(current, part, place, make=make, sync=sync)
                os.close(current)
                current = below
    except BaseException:
        os.close(current)
        raise
    return current


def _open_part(parent: int, part: str, place: str, *, make: bool, sync: bool) -> int:
    try:
        return _open_directory(parent, part, place)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=parent)
        if sync:
            sync_directory(".", parent)
    return _open_directory(parent, part, place)


def _open_directory(parent: int, part: str, place: str) -> int:
    try:
        return os.open(part, _SEARCH | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as err:
        if err.errno in _NOT_FOLLOWED and _is_link(parent, part):
            raise UnsupportedError(
                f"{place} is a symbolic link, and lakecore changes nothing through one below the warehouse; "
                "put the directory itself there"
            ) from err
        raise


def _is_link(parent: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False
