"""A `FileIO` that fails at its N-th operation: faults as a test input.

    for number in itertools.count(1):
        storage = FaultyFileIO(inner, fail_at=number, mode=FaultMode.ERROR)
        ...run the scenario on `storage`, look at the result through `inner`...
        if not storage.fired:
            break  # the scenario has fewer operations: every one has failed once

Operations are the calls of `FileIO` and, on files being written, every `write` and `close`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from lakecore.errors import CommitUncertainError, UnavailableError
from lakecore.fs.file_io import FileIO, FileStatus

__all__ = ["FaultMode", "FaultyFileIO"]


class FaultMode(Enum):
    """What happens at the chosen operation."""

    ERROR = "error"
    """It fails and nothing has happened; the next ones work."""
    ERROR_AFTER_EFFECT = "error-after-effect"
    """It happens, and then reports an error."""
    DEAD = "dead"
    """It fails, and so does everything after it: the process was killed before it."""
    DEAD_AFTER_EFFECT = "dead-after-effect"
    """It happens, then the process is killed."""
    TORN = "torn"
    """Writes that are not atomic leave half of their bytes; then the process is killed."""
    INTERRUPTED = "interrupted"
    """A signal (KeyboardInterrupt) comes before it; what cleans up behind works."""
    INTERRUPTED_AFTER_EFFECT = "interrupted-after-effect"
    """It happens, and then the signal comes."""


_LASTING = (FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT, FaultMode.TORN)
_LATE = (FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD_AFTER_EFFECT, FaultMode.INTERRUPTED_AFTER_EFFECT)
_SIGNALS = (FaultMode.INTERRUPTED, FaultMode.INTERRUPTED_AFTER_EFFECT)


class FaultyFileIO:
    """Counts operations on `inner` and fails number `fail_at` (from 1; 0 = never)."""

    def __init__(self, inner: FileIO, fail_at: int = 0, mode: FaultMode = FaultMode.ERROR) -> None:
        self.inner = inner
        self.fail_at = fail_at
        self.mode = mode
        self.count = 0
        self.log: list[str] = []

    @property
    def fired(self) -> bool:
        """Whether the fault happened."""
        return 0 < self.fail_at <= self.count

    def open_input(self, path: str) -> Any:
        return self.operation("open_input", path, lambda: self.inner.open_input(path))

    def open_ranges(self, path: str) -> Any:
        return self.operation("open_ranges", path, lambda: self.inner.open_ranges(path))

    def read(self, path: str) -> bytes:
        return self.operation("read", path, lambda: self.inner.read(path))

    def open_output(self, path: str) -> FaultyOutput:
        return FaultyOutput(self.operation("open_output", path, lambda: self.inner.open_output(path)), self)

    def write_new(self, path: str, data: bytes) -> None:
        self.operation(
            "write_new",
            path,
            lambda: self.inner.write_new(path, data),
            torn=lambda: self.inner.write_new(path, data[: len(data) // 2]),
        )

    def publish(self, path: str, data: bytes) -> bool:
        return self.operation("publish", path, lambda: self.inner.publish(path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self.operation(
            "overwrite",
            path,
            lambda: self.inner.overwrite(path, data),
            torn=lambda: self.inner.overwrite(path, data[: len(data) // 2]),
        )

    def list(self, path: str) -> list[FileStatus]:
        return self.operation("list", path, lambda: self.inner.list(path))

    def stat(self, path: str) -> FileStatus | None:
        return self.operation("stat", path, lambda: self.inner.stat(path))

    def delete(self, path: str) -> None:
        self.operation("delete", path, lambda: self.inner.delete(path))

    def move(self, path: str, target: str) -> None:
        self.operation("move", path, lambda: self.inner.move(path, target))

    def make_directory(self, path: str) -> bool:
        return self.operation("make_directory", path, lambda: self.inner.make_directory(path))

    def move_directory(self, path: str, target: str) -> bool:
        return self.operation("move_directory", path, lambda: self.inner.move_directory(path, target))

    def remove_directory(self, path: str) -> None:
        self.operation("remove_directory", path, lambda: self.inner.remove_directory(path))

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        """Do `effect`, or fail as the mode says."""
        self.count += 1
        self.log.append(f"{name} {path}")
        if self.count > self.fail_at > 0 and self.mode in _LASTING:
            raise UnavailableError(f"injected: {name} {path}: the process is dead")
        if self.count != self.fail_at:
            return effect()
        if self.mode in _LATE:
            effect()
            if name == "publish" and self.mode not in _SIGNALS:
                raise CommitUncertainError(f"injected after {name} {path}")
        if self.mode is FaultMode.TORN and torn is not None:
            torn()
        if self.mode in _SIGNALS:
            raise KeyboardInterrupt(f"injected at operation {self.count}: {name} {path}")
        raise UnavailableError(f"injected at operation {self.count}: {name} {path}")


class FaultyOutput:
    """A new file whose writes count as operations."""

    def __init__(self, inner: Any, owner: FaultyFileIO) -> None:
        self.path = inner.path
        self._inner = inner
        self._owner = owner

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        return self._owner.operation(
            "write",
            self.path,
            lambda: self._inner.write(data),
            torn=lambda: self._inner.write(memoryview(data)[: len(data) // 2]),
        )

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        if not self._inner.closed:
            self._owner.operation("close", self.path, self._inner.close)

    def abort(self) -> None:
        self._owner.operation("abort", self.path, self._inner.abort)

    def __enter__(self) -> FaultyOutput:
        return self

    def __exit__(self, kind: object, err: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
