"""This module writes a file that is made of whole row groups of others. It decides nothing: see `rules`."""

from __future__ import annotations

from lakecore.errors import CorruptDataError
from lakecore.format.parquet.footer_bytes import MAGIC, ended
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import integer, structs, value
from lakecore.format.parquet.splice.footer import Chunk, Footer, RowGroup
from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)
from lakecore.fs.file_io import OutputFile, RangeSource

__all__ = ["SpliceWriter"]

_BLOCK = 4 << 20
_MOST_ORDINALS = 1 << 15
_WRITER = b"lakecore version 0.0.0 (build splice)"
"""The name of the writer of a file with row groups of several: readers then assume no faults of theirs."""


class SpliceWriter:
    """It writes one new file. After an error call `abort`."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._first: Footer | None = None
        self._writers: set[bytes] = set()
        self._version = 1
        self._groups: list[Struct] = []
        self._indexes: list[tuple[Struct, bytes | None, bytes | None]] = []
        self._at = 0
        self.rows = 0
        self._write(MAGIC)

    @property
    def size(self) -> int:
        """Return the bytes written so far; footer and page indexes come with `close`."""
        return self._at

    def add(self, source: RangeSource, footer: Footer) -> None:
        """Append all row groups of a file. Raises CorruptDataError for one that became shorter meanwhile."""
        for group in footer.groups:
            self._add_group(source, footer, group)
        self._first = self._first or footer
        self._writers.add(footer.writer)
        self._version = max(self._version, value(footer.meta, f.FILE_VERSION, 1))
        self.rows += footer.rows

    def close(self) -> int:
        """Write page indexes and footer, finish the file, and return its size."""
        for chunk, index, _ in self._indexes:
            self._add_index(chunk, index, f.CHUNK_COLUMN_INDEX, f.CHUNK_COLUMN_INDEX_LENGTH)
        for chunk, _, index in self._indexes:
            self._add_index(chunk, index, f.CHUNK_OFFSET_INDEX, f.CHUNK_OFFSET_INDEX_LENGTH)
        if self._first is None:
            raise ValueError("no file was added")
        self._write(ended(encode_struct(self._footer(self._first))))
        self._output.close()
        return self._at

    def abort(self) -> None:
        """Remove the file."""
        self._output.abort()

    def _add_group(self, source: RangeSource, footer: Footer, group: RowGroup) -> None:
        start = self._at
        chunks = [self._add_chunk(source, footer, chunk) for chunk in group.chunks]
        raw = dict(group.raw)
        raw[f.GROUP_COLUMNS] = Field(WireType.LIST, ThriftList(WireType.STRUCT, chunks))
        if f.GROUP_OFFSET in raw:
            raw[f.GROUP_OFFSET] = integer(WireType.I64, start)
        raw.pop(f.GROUP_ORDINAL, None)
        if len(self._groups) < _MOST_ORDINALS:
            raw[f.GROUP_ORDINAL] = integer(WireType.I16, len(self._groups))
        self._groups.append(raw)

    def _add_chunk(self, source: RangeSource, footer: Footer, chunk: Chunk) -> Struct:
        moved = self._at - chunk.start
        for begin in range(chunk.start, chunk.stop, _BLOCK):
            self._write(_read(source, footer, begin, min(_BLOCK, chunk.stop - begin)))
        meta = dict(chunk.meta)
        for field in (f.META_DATA_PAGE, f.META_INDEX_PAGE, f.META_DICTIONARY_PAGE):
            if value(meta, field, 0) > 0:
                meta[field] = integer(WireType.I64, meta[field].value + moved)
        raw: Struct = {f.CHUNK_OFFSET: integer(WireType.I64, 0), f.CHUNK_META: Field(WireType.STRUCT, meta)}
        offsets = _index(source, footer, chunk, f.CHUNK_OFFSET_INDEX, f.CHUNK_OFFSET_INDEX_LENGTH)
        bounds = _index(source, footer, chunk, f.CHUNK_COLUMN_INDEX, f.CHUNK_COLUMN_INDEX_LENGTH)
        self._indexes.append((raw, bounds, None if offsets is None else _moved_index(offsets, moved)))
        return raw

    def _add_index(self, chunk: Struct, index: bytes | None, offset: int, length: int) -> None:
        if index is not None:
            chunk[offset] = integer(WireType.I64, self._at)
            chunk[length] = integer(WireType.I32, len(index))
            self._write(index)

    def _footer(self, first: Footer) -> Struct:
        """Return the footer: schema, column orders and notes are those that all files have."""
        meta = dict(first.meta)
        name = next(iter(self._writers)) if len(self._writers) == 1 else _WRITER
        meta[f.FILE_WRITER] = Field(WireType.BINARY, name)
        meta[f.FILE_VERSION] = integer(WireType.I32, self._version)
        meta[f.FILE_ROWS] = integer(WireType.I64, self.rows)
        meta[f.FILE_GROUPS] = Field(WireType.LIST, ThriftList(WireType.STRUCT, self._groups))
        return meta

    def _write(self, data: bytes) -> None:
        self._output.write(data)
        self._at += len(data)


def _index(source: RangeSource, footer: Footer, chunk: Chunk, offset: int, length: int) -> bytes | None:
    at, size = value(chunk.raw, offset), value(chunk.raw, length)
    return _read(source, footer, at, size) if at and size else None


def _moved_index(data: bytes, moved: int) -> bytes:
    """Return an offset index whose pages lie `moved` bytes further on."""
    index = decode_struct(data)
    for location in structs(index, f.INDEX_LOCATIONS):
        offset = location[f.LOCATION_OFFSET].value + moved
        location[f.LOCATION_OFFSET] = integer(WireType.I64, offset)
    return encode_struct(index)


def _read(source: RangeSource, footer: Footer, at: int, size: int) -> bytes:
    data = source.read_at(size, at)
    if len(data) != size:
        raise CorruptDataError(footer.path, f"it ends before byte {at + size}")
    return data
