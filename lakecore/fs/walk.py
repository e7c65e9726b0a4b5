"""This module walks a directory of a storage."""

from __future__ import annotations

from collections.abc import Iterator

from lakecore.fs.file_io import FileIO

__all__ = ["files_below"]


def files_below(file_io: FileIO, directory: str) -> Iterator[str]:
    """Yield the paths of all files below a directory, in order of their directories; a missing directory has
    none. It costs a listing for each directory.
    """
    for status in file_io.list(directory):
        if status.is_dir:
            yield from files_below(file_io, status.path)
        else:
            yield status.path
