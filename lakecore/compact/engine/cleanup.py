"""Removing files that no snapshot can name: of failed units, lost picks and killed attempts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from lakecore.errors import LakeError
from lakecore.fs.file_io import FileIO
from lakecore.index.container import INDEX_SUFFIX

__all__ = ["belongs", "remove", "sweep"]

logger = logging.getLogger(__name__)


def remove(file_io: FileIO, paths: Iterable[str]) -> None:
    """Delete files. A failure is logged: what stays is an orphan, no damage."""
    for path in paths:
        try:
            file_io.delete(path)
        except LakeError as err:
            logger.warning("%s is not needed but could not be removed: %s", path, err)


def belongs(name: str, kept: Collection[str]) -> bool:
    """Is a file one of `kept`, or an index file that somebody has made of one since?"""
    return name in kept or (name.endswith(INDEX_SUFFIX) and any(map(name.startswith, kept)))


def sweep(file_io: FileIO, directories: Iterable[str], is_debris: Callable[[str, int], bool]) -> int:
    """Delete the files in `directories` of which `is_debris(name, mtime_ms)` holds; how many there were.

    Costs a listing of each directory.
    """
    found = 0
    for directory in directories:
        try:
            files = [status for status in file_io.list(directory) if not status.is_dir]
        except LakeError as err:
            logger.warning("%s could not be searched for files left by earlier attempts: %s", directory, err)
            continue
        debris = [file.path for file in files if is_debris(file.name, file.mtime_ms)]
        remove(file_io, debris)
        found += len(debris)
    return found
