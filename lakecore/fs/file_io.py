"""The protocol that all bytes pass through. It moves bytes: it knows neither parquet nor tables.

Paths are plain strings: an absolute local path, `s3://bucket/key` or `memory://name/key`.
Errors are lakecore's: NotFoundError, AlreadyExistsError, and UnavailableError with a remedy for what
storage refuses. Implementations pickle, so that a task on a Spark executor can carry one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["SERVICE", "FileIO", "FileStatus", "OutputFile", "RangeSource"]

SERVICE = ".lakecore"
"""The directory of a warehouse that holds lakecore's ledger, quarantine and leases."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file or directory. `size` in bytes (0 for a directory), `mtime_ms` since the epoch (0: unknown).

    `is_link`: a listing found a symbolic link. It is never `is_dir`, so that nobody walks through it, its age
    is not known, so that it is never old, and its size is that of the file behind it.
    """

    path: str
    size: int
    is_dir: bool
    mtime_ms: int
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


class OutputFile(Protocol):
    """A new file being written. Usable as a sink of pyarrow writers.

    The file counts only after `close`; a context manager that fails aborts. `abort` removes the file, is
    safe to call twice, after `close` too (then it removes the finished file).
    """

    path: str

    @property
    def closed(self) -> bool:
        """Nothing can be written any more."""

    def write(self, data: Any) -> int:
        """Append any bytes-like object; returns its length in bytes."""

    def tell(self) -> int:
        """Bytes written so far."""

    def flush(self) -> None:
        """Does not promise durability; `close` does."""

    def close(self) -> None:
        """Make the file complete and durable. Raises UnavailableError; then the file is not there."""

    def abort(self) -> None:
        """Remove whatever was written."""


class RangeSource(Protocol):
    """An open file; a context manager that closes it."""

    def size(self) -> int:
        """Bytes of the file."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Up to `nbytes` from `offset` on, fewer at the end of the file."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...


class FileIO(Protocol):
    """Storage. Every method is one operation: it happens or it fails."""

    def open_input(self, path: str) -> Any:
        """A seekable `pyarrow.NativeFile`, not memory mapped. Raises NotFoundError."""

    def open_ranges(self, path: str) -> RangeSource:
        """A file of which a few ranges are read: cheaper to open than `open_input`. Raises NotFoundError."""

    def read(self, path: str) -> bytes:
        """The whole file. Raises NotFoundError; CorruptDataError for more than 2 GB: none is so large."""

    def open_output(self, path: str) -> OutputFile:
        """A new file; missing directories are made. Raises AlreadyExistsError where storage can tell."""

    def write_new(self, path: str, data: bytes) -> None:
        """Write a file that must not exist, whole and durable. Raises AlreadyExistsError."""

    def publish(self, path: str, data: bytes) -> bool:
        """Create `path` with `data` atomically: readers see nothing or all of it. False: the name is taken.

        Raises UnavailableError when nothing was created, CommitUncertainError when that is not known.
        Callers use `lakecore.fs.publish.publish_resolved`, which settles the latter.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Create or replace (hints, tags)."""

    def list(self, path: str) -> list[FileStatus]:
        """Direct children of a directory, sorted by path; links as links. A missing directory has none."""

    def stat(self, path: str) -> FileStatus | None:
        """What is at `path`, or None."""

    def delete(self, path: str) -> None:
        """Remove a file or an empty directory; it may be missing."""

    def move(self, path: str, target: str) -> None:
        """Give a file another name within this storage; missing directories are made.

        A failure leaves it under the old name, the new one or both, always whole. Raises NotFoundError,
        AlreadyExistsError when `target` exists.
        """
