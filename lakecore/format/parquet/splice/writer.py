"""This module writes a file that is made of row groups of others, or of runs of their pages. It decides
nothing: see `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.errors import CorruptDataError
from lakecore.format.parquet.footer_bounds import BOUNDS, has_any_bounds
from lakecore.format.parquet.footer_bytes import MAGIC, ended
from lakecore.format.parquet.page_locations import encoded_pages, page_list
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import changed, raw, value
from lakecore.format.parquet.splice.footer import Chunk, Footer, PageRun, RowGroup
from lakecore.format.parquet.splice.pages import RunFacts
from lakecore.format.parquet.thrift_compact import Field, ThriftList, WireType, encode_struct
from lakecore.format.parquet.thrift_spans import Fields, binary_value, encode_changed, list_of, walk
from lakecore.fs.file_io import OutputFile, RangeSource

__all__ = ["SpliceWriter"]

_BLOCK = 4 << 20
_MOST_ORDINALS = 1 << 15
_WRITER = b"lakecore version 0.0.0 (build splice)"
"""The name of the writer of a file with row groups of several: readers then assume no faults of theirs."""
_OF_WHOLE_CHUNKS = (f.META_INDEX_PAGE, f.META_LEVEL_SIZES)
"""What these fields say of a chunk is left out of a chunk of some of its pages."""
_NO_CHANGES: Mapping[int, tuple[int, bytes]] = {}
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

    def add(
        self, source: RangeSource, footer: Footer, facts: Sequence[tuple[RunFacts, ...]] | None = None
    ) -> None:
        """Append all row groups of a file; `facts` are those of row groups made of runs of pages (see
        `examine_pages`). Raises CorruptDataError for a file that became shorter meanwhile.
        """
        for number, group in enumerate(footer.groups):
            if not group.runs:
                self._add_group(source, footer, group)
            elif facts is None:
                raise ValueError("runs of pages are copied after they have been examined")
            else:
                self._add_runs(source, footer, group, facts[number])
        self._first = self._first or footer
        self._writers.add(footer.writer)
        self._version = max(self._version, value(footer.fields, f.FILE_VERSION, 1))
        self.rows += footer.rows

    def close(self) -> int:
        """Write page indexes and footer, finish the file, and return its size."""
        if self._first is None:
            raise ValueError("no file was added")
        self._level_bounds()
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
        self._copy(source, footer, chunk.start, chunk.stop)
        offsets = (f.META_DATA_PAGE, f.META_INDEX_PAGE, f.META_DICTIONARY_PAGE)
        places = {field: value(chunk.meta, field, 0) for field in offsets}
        changes = {field: changed(WireType.I64, at + moved) for field, at in places.items() if at > 0}
        pages = _index(source, footer, chunk, f.CHUNK_OFFSET_INDEX, f.CHUNK_OFFSET_INDEX_LENGTH)
        bounds = _index(source, footer, chunk, f.CHUNK_COLUMN_INDEX, f.CHUNK_COLUMN_INDEX_LENGTH)
        meta = encode_changed(footer.thrift, chunk.meta, changes)
        statistics = raw(footer.thrift, chunk.meta, f.META_STATISTICS)
        values = value(chunk.meta, f.META_VALUES, 0)
        return _Chunk(meta, statistics, values, bounds, None if pages is None else _moved_index(pages, moved))

    def _add_runs(
        self, source: RangeSource, footer: Footer, group: RowGroup, facts: tuple[RunFacts, ...]
    ) -> None:
        start = self._at
        columns = zip(group.chunks, group.runs, facts, strict=True)
        chunks = [self._add_run(source, footer, chunk, run, fact) for chunk, run, fact in columns]
        changes = {
            f.GROUP_BYTES: changed(WireType.I64, sum(fact.raw_size for fact in facts)),
            f.GROUP_ROWS: changed(WireType.I64, group.rows),
        }
        if f.GROUP_COMPRESSED in group.fields:
            changes[f.GROUP_COMPRESSED] = changed(WireType.I64, self._at - start)
        self._groups.append(_Group(footer.thrift, group.fields, start, chunks, changes))

    def _add_run(
        self, source: RangeSource, footer: Footer, chunk: Chunk, run: PageRun, facts: RunFacts
    ) -> _Chunk:
        start = self._at
        self._copy(source, footer, chunk.start, chunk.start + facts.dictionary)
        first = self._at
        self._copy(source, footer, run.start, run.stop)
        changes: dict[int, tuple[int, bytes] | None] = dict.fromkeys(_OF_WHOLE_CHUNKS)
        changes |= {
            f.META_ENCODINGS: (_LIST, _list(WireType.I32, sorted(facts.encodings))),
            f.META_VALUES: changed(WireType.I64, facts.values),
            f.META_RAW_SIZE: changed(WireType.I64, facts.raw_size),
            f.META_SIZE: changed(WireType.I64, self._at - start),
            f.META_DATA_PAGE: changed(WireType.I64, first),
            f.META_DICTIONARY_PAGE: changed(WireType.I64, start) if facts.dictionary else None,
            f.META_STATISTICS: (_STRUCT, run.statistics),
            f.META_ENCODING_COUNTS: (_LIST, _encoding_counts(facts)),
        }
        meta = encode_changed(footer.thrift, chunk.meta, changes)
        pages = [(offset - run.start + first, size, row) for offset, size, row in run.places]
        return _Chunk(meta, run.statistics, facts.values, run.bounds, encoded_pages(pages, b"\0"))

    def _level_bounds(self) -> None:
        """Leave the bounds of a column out of all row groups where one of them with values has none: some
        readers take the bounds of the others for those of the file (DataFusion 55 reads wrong rows then).
        """
        for chunks in zip(*(group.chunks for group in self._groups), strict=True):
            if any(chunk.lacks_bounds for chunk in chunks):
                for chunk in chunks:
                    chunk.drop_bounds()

    def _copy(self, source: RangeSource, footer: Footer, start: int, stop: int) -> None:
        for begin in range(start, stop, _BLOCK):
            self._write(_read(source, footer, begin, min(_BLOCK, stop - begin)))

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
    """A chunk of the new file: its metadata, the statistics in it and the number of its values, its two page
    indexes, and where these lie.
    """

    __slots__ = ("_statistics", "bounds", "bounds_at", "lacks_bounds", "meta", "pages", "pages_at")

    def __init__(
        self, meta: bytes, statistics: bytes | None, values: int, bounds: bytes | None, pages: bytes | None
    ) -> None:
        self.meta = meta
        self._statistics = statistics
        self.lacks_bounds = not has_any_bounds(statistics) and _nulls(statistics) != values
        self.bounds = bounds
        self.pages = pages
        self.bounds_at = self.pages_at = 0

    def drop_bounds(self) -> None:
        """Remove the bounds from the statistics."""
        if self._statistics is not None and has_any_bounds(self._statistics):
            fields, _ = walk(self._statistics, 0)
            rest = encode_changed(self._statistics, fields, dict.fromkeys(BOUNDS))
            meta, _ = walk(self.meta, 0)
            self.meta = encode_changed(self.meta, meta, {f.META_STATISTICS: (_STRUCT, rest)})

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
    """A row group of the new file: the group that it is a copy of, or a part of with `changes`, where it
    begins, and its chunks.
    """

    __slots__ = ("_changes", "_fields", "_start", "_thrift", "chunks")

    def __init__(
        self,
        thrift: bytes,
        fields: Fields,
        start: int,
        chunks: list[_Chunk],
        changes: Mapping[int, tuple[int, bytes]] = _NO_CHANGES,
    ) -> None:
        self._changes = changes
        self._thrift = thrift
        self._fields = fields
        self._start = start
        self.chunks = chunks

    def encoded(self, ordinal: int) -> bytes:
        changes: dict[int, tuple[int, bytes] | None] = {
            **self._changes,
            f.GROUP_COLUMNS: (_LIST, list_of([chunk.encoded() for chunk in self.chunks])),
            f.GROUP_ORDINAL: changed(WireType.I16, ordinal) if ordinal < _MOST_ORDINALS else None,
        }
        if f.GROUP_OFFSET in self._fields:
            changes[f.GROUP_OFFSET] = changed(WireType.I64, self._start)
        return encode_changed(self._thrift, self._fields, changes)


def _nulls(statistics: bytes | None) -> int | None:
    """Return how many nulls statistics count; None where they count none."""
    fields = {} if statistics is None else walk(statistics, 0)[0]
    nulls: int | None = value(fields, f.STATISTICS_NULLS)
    return nulls


def _list(kind: WireType, values: list[Any]) -> bytes:
    """Return the bytes of a list."""
    return encode_struct({1: Field(WireType.LIST, ThriftList(kind, values))})[1:-1]


def _encoding_counts(facts: RunFacts) -> bytes:
    """Return how many pages have each type and encoding, as a list of structs."""
    return _list(
        WireType.STRUCT,
        [
            {number: Field(WireType.I32, one) for number, one in enumerate((*pages, count), 1)}
            for pages, count in sorted(facts.counts.items())
        ],
    )


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
