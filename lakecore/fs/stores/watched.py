"""This module has a `FileIO` that tells of each change that is made through it."""

from __future__ import annotations

from typing import Protocol

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO, OutputFile
from lakecore.fs.read_only import InnerReads

__all__ = ["PathWatch", "WatchedFileIO"]


class PathWatch(Protocol):
    """It notes changes. It never raises."""

    def path_changed(self, path: str, *, is_directory: bool) -> None:
        """Record that a file may have changed, or a directory with all that is below."""


@dataclass(frozen=True)
class WatchedFileIO(InnerReads):
    """It has the files of `inner`, and `watch` is told of each change after it was made, and also where it
    failed, because it may have been made.

    Of a file that is opened for writing it is not told: nobody reads one before another file names it. It
    pickles when `inner` does.
    """

    inner: FileIO
    watch: PathWatch | None
    """It is None in a copy that was pickled."""

    def open_output(self, path: str) -> OutputFile:
        return self.inner.open_output(path)

    def write_new(self, path: str, data: bytes) -> None:
        try:
            self.inner.write_new(path, data)
        finally:
            self._tell(path)

    def publish(self, path: str, data: bytes) -> bool:
        try:
            return self.inner.publish(path, data)
        finally:
            self._tell(path)

    def overwrite(self, path: str, data: bytes) -> None:
        try:
            self.inner.overwrite(path, data)
        finally:
            self._tell(path)

    def delete(self, path: str) -> None:
        try:
            self.inner.delete(path)
        finally:
            self._tell(path)

    def move(self, path: str, target: str) -> None:
        try:
            self.inner.move(path, target)
        finally:
            self._tell(path, target)

    def make_directory(self, path: str) -> bool:
        return self.inner.make_directory(path)

    def move_directory(self, path: str, target: str) -> bool:
        try:
            return self.inner.move_directory(path, target)
        finally:
            self._tell(path, target, is_directory=True)

    def remove_directory(self, path: str) -> None:
        try:
            self.inner.remove_directory(path)
        finally:
            self._tell(path, is_directory=True)

    def _tell(self, *paths: str, is_directory: bool = False) -> None:
        if self.watch is not None:
            for path in paths:
                self.watch.path_changed(path, is_directory=is_directory)
