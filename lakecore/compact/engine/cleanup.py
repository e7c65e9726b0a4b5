"""This module removes files that no snapshot can name: those of failed units, lost picks and killed attempts.

A run believes that it knows what it committed. After a commit nothing is removed on that belief alone: the
snapshots of its commit user are read, and a file that one of them names stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from lakecore.errors import LakeError
from lakecore.fs.file_io import FileIO
from lakecore.index.container import INDEX_SUFFIX

__all__ = ["Published", "belongs", "remove", "sweep"]

logger = logging.getLogger(__name__)

Published = Callable[[], frozenset[str]]
"""Reads the names of the files that are published; it is called when there is something to remove."""


def remove(file_io: FileIO, paths: Iterable[str], published: Published | None = None) -> None:
    """Delete files but those that are `published`. None: nothing can be, because no commit was tried.

    A failure is logged: what stays is an orphan, no damage.
    """
    waiting = list(paths)
    for path in waiting if published is None else _unpublished_paths(waiting, published):
        try:
            file_io.delete(path)
        except LakeError as err:
            logger.warning("%s is not needed but could not be removed: %s", path, err)


def belongs(name: str, names: Collection[str]) -> bool:
    """Return whether a file is one of `names`, or an index file that was made for one since."""
    return name in names or (name.endswith(INDEX_SUFFIX) and any(map(name.startswith, names)))


def _unpublished_paths(paths: list[str], published: Published) -> list[str]:
    """Return the paths that may be removed: none where that cannot be read."""
    if not paths:
        return []
    try:
        names = published()
    except LakeError as err:
        logger.warning("%d files that may be left over are kept: %s", len(paths), err)
        return []
    free = [path for path in paths if path.rpartition("/")[2] not in names]
    if len(free) < len(paths):
        logger.error("%d files that were taken for left-over ones are published", len(paths) - len(free))
    return free


def sweep(
    file_io: FileIO,
    directories: Iterable[str],
    is_debris: Callable[[str, int], bool],
    published: Published | None = None,
) -> int:
    """Delete the files in `directories` of which `is_debris(name, mtime_ms)` holds, but those that are
    `published`; return how many were found.

    It costs a listing of each directory, and one call of `published` where there is debris.
    """
    debris: list[str] = []
    for directory in directories:
        try:
            files = [status for status in file_io.list(directory) if not status.is_dir]
        except LakeError as err:
            logger.warning("%s could not be searched for files left by earlier attempts: %s", directory, err)
            continue
        debris += [file.path for file in files if is_debris(file.name, file.mtime_ms)]
    remove(file_io, debris, published)
    return len(debris)
