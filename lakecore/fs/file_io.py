"""This module has the protocol that all bytes pass through. It moves bytes: it knows neither parquet nor
tables.

Paths are plain strings: an absolute local path, `s3://bucket/key` or `memory://name/key`. Errors are
lakecore's: NotFoundError, AlreadyExistsError, and UnavailableError with a remedy for what storage refuses.
Implementations pickle, so that a task on a Spark executor can carry one.
"""

from __future__ import annotations

from typing import Any, Protocol

from lakecore.data_class import dataclass

__all__ = ["SERVICE", "FileIO", "FileStatus", "OutputFile", "RangeSource"]

SERVICE = ".lakecore"
"""This is the directory of a warehouse that holds lakecore's ledger, quarantine and leases."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """This is the status of a file or directory."""

    path: str
    size: int
    """This is the size in bytes (0 for a directory)."""
    is_dir: bool
    mtime_ms: int
    """This is the modification time in milliseconds since the epoch (0: unknown)."""
    is_link: bool = False
    """It tells whether a listing found a symbolic link. A link is never `is_dir`, so that nobody walks
    through it; its age is unknown, so that it is never old; its size is that of its target.
    """

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


class OutputFile(Protocol):
    """This new file is being written. It can be a sink of pyarrow writers.

    The file counts only after `close`; a context manager that fails aborts. `abort` removes the file and
    is safe to call twice, after `close` too (then it removes the finished file).
    """

    path: str

    @property
    def closed(self) -> bool:
        """Return whether the file accepts no more writes."""

    def write(self, data: Any) -> int:
        """Append any bytes-like object; return its length in bytes."""

    def tell(self) -> int:
        """Return the number of bytes written so far."""

    def flush(self) -> None:
        """Flush buffers without promising durability; `close` promises it."""

    def close(self) -> None:
        """Make the file complete and durable. Raises UnavailableError; then the file does not exist."""

    def abort(self) -> None:
        """Remove whatever was written."""


class RangeSource(Protocol):
    """This is an open file for reads of single ranges; it is a context manager that closes it."""

    def size(self) -> int:
        """Return the size of the file in bytes."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return up to `nbytes` from `offset` on, fewer at the end of the file."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...


class FileIO(Protocol):
    """This is the protocol of storage. Every method is one operation: it succeeds or it fails."""

    def open_input(self, path: str) -> Any:
        """Open a seekable `pyarrow.NativeFile` that is not memory mapped. Raises NotFoundError."""

    def open_ranges(self, path: str) -> RangeSource:
        """Open a file of which a few ranges are read: it is cheaper than `open_input`. Raises
        NotFoundError.
        """

    def read(self, path: str) -> bytes:
        """Return the whole file. Raises NotFoundError; CorruptDataError for more than 2 GB, which no such
        file has.
        """

    def open_output(self, path: str) -> OutputFile:
        """Create a file, and missing directories. Raises AlreadyExistsError if storage can tell."""

    def write_new(self, path: str, data: bytes) -> None:
        """Write a complete, durable file that must not exist yet. Raises AlreadyExistsError."""

    def publish(self, path: str, data: bytes) -> bool:
        """Create `path` with `data` atomically: readers see nothing or all of it. It returns False if the
        name is taken.

        Raises UnavailableError when nothing was created, CommitUncertainError when that is not known.
        Callers use `lakecore.fs.publish.publish_resolved`, which settles the latter.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Create or replace a file (hints, tags)."""

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct children of a directory, sorted by path; links as links. A missing directory
        has none.
        """

    def stat(self, path: str) -> FileStatus | None:
        """Return the status of `path`, or None if nothing exists there."""

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory; it may be missing."""

    def move(self, path: str, target: str) -> None:
        """Rename a file within this storage; missing directories are made.

        After a failure the file has the old name, the new one or both, and is always complete. Raises
        NotFoundError, AlreadyExistsError when `target` exists.
        """

    def make_directory(self, path: str) -> bool:
        """Create an empty directory that a listing shows, and missing parents; False if something is there.

        Storage without directories creates an empty object of the name `<path>/`, as Paimon does.
        """

    def move_directory(self, path: str, target: str) -> bool:
        """Rename a directory with all that is below in one step; missing parents of `target` are made.

        False where this storage cannot do that in one step: then nothing has happened. Raises NotFoundError,
        AlreadyExistsError when `target` exists.
        """

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, or what stands for it; it may be missing. Raises UnavailableError when
        it holds something, where storage can tell.
        """
