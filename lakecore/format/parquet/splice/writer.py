"""This module writes a file that is made of whole row groups of others. It decides nothing: see `rules`."""

from __future__ import annotations

from lakecore.errors import CorruptDataError
from lakecore.format.parquet.footer_bytes import MAGIC, ended
from lakecore.format.parquet.page_locations import encoded_pages, page_list
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import changed, value
from lakecore.format.parquet.splice.footer import Chunk, Footer, RowGroup
from lakecore.format.parquet.thrift_compact import WireType
from lakecore.format.parquet.thrift_spans import Fields, binary_value, encode_changed, list_of
from lakecore.fs.file_io import OutputFile, RangeSource

__all__ = ["SpliceWriter"]

_BLOCK = 4 << 20
_MOST_ORDINALS = 1 << 15
_WRITER = b"lakecore version 0.0.0 (build splice)"
"""The name of the writer of a file with row groups of several: readers then assume no faults of theirs."""
_STRUCT, _LIST, _BINARY = int(WireType.STRUCT), int(WireType.LIST), int(WireType.BINARY)


class SpliceWriter:
    """It writes one new file. After an error call `abort`."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._first: Footer | None = None
        self._writers: set[bytes] = set()
        self._version = 1
        self._groups: list[_Group] = []
        self._at = 0
        self.rows = 0
        self._write(MAGIC)

    @property
    def size(self) -> int:
        """Return the bytes written so far; footer and page indexes come with `close`."""
        return self._at

    @property
    def first(self) -> Footer | None:
        """Return the footer of the first file that was added: others must mix with it (see `rules`)."""
        return self._first

    @property
    def group_count(self) -> int:
        """Return how many row groups the file has so far."""
        return len(self._groups)

    def add(self, source: RangeSource, footer: Footer) -> None:
        """Append all row groups of a file. Raises CorruptDataError for one that became shorter meanwhile."""
        for group in footer.groups:
            self._add_group(source, footer, group)
        self._first = self._first or footer
        self._writers.add(footer.writer)
        self._version = max(self._version, value(footer.fields, f.FILE_VERSION, 1))
        self.rows += footer.rows

    def close(self) -> int:
        """Write page indexes and footer, finish the file, and return its size."""
        if self._first is None:
            raise ValueError("no file was added")
        for group in self._groups:
            for chunk in group.chunks:
                chunk.bounds_at = self._write_index(chunk.bounds)
        for group in self._groups:
            for chunk in group.chunks:
                chunk.pages_at = self._write_index(chunk.pages)
        self._write(ended(self._footer(self._first)))
        self._output.close()
        return self._at

    def abort(self) -> None:
        """Remove the file."""
        self._output.abort()

    def _add_group(self, source: RangeSource, footer: Footer, group: RowGroup) -> None:
        start = self._at
        chunks = [self._add_chunk(source, footer, chunk) for chunk in group.chunks]
        self._groups.append(_Group(footer.thrift, group.fields, start, chunks))

    def _add_chunk(self, source: RangeSource, footer: Footer, chunk: Chunk) -> _Chunk:
        moved = self._at - chunk.start
        for begin in range(chunk.start, chunk.stop, _BLOCK):
            self._write(_read(source, footer, begin, min(_BLOCK, chunk.stop - begin)))
        offsets = (f.META_DATA_PAGE, f.META_INDEX_PAGE, f.META_DICTIONARY_PAGE)
        places = {field: value(chunk.meta, field, 0) for field in offsets}
        changes = {field: changed(WireType.I64, at + moved) for field, at in places.items() if at > 0}
        pages = _index(source, footer, chunk, f.CHUNK_OFFSET_INDEX, f.CHUNK_OFFSET_INDEX_LENGTH)
        bounds = _index(source, footer, chunk, f.CHUNK_COLUMN_INDEX, f.CHUNK_COLUMN_INDEX_LENGTH)
        meta = encode_changed(footer.thrift, chunk.meta, changes)
        return _Chunk(meta, bounds, None if pages is None else _moved_index(pages, moved))

    def _write_index(self, index: bytes | None) -> int:
        at = self._at
        if index is not None:
            self._write(index)
        return at

    def _footer(self, first: Footer) -> bytes:
        """Return the footer: schema, column orders and notes are those that all files have."""
        name = next(iter(self._writers)) if len(self._writers) == 1 else _WRITER
        groups = [group.encoded(ordinal) for ordinal, group in enumerate(self._groups)]
        return encode_changed(
            first.thrift,
            first.fields,
            {
                f.FILE_WRITER: (_BINARY, binary_value(name)),
                f.FILE_VERSION: changed(WireType.I32, self._version),
                f.FILE_ROWS: changed(WireType.I64, self.rows),
                f.FILE_GROUPS: (_LIST, list_of(groups)),
            },
        )

    def _write(self, data: bytes) -> None:
        self._output.write(data)
        self._at += len(data)


class _Chunk:
    """A chunk of the new file: its metadata, its two page indexes, and where these lie."""

    __slots__ = ("bounds", "bounds_at", "meta", "pages", "pages_at")

    def __init__(self, meta: bytes, bounds: bytes | None, pages: bytes | None) -> None:
        self.meta = meta
        self.bounds = bounds
        self.pages = pages
        self.bounds_at = self.pages_at = 0

    def encoded(self) -> bytes:
        fields = {f.CHUNK_OFFSET: changed(WireType.I64, 0), f.CHUNK_META: (_STRUCT, self.meta)}
        if self.pages is not None:
            fields[f.CHUNK_OFFSET_INDEX] = changed(WireType.I64, self.pages_at)
            fields[f.CHUNK_OFFSET_INDEX_LENGTH] = changed(WireType.I32, len(self.pages))
        if self.bounds is not None:
            fields[f.CHUNK_COLUMN_INDEX] = changed(WireType.I64, self.bounds_at)
            fields[f.CHUNK_COLUMN_INDEX_LENGTH] = changed(WireType.I32, len(self.bounds))
        return encode_changed(b"", {}, fields)


class _Group:
    """A row group of the new file: the group that it is a copy of, where it begins, and its chunks."""

    __slots__ = ("_fields", "_start", "_thrift", "chunks")

    def __init__(self, thrift: bytes, fields: Fields, start: int, chunks: list[_Chunk]) -> None:
        self._thrift = thrift
        self._fields = fields
        self._start = start
        self.chunks = chunks

    def encoded(self, ordinal: int) -> bytes:
        changes: dict[int, tuple[int, bytes] | None] = {
            f.GROUP_COLUMNS: (_LIST, list_of([chunk.encoded() for chunk in self.chunks])),
            f.GROUP_ORDINAL: changed(WireType.I16, ordinal) if ordinal < _MOST_ORDINALS else None,
        }
        if f.GROUP_OFFSET in self._fields:
            changes[f.GROUP_OFFSET] = changed(WireType.I64, self._start)
        return encode_changed(self._thrift, self._fields, changes)


def _index(source: RangeSource, footer: Footer, chunk: Chunk, offset: int, length: int) -> bytes | None:
    at, size = value(chunk.fields, offset), value(chunk.fields, length)
    return _read(source, footer, at, size) if at and size else None


def _moved_index(data: bytes, moved: int) -> bytes:
    """Return an offset index whose pages lie `moved` bytes further on."""
    pages, rest = page_list(data)
    return encoded_pages([(offset + moved, size, row) for offset, size, row in pages], rest)


def _read(source: RangeSource, footer: Footer, at: int, size: int) -> bytes:
    data = source.read_at(size, at)
    if len(data) != size:
        raise CorruptDataError(footer.path, f"it ends before byte {at + size}")
    return data
