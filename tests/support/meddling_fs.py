"""Storage on which somebody else does something in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakecore.fs.file_io import FileIO
from tests.support.fault_fs import FaultyFileIO

__all__ = ["Meddling", "MeddlingAfter"]


class Meddling(FaultyFileIO):
    """Calls `meddle` once, when an operation on a path that contains `part` is about to happen."""

    def __init__(self, inner: FileIO, name: str, part: str, meddle: Callable[[], object]) -> None:
        super().__init__(inner)
        self._at = (name, part)
        self._meddle: Callable[[], object] | None = meddle

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if self._meddle is not None and name == self._at[0] and self._at[1] in path:
            meddle, self._meddle = self._meddle, None
            meddle()
        return super().operation(name, path, effect, torn)


class MeddlingAfter(FaultyFileIO):
    """Calls `meddle` once, after a file was deleted or moved away whose path ends with `end`."""

    def __init__(self, inner: FileIO, end: str, meddle: Callable[[], object]) -> None:
        super().__init__(inner)
        self._end = end
        self._meddle: Callable[[], object] | None = meddle

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = super().operation(name, path, effect, torn)
        if self._meddle is not None and name in ("move", "delete") and path.endswith(self._end):
            meddle, self._meddle = self._meddle, None
            meddle()
        return result
