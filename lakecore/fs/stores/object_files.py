"""This module has the open files of a store that obstore reaches, for reads."""

from __future__ import annotations

import io
from typing import Any

from lakecore.data_class import dataclass
from lakecore.fs.file_io import RangeSource
from lakecore.fs.stores.object_errors import object_errors

__all__ = ["ObjectRanges", "RangeReader"]


@dataclass(frozen=True, slots=True)
class ObjectRanges:
    """It reads ranges of one object, each with a request of its own. Threads may share it."""

    path: str
    store: Any
    key: str
    length: int

    def size(self) -> int:
        """Return the size of the object when it was opened."""
        return self.length

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return up to `nbytes` from `offset` on."""
        from obstore import get_range

        end = min(offset + nbytes, self.length)
        if end <= offset:
            return b""
        with object_errors("read", self.path):
            return bytes(get_range(self.store, self.key, start=offset, end=end))

    def __enter__(self) -> ObjectRanges:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because no connection belongs to this file."""


class RangeReader(io.RawIOBase):
    """It is a seekable file over ranges, for `pyarrow.PythonFile`."""

    def __init__(self, ranges: RangeSource) -> None:
        super().__init__()
        self._ranges = ranges
        self._length = ranges.size()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._length - self._position)
        data = self._ranges.read_at(rest if size is None or size < 0 else size, self._position)
        self._position += len(data)
        return data
