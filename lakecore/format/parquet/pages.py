"""This module reads a range of rows of a parquet file by its pages, to cut one huge bucket into units.

pyarrow has no page filter. So the wanted pages are put together as a file with a rewritten footer, and
pyarrow streams that. Columns whose pages begin at the same rows share such a file; others get their own and
are cut to the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.bounds import leaves
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.parquet.dictionary_strings import LEAST_ROWS, dictionary_string_columns
from lakecore.format.parquet.footer_bytes import read_footer
from lakecore.format.parquet.int96 import as_bytes
from lakecore.format.parquet.page_file import PageFile, page_file
from lakecore.format.parquet.page_index import ColumnPages, RowGroupPages, page_bounds, read_row_groups
from lakecore.format.parquet.reader import (
    BUFFER_SIZE,
    ParquetReader,
    leaves_of_fields,
    open_parquet,
    read_batches,
    with_timestamps,
)
from lakecore.format.parquet.thrift_compact import Struct, decode_struct
from lakecore.fs.file_io import FileIO
from lakecore.types.datatypes import DataType

__all__ = ["FilePages", "KeyPage"]

_SMALL_FOOTER = 1 << 17
"""Footers of so many bytes are remembered; decoded they take some 50 times as much memory."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """This is a page of the first key column. `first_row` is counted from the start of the file.

    `low` and `high` are bounds of as many key columns as the page pins down, compared like keys; text is
    UTF-8 bytes and may be shortened.
    """

    first_row: int
    rows: int
    low: tuple[Any, ...]
    high: tuple[Any, ...]


class FilePages:
    """It reads an open parquet file that has page indexes."""

    def __init__(self, reader: ParquetReader, meta: Struct, groups: tuple[RowGroupPages, ...]) -> None:
        self._path = reader.path
        self._source = reader.source
        self._meta = meta
        self._groups = groups
        file = reader.file
        self._stored: pa.Schema = file.schema_arrow
        self._maps = reader.maps
        self.schema: pa.Schema = reader.schema
        self._leaves: dict[str, Sequence[int]] = {**_leaf_ranges(self._stored)}
        self._paths = [file.schema.column(i).path for i in range(len(file.schema))]
        self._selected: dict[str, tuple[str, ...]] = {}
        self._int96 = reader.int96
        self._coded = dictionary_string_columns(file.metadata)

    @classmethod
    def open(cls, file_io: FileIO, path: str) -> FilePages | None:
        """Return the pages of a file, or None when it has no page index. Raises NotFoundError,
        CorruptDataError.
        """
        reader, pages = ParquetReader(file_io, path), None
        try:
            pages = cls.of(reader)
        finally:
            if pages is None:
                reader.close()
        return pages

    @classmethod
    def of(cls, reader: ParquetReader) -> FilePages | None:
        """Return the pages of an open file, or None when it has no page index; whoever closes them closes the
        file. Raises CorruptDataError.
        """
        with corrupt_data_errors(reader.path):
            meta = _decode_footer(read_footer(reader.source))
            groups = read_row_groups(reader.source, meta)
            return None if groups is None else cls(reader, meta, groups)

    @property
    def num_rows(self) -> int:
        return sum(group.rows for group in self._groups)

    def close(self) -> None:
        self._source.close()

    def key_pages(self, columns: Sequence[str]) -> tuple[KeyPage, ...] | None:
        """Return the pages by the first of `columns` (stored names of the key), or None when it has no
        bounds.

        A further key column narrows a page that holds one value of those before it, if its pages align.
        """
        out: list[KeyPage] = []
        with corrupt_data_errors(self._path):
            for group in self._groups:
                pages = self._group_pages(group, columns)
                if pages is None:
                    return None
                out.extend(pages)
        return tuple(out)

    def select_fields(self, column: str, data_type: DataType) -> bool:
        """Select the fields of a column that are read; see `ParquetReader.select_fields`."""
        if any("." in name for name in self._stored.names):
            return False
        chosen = leaves_of_fields(self._paths, column, data_type)
        if chosen is None:
            return False
        self._selected[column], self._leaves[column] = chosen
        return True

    def batches(
        self, columns: Sequence[str], start: int, stop: int, batch_size: int, buffer_size: int = BUFFER_SIZE
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows [start, stop) of the file. Only the pages that contain them are decoded.

        It holds a page and a buffer of `buffer_size` bytes of each column.
        """
        schema = pa.schema([self._stored.field(name) for name in columns])
        for group in self._groups:
            first, last = max(start - group.first_row, 0), min(stop - group.first_row, group.rows)
            if first < last:
                with corrupt_data_errors(self._path):
                    for batch in self._group_rows(group, schema, (first, last), batch_size, buffer_size):
                        yield self._maps.restored(batch)

    @property
    def group_count(self) -> int:
        """Return the number of row groups."""
        return len(self._groups)

    @property
    def group_starts(self) -> tuple[int, ...]:
        """Return the first row of each row group."""
        return tuple(group.first_row for group in self._groups)

    def page_starts(self, number: int) -> list[int]:
        """Return the rows at which pages of all columns of a row group begin, ascending; the first is that
        of the row group.
        """
        with corrupt_data_errors(self._path):
            group = self._groups[number]
            rows = reduce(np.intersect1d, (column.first_rows[:-1] for column in group.columns))
            return [group.first_row + int(row) for row in rows]

    def file_from(self, start: int) -> PageFile:
        """Return all columns from row `start`, one of `page_starts`, to the end of its row group, as a
        parquet file.

        It reads from this one, which must stay open.
        """
        group = next(group for group in reversed(self._groups) if group.first_row <= start)
        span = (start - group.first_row, group.rows)
        with corrupt_data_errors(self._path):
            return page_file(self._meta, group, span, range(len(group.columns)), self._read)[0]

    def _group_pages(self, group: RowGroupPages, columns: Sequence[str]) -> list[KeyPage] | None:
        first: ColumnPages | None = None
        lows: list[tuple[Any, ...]] = []
        highs: list[tuple[Any, ...]] = []
        for name in columns:
            field = self.schema.field(name)
            leaf = group.columns[self._leaves[name][0]]
            bounds = None if pa.types.is_nested(field.type) else page_bounds(self._source, leaf, field.type)
            if first is None:
                if bounds is None:
                    return None
                first = leaf
                lows, highs = [(low,) for low in bounds[0]], [(high,) for high in bounds[1]]
                continue
            if bounds is None or leaf.first_rows.tolist() != first.first_rows.tolist():
                break
            pinned = [low == high and len(low) == len(lows[0]) for low, high in zip(lows, highs, strict=True)]
            lows = [low + (b,) * pin for low, b, pin in zip(lows, bounds[0], pinned, strict=True)]
            highs = [high + (b,) * pin for high, b, pin in zip(highs, bounds[1], pinned, strict=True)]
        if first is None:
            return None
        rows = first.first_rows
        return [
            KeyPage(group.first_row + int(rows[i]), int(rows[i + 1] - rows[i]), lows[i], highs[i])
            for i in range(len(lows))
        ]

    def _group_rows(
        self,
        group: RowGroupPages,
        schema: pa.Schema,
        rows: tuple[int, int],
        batch_size: int,
        buffer_size: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of one group: there is one virtual file per set of columns whose pages cover the same
        rows.
        """
        if not len(schema):
            yield from _empty_batches(rows[1] - rows[0], batch_size)
            return
        spans: dict[tuple[int, int], list[str]] = {}
        for name in schema.names:
            spans.setdefault(self._span(group, name, rows), []).append(name)
        streams = [
            _Stream(self._decode(group, names, span, batch_size, buffer_size), rows[0] - span[0])
            for span, names in spans.items()
        ]
        order = [name for names in spans.values() for name in names]
        rows_left = rows[1] - rows[0]
        while rows_left:
            count = min(rows_left, batch_size)
            parts = [stream.take(count) for stream in streams]
            count = min(part.num_rows for part in parts)
            if count == 0:
                raise ValueError("the pages hold fewer rows than the page index records")
            for stream, part in zip(streams, parts, strict=True):
                stream.give_back(part.slice(count))
            arrays = [column for part in parts for column in part.slice(0, count).columns]
            by_name = dict(zip(order, arrays, strict=True))
            fields = [field.with_type(by_name[field.name].type) for field in schema]
            yield pa.RecordBatch.from_arrays(
                [by_name[name] for name in schema.names], schema=pa.schema(fields)
            )
            rows_left -= count

    def _span(self, group: RowGroupPages, name: str, rows: tuple[int, int]) -> tuple[int, int]:
        """Return the rows that the pages of a column have around `rows`; for nested columns, those of the
        widest leaf.
        """
        firsts, ends = [], []
        for i in self._leaves[name]:
            pages = group.columns[i]
            first, last = pages.covering(*rows)
            firsts.append(int(pages.first_rows[first]))
            ends.append(int(pages.first_rows[last]))
        if len(set(firsts)) > 1 or len(set(ends)) > 1:
            return 0, group.rows
        return firsts[0], ends[0]

    def _decode(
        self,
        group: RowGroupPages,
        names: Sequence[str],
        span: tuple[int, int],
        batch_size: int,
        buffer_size: int,
    ) -> Iterator[pa.RecordBatch]:
        leaf_numbers = {i for name in names for i in self._leaves[name]}
        pages, footer = page_file(self._meta, group, span, leaf_numbers, self._read)
        coded = set(self._coded).intersection(names) if batch_size >= LEAST_ROWS and not self._int96 else ()
        file = open_parquet(pages, as_bytes(footer) if self._int96 else None, buffer_size, tuple(coded))
        for batch in read_batches(file, names, batch_size, selected=self._selected):
            yield with_timestamps(batch, self._stored) if self._int96 else batch

    def _read(self, offset: int, size: int) -> bytes:
        if not 0 <= offset <= offset + size <= self._source.size():  # damage must not ask for memory
            raise ValueError(f"the file ends inside the page at byte {offset}")
        return bytes(self._source.read_at(size, offset))


class _Stream:
    """The batches of one virtual file, which are taken in any portions."""

    def __init__(self, batches: Iterator[pa.RecordBatch], skip: int) -> None:
        self._batches = batches
        self._skip = skip
        self._rest: pa.RecordBatch | None = None

    def take(self, count: int) -> pa.RecordBatch:
        """Return at most `count` rows, at least one unless the file ended too early."""
        batch = self._rest
        while batch is None or batch.num_rows == 0:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError("the pages hold fewer rows than the page index records")
            dropped = min(self._skip, batch.num_rows)
            self._skip -= dropped
            batch = batch.slice(dropped)
        self._rest = batch.slice(count)
        return batch.slice(0, count)

    def give_back(self, batch: pa.RecordBatch) -> None:
        """Put back rows of the last `take` that another column did not have yet."""
        if batch.num_rows and self._rest is not None:
            self._rest = pa.concat_batches([batch, self._rest]) if self._rest.num_rows else batch


def _decode_footer(data: bytes) -> Struct:
    """Return a footer, which nobody may change. A merge and its proof open a file several times."""
    return _decode_small(bytes(data)) if len(data) <= _SMALL_FOOTER else decode_struct(data)


_decode_small = lru_cache(maxsize=8)(decode_struct)


def _empty_batches(rows: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, batch_size):
        cells = pa.array([{}] * min(batch_size, rows - start), pa.struct([]))
        yield pa.RecordBatch.from_struct_array(cells)


def _leaf_ranges(schema: pa.Schema) -> dict[str, range]:
    """Return the leaf columns of every top-level column."""
    out: dict[str, range] = {}
    at = 0
    for field in schema:
        count = leaves(field.type)
        out[field.name] = range(at, at + count)
        at += count
    return out
