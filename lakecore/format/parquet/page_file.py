"""This module presents some pages of a parquet file as a file of their own: stretches of that file behind
a rewritten footer.

Nothing is copied: who reads it reads the original, as it goes.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Container

from lakecore.format.parquet.footer_bytes import MAGIC, ended
from lakecore.format.parquet.page_index import ColumnPages, RowGroupPages
from lakecore.format.parquet.thrift_compact import Field, Struct, ThriftList, WireType, encode_struct

__all__ = ["PageFile", "ReadBytes", "page_file"]

ReadBytes = Callable[[int, int], bytes]
"""A function (offset, size) of this type returns exactly that many bytes of the original file."""

# field ids of parquet.thrift
_FILE_ROWS, _ROW_GROUPS = 3, 4
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OPTIONAL = 1, 2, 3, (4, 5, 6)
_CHUNK_OFFSET, _META_DATA, _CHUNK_INDEXES = 2, 3, (4, 5, 6, 7)
_NUM_VALUES, _RAW_SIZE, _SIZE, _PAGES_AT, _DICTIONARY_AT = 5, 6, 7, 9, 11
_META_OPTIONAL = (10, 12, 13, 14, 15, 16)


class PageFile:
    """It presents stretches of a file, one after another, as a Python file that can only be read."""

    closed = False

    def __init__(self, read: ReadBytes) -> None:
        self._read = read
        self._starts: list[int] = []
        self._stretches: list[bytes | tuple[int, int]] = []
        self._position = 0
        self.size = 0

    def add(self, stretch: bytes | tuple[int, int]) -> None:
        """Append bytes, or (offset, size) of the original file."""
        self._starts.append(self.size)
        self._stretches.append(stretch)
        self.size += len(stretch) if isinstance(stretch, bytes) else stretch[1]

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer at the end."""
        stop = self.size if size < 0 else min(self._position + size, self.size)
        parts = []
        while self._position < stop:
            parts.append(self._part(stop))
            self._position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = (
            offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        )
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the original is closed by its owner."""

    def _part(self, stop: int) -> bytes:
        """Return the bytes from the position to `stop` or to the end of its stretch."""
        which = bisect_right(self._starts, self._position) - 1
        begin, stretch = self._position - self._starts[which], self._stretches[which]
        length = stop - self._position
        if isinstance(stretch, bytes):
            return stretch[begin : begin + length]
        return self._read(stretch[0] + begin, min(length, stretch[1] - begin))


def page_file(
    meta: Struct, group: RowGroupPages, span: tuple[int, int], leaves: Container[int], read: ReadBytes
) -> tuple[PageFile, bytes]:
    """Return the file and its footer: it has rows `span` of `group`, of the leaf columns `leaves`; the others
    are empty.

    `span` must begin and end at pages of every wanted column. It reads nothing yet.
    """
    file = PageFile(read)
    file.add(MAGIC)
    chunks: list[Struct] = []
    for i, column in enumerate(group.columns):
        chunks.append(_chunk(column, span, file) if i in leaves else _empty_chunk(column.chunk))
    rows = span[1] - span[0]
    group_fields = {key: value for key, value in group.group.items() if key not in _GROUP_OPTIONAL}
    group_fields[_GROUP_COLUMNS] = Field(WireType.LIST, ThriftList(WireType.STRUCT, chunks))
    group_fields[_GROUP_ROWS] = Field(WireType.I64, rows)
    group_fields[_GROUP_BYTES] = Field(WireType.I64, file.size)
    copy = dict(meta)
    copy[_FILE_ROWS] = Field(WireType.I64, rows)
    copy[_ROW_GROUPS] = Field(WireType.LIST, ThriftList(WireType.STRUCT, [group_fields]))
    footer = encode_struct(copy)
    file.add(ended(footer))
    return file, footer


def _chunk(column: ColumnPages, span: tuple[int, int], file: PageFile) -> Struct:
    """Return the column chunk. Its number of values stays that of the whole chunk, an upper bound: readers
    stop at the last page.
    """
    first, last = column.covering(*span)
    old = column.chunk[_META_DATA].value
    meta = {key: value for key, value in old.items() if key not in _META_OPTIONAL}
    at = file.size
    if _DICTIONARY_AT in old and 0 < old[_DICTIONARY_AT].value < column.offsets[0]:
        dictionary = int(old[_DICTIONARY_AT].value)
        file.add((dictionary, int(column.offsets[0]) - dictionary))
        meta[_DICTIONARY_AT] = Field(WireType.I64, at)
    else:
        meta.pop(_DICTIONARY_AT, None)
    meta[_PAGES_AT] = Field(WireType.I64, file.size)
    begin = int(column.offsets[first])
    file.add((begin, int(column.offsets[last - 1] + column.sizes[last - 1]) - begin))
    meta[_SIZE] = Field(WireType.I64, file.size - at)
    return _with_meta(column.chunk, meta, at)


def _empty_chunk(chunk: Struct) -> Struct:
    """Return the chunk of a column that is not read, which must only be present."""
    meta = {key: value for key, value in chunk[_META_DATA].value.items() if key not in _META_OPTIONAL}
    meta.pop(_DICTIONARY_AT, None)
    meta[_PAGES_AT] = Field(WireType.I64, len(MAGIC))
    meta[_NUM_VALUES] = meta[_RAW_SIZE] = meta[_SIZE] = Field(WireType.I64, 0)
    return _with_meta(chunk, meta, len(MAGIC))


def _with_meta(chunk: Struct, meta: Struct, at: int) -> Struct:
    chunk_fields = {key: value for key, value in chunk.items() if key not in _CHUNK_INDEXES}
    chunk_fields[_CHUNK_OFFSET] = Field(WireType.I64, at)
    chunk_fields[_META_DATA] = Field(WireType.STRUCT, meta)
    return chunk_fields
