"""A `FileIO` that reads, and refuses every change before storage is asked."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.fs.file_io import FileStatus, OutputFile, RangeSource

__all__ = ["FileReads", "InnerReads", "ReadOnlyFileIO"]


class FileReads(Protocol):
    """These are the reads of `FileIO`, with its promises."""

    def open_input(self, path: str) -> Any: ...

    def open_ranges(self, path: str) -> RangeSource: ...

    def read(self, path: str) -> bytes: ...

    def list(self, path: str) -> list[FileStatus]: ...

    def stat(self, path: str) -> FileStatus | None: ...


class InnerReads:
    """It reads through `inner`."""

    inner: FileReads

    def open_input(self, path: str) -> Any:
        return self.inner.open_input(path)

    def open_ranges(self, path: str) -> RangeSource:
        return self.inner.open_ranges(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        return self.inner.list(path)

    def stat(self, path: str) -> FileStatus | None:
        return self.inner.stat(path)


@dataclass(frozen=True)
class ReadOnlyFileIO(InnerReads):
    """This is `inner` without changes: each raises UnsupportedError. It pickles when `inner` does."""

    inner: FileReads
    reason: str
    """It says why nothing can be changed, and what to do instead."""

    def open_output(self, path: str) -> OutputFile:
        self._refuse("created", path)

    def write_new(self, path: str, data: bytes) -> None:
        self._refuse("created", path)

    def publish(self, path: str, data: bytes) -> bool:
        self._refuse("created", path)

    def overwrite(self, path: str, data: bytes) -> None:
        self._refuse("replaced", path)

    def delete(self, path: str) -> None:
        self._refuse("deleted", path)

    def move(self, path: str, target: str) -> None:
        self._refuse("moved", path)

    def make_directory(self, path: str) -> bool:
        self._refuse("created", path)

    def move_directory(self, path: str, target: str) -> bool:
        self._refuse("moved", path)

    def remove_directory(self, path: str) -> None:
        self._refuse("deleted", path)

    def _refuse(self, verb: str, path: str) -> NoReturn:
        raise UnsupportedError(f"{path} cannot be {verb}: {self.reason}")
