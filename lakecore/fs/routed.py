"""A `FileIO` over several storages: the path decides which of them an operation goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError
from lakecore.fs.file_io import FileIO, FileStatus, OutputFile, RangeSource

__all__ = ["Route", "RoutedFileIO", "ServiceRoute"]

_PART_BYTES = 8 << 20


class Route(Protocol):
    """It chooses the storage of a path. It can be pickled."""

    def storage_of(self, path: str) -> FileIO:
        """Return the storage in which `path` lies. Raises UnavailableError when it cannot be had."""

    def with_each(self, change: Callable[[FileIO], FileIO]) -> Route:
        """Return the same choice among changed storages."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """Paths at and below `root` are in `service`, all others in `other`."""

    root: str
    service: FileIO
    other: FileIO

    def storage_of(self, path: str) -> FileIO:
        """Return one of the two."""
        return self.service if f"{path.rstrip('/')}/".startswith(f"{self.root}/") else self.other

    def with_each(self, change: Callable[[FileIO], FileIO]) -> ServiceRoute:
        """Return the same choice among changed storages."""
        return ServiceRoute(self.root, change(self.service), change(self.other))


@dataclass(frozen=True)
class RoutedFileIO:
    """This is the storage that `route` chooses for each path. It pickles when `route` does."""

    route: Route

    def open_input(self, path: str) -> Any:
        return self.route.storage_of(path).open_input(path)

    def open_ranges(self, path: str) -> RangeSource:
        return self.route.storage_of(path).open_ranges(path)

    def read(self, path: str) -> bytes:
        return self.route.storage_of(path).read(path)

    def open_output(self, path: str) -> OutputFile:
        return self.route.storage_of(path).open_output(path)

    def write_new(self, path: str, data: bytes) -> None:
        self.route.storage_of(path).write_new(path, data)

    def publish(self, path: str, data: bytes) -> bool:
        return self.route.storage_of(path).publish(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self.route.storage_of(path).overwrite(path, data)

    def list(self, path: str) -> list[FileStatus]:
        return self.route.storage_of(path).list(path)

    def stat(self, path: str) -> FileStatus | None:
        return self.route.storage_of(path).stat(path)

    def delete(self, path: str) -> None:
        self.route.storage_of(path).delete(path)

    def move(self, path: str, target: str) -> None:
        """Rename a file. From one storage to another it is copied, and then deleted."""
        source, sink = self.route.storage_of(path), self.route.storage_of(target)
        if source == sink:
            source.move(path, target)
            return
        if sink.stat(target) is not None:
            raise AlreadyExistsError(f"{path} cannot be moved to {target}, which exists")
        out = sink.open_output(target)
        try:
            with source.open_input(path) as data:
                while part := data.read(_PART_BYTES):
                    out.write(part)
            out.close()
        except BaseException:
            out.abort()
            raise
        source.delete(path)

    def make_directory(self, path: str) -> bool:
        return self.route.storage_of(path).make_directory(path)

    def move_directory(self, path: str, target: str) -> bool:
        """Rename a directory in one step; False from one storage to another."""
        source = self.route.storage_of(path)
        return source == self.route.storage_of(target) and source.move_directory(path, target)

    def remove_directory(self, path: str) -> None:
        self.route.storage_of(path).remove_directory(path)
