"""This module has a file system in this process's memory, for tests and scratch tables. Directories are
implied by names.
"""

from __future__ import annotations

import io
from contextlib import suppress
from threading import Lock
from typing import Any

import pyarrow as pa

from lakecore.clock import Clock, SystemClock
from lakecore.errors import AlreadyExistsError, NotFoundError, UnavailableError
from lakecore.fs.base_output import BaseOutput
from lakecore.fs.file_io import FileStatus

__all__ = ["MemoryFileIO"]


class MemoryFileIO:
    """It implements `FileIO` over a dict. Instances of one name share their files, across threads and also
    after pickling.
    """

    _stores: dict[str, dict[str, tuple[bytes, int]]] = {}  # noqa: RUF012 - shared on purpose
    _lock = Lock()

    def __init__(self, name: str = "default", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        with self._lock:
            self._files = self._stores.setdefault(name, {})

    def __reduce__(self) -> tuple[type[MemoryFileIO], tuple[str, Clock]]:
        return MemoryFileIO, (self._name, self._clock)

    def clear(self) -> None:
        """Delete every file of this name."""
        with self._lock:
            self._files.clear()

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def open_ranges(self, path: str) -> Any:
        return self.open_input(path)

    def read(self, path: str) -> bytes:
        data = self._files.get(path)
        if data is None:
            raise NotFoundError(f"cannot read {path}: the file does not exist")
        return data[0]

    def open_output(self, path: str) -> MemoryOutput:
        if path in self._files:
            raise AlreadyExistsError(f"cannot create {path}: it exists already")
        return MemoryOutput(path, self)

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise AlreadyExistsError(f"cannot create {path}: it exists already")

    def publish(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = (bytes(data), self._clock.now_ms())
            return True

    def overwrite(self, path: str, data: bytes) -> None:
        with self._lock:
            self._files[path] = (bytes(data), self._clock.now_ms())

    def list(self, path: str) -> list[FileStatus]:
        prefix = path.rstrip("/") + "/"
        statuses: dict[str, FileStatus] = {}
        with self._lock:
            for name, (data, time) in self._files.items():
                if not name.startswith(prefix):
                    continue
                child, below, _ = name[len(prefix) :].partition("/")
                if not child:
                    continue  # what stands for the directory itself
                size = 0 if below else len(data)
                statuses[child] = FileStatus(prefix + child, size, bool(below), time)
        return sorted(statuses.values(), key=lambda status: status.path)

    def stat(self, path: str) -> FileStatus | None:
        data = self._files.get(path)
        if data is not None:
            return FileStatus(path, len(data[0]), False, data[1])
        marker = self._files.get(f"{path.rstrip('/')}/")
        if marker is not None:
            return FileStatus(path, 0, True, marker[1])
        children = self.list(path)
        return FileStatus(path, 0, True, children[0].mtime_ms) if children else None

    def delete(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)

    def move(self, path: str, target: str) -> None:
        with self._lock:
            if path not in self._files:
                raise NotFoundError(f"cannot move {path}: the file does not exist")
            if target in self._files:
                raise AlreadyExistsError(f"cannot move {path}: {target} exists already")
            self._files[target] = self._files.pop(path)

    def make_directory(self, path: str) -> bool:
        """Keep an empty file of the name `<path>/`, which no listing shows as a file."""
        return self.stat(path) is None and self.publish(f"{path.rstrip('/')}/", b"")

    def move_directory(self, path: str, target: str) -> bool:
        old, new = f"{path.rstrip('/')}/", f"{target.rstrip('/')}/"
        with self._lock:
            names = [name for name in self._files if name.startswith(old)]
            if not names:
                raise NotFoundError(f"cannot move {path}: the directory does not exist")
            if any(name.startswith(new) or name == target for name in self._files):
                raise AlreadyExistsError(f"cannot move {path}: {target} exists already")
            for name in names:
                self._files[new + name.removeprefix(old)] = self._files.pop(name)
            return True

    def remove_directory(self, path: str) -> None:
        with self._lock:
            marker = f"{path.rstrip('/')}/"
            if any(name.startswith(marker) and name != marker for name in self._files):
                raise UnavailableError(f"cannot delete {path}: the directory is not empty")
            self._files.pop(marker, None)


class MemoryOutput(BaseOutput):
    """This file appears when it is closed."""

    def __init__(self, path: str, owner: MemoryFileIO) -> None:
        self.path = path
        self._owner = owner
        self._buffer = io.BytesIO()
        self._open = True

    @property
    def closed(self) -> bool:
        return not self._open

    def write(self, data: Any) -> int:
        return self._buffer.write(data)

    def tell(self) -> int:
        return self._buffer.tell()

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        if self._open:
            self._open = False
            self._owner.write_new(self.path, self._buffer.getvalue())

    def abort(self) -> None:
        self._open = False
        with suppress(NotFoundError):
            self._owner.delete(self.path)
