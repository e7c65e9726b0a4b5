"""This module reads a small file at once, for readers that look at many places of it."""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO, RangeSource

__all__ = ["BytesSource", "open_small_whole"]

_SMALL = 8 << 20


@dataclass(frozen=True, slots=True)
class BytesSource:
    """These bytes are read like a file."""

    data: bytes

    def size(self) -> int:
        return len(self.data)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return self.data[offset : offset + nbytes]

    def __enter__(self) -> BytesSource:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because nothing is open."""


def open_small_whole(file_io: FileIO, path: str) -> RangeSource:
    """Open a file for reads of ranges. A file of at most 8 MB is read now, with one read. Raises
    NotFoundError.
    """
    source = file_io.open_ranges(path)
    try:
        size = source.size()
        if size > _SMALL:
            return source
        data = source.read_at(size, 0)
    except BaseException:
        source.__exit__(None, None, None)
        raise
    source.__exit__(None, None, None)
    return BytesSource(data)
