"""This module lists directories: several at once from here, or, where they are many, on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnavailableError
from lakecore.executor import Executor
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.maintain.target import in_threads

__all__ = ["DirectoryListing", "Lister"]

R = TypeVar("R")

_FEW = 500
"""Directories that are not worth the start of an engine."""
_BATCH = 64
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """This is the listing of one directory. `folders` are paths below it; `files` and `size` count all its
    files. `old` are those of them that are older than asked for; one whose age is not known counts as young.
    """

    folders: tuple[str, ...]
    files: int
    size: int
    old: tuple[FileStatus, ...]


@dataclass(frozen=True, slots=True)
class Lister:
    """`older_than_ms` is since the epoch. An error of any listing ends everything: what is not seen would
    not be known from what is not there.
    """

    file_io: FileIO
    older_than_ms: int
    executor: Executor

    def list(self, directory: str) -> DirectoryListing:
        """List a directory; a directory that is missing has no files."""
        return _list(self.file_io, self.older_than_ms, directory)

    def each(self, directories: Iterable[str], then: Callable[[DirectoryListing], R]) -> Iterator[R]:
        """Yield the result of `then` for each directory, in order. It keeps the results of some thousand
        directories in memory; with executors also the old files of 128 directories per core.
        """
        waiting = iter(directories)
        first = list(islice(waiting, _FEW + 1))
        if self.executor.name == "local" or len(first) <= _FEW:
            yield from in_threads(lambda path: then(self.list(path)), chain(first, waiting))
        else:
            yield from map(then, self._on_executors(chain(first, waiting)))

    def _on_executors(self, waiting: Iterator[str]) -> Iterator[DirectoryListing]:
        wave = _BATCH * _AHEAD * self.executor.parallelism
        while paths := tuple(islice(waiting, wave)):
            batches = [paths[low : low + _BATCH] for low in range(0, len(paths), _BATCH)]
            tasks = [(self.file_io, self.older_than_ms, batch) for batch in batches]
            answers = 0
            for result in self.executor.run(_list_batch, tasks):
                if isinstance(result, LakeError):
                    raise result
                if isinstance(result, BaseException):
                    raise UnavailableError(
                        f"the directories from {batches[answers][0]} on could not be listed: {result}"
                    ) from result
                yield from map(_restore, batches[answers], result)
                answers += 1
            if answers < len(batches):
                raise UnavailableError(f"the listing stopped before {batches[answers][0]}; run again")


def _list(file_io: FileIO, older_than_ms: int, directory: str) -> DirectoryListing:
    statuses = file_io.list(directory)
    files = [status for status in statuses if not status.is_dir]
    return DirectoryListing(
        folders=tuple(status.path for status in statuses if status.is_dir),
        files=len(files),
        size=sum([status.size for status in files]),
        old=tuple(status for status in files if 0 < status.mtime_ms < older_than_ms),
    )


_Short = tuple[tuple[str, ...], int, int, tuple[tuple[str, int, int], ...]]


def _list_batch(task: tuple[FileIO, int, tuple[str, ...]]) -> list[_Short]:
    """List the directories of one unit of work on the executor. The result does not repeat the directory in
    each name.
    """
    file_io, older_than_ms, directories = task
    listings = in_threads(partial(_list, file_io, older_than_ms), directories)
    return [_shorten(path, statuses) for path, statuses in zip(directories, listings, strict=True)]


def _shorten(directory: str, listing: DirectoryListing) -> _Short:
    prefix = f"{directory}/"
    old = tuple((s.path.removeprefix(prefix), s.size, s.mtime_ms) for s in listing.old)
    return tuple(path.removeprefix(prefix) for path in listing.folders), listing.files, listing.size, old


def _restore(directory: str, short: _Short) -> DirectoryListing:
    """Return the listing with full paths. A name without a slash is one of the directory."""
    folders, files, size, old = short
    return DirectoryListing(
        folders=tuple(_path(directory, name) for name in folders),
        files=files,
        size=size,
        old=tuple(FileStatus(_path(directory, name), length, False, time) for name, length, time in old),
    )


def _path(directory: str, name: str) -> str:
    return name if "/" in name else f"{directory}/{name}"
