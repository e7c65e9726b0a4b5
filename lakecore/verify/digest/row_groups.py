"""This module says what a parquet file stores, without decoding its values: the bytes of each column chunk,
and all that footer and page indexes say of them.

The footer is read by pyarrow; where page indexes lie, and the parts of a footer that pyarrow does not show,
by our own reader of thrift fields. What both show must be the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.parquet.footer_bounds import BOUNDS, has_any_bounds, has_exact_bounds
from lakecore.format.parquet.footer_bytes import MAGIC, TAIL, metadata_of
from lakecore.format.parquet.page_locations import page_list
from lakecore.format.parquet.thrift_compact import decode_struct, encode_struct
from lakecore.format.parquet.thrift_spans import Fields, Inside, struct_list, walk
from lakecore.fs.file_io import FileIO, RangeSource
from lakecore.fs.whole_file import open_small_whole

__all__ = ["ColumnFacts", "GroupFacts", "GroupPart", "StoredGroups", "open_groups"]

# field ids of parquet.thrift
_SCHEMA, _GROUPS, _NOTES, _WRITER, _ORDERS = 2, 4, 5, 6, 7
_COLUMNS, _ROWS, _SORTING = 1, 3, 4
_META, _PAGES, _PAGES_LENGTH, _BOUNDS, _BOUNDS_LENGTH = 3, 4, 5, 6, 7
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY, _STATISTICS, _BLOOM, _BLOOM_LENGTH = 9, 10, 11, 12, 14, 15
_PLACES = {_DATA_PAGE, _INDEX_PAGE, _DICTIONARY, _BLOOM, _BLOOM_LENGTH}

_IN_CHUNK: Inside = {_META: walk}
_IN_GROUP: Inside = {_COLUMNS: struct_list(_IN_CHUNK)}
_IN_FILE: Inside = {_GROUPS: struct_list(_IN_GROUP)}
_BLOCK = 4 << 20
_NAME_BYTES = 10


class GroupPart(NamedTuple):
    """This is a row group of a file, or some rows [start, stop) of it, which are those of whole pages."""

    group: int
    rows: tuple[int, int] | None = None


class ColumnFacts(NamedTuple):
    """This is what a file stores of a leaf column in a row group. Places are counted from the first byte of
    the chunk, so that a copy has the same facts, wherever it lies.
    """

    path: str
    kind: tuple[Any, ...]
    """These are its physical type, codec, number of values, sizes and encodings."""
    places: tuple[int | None, ...]
    """These are where the first data page, the index page and the dictionary begin."""
    bloom_filter: int | None
    """It is where a bloom filter lies in the file."""
    pages: tuple[tuple[int, int, int], ...] | None
    """These are the place, the bytes and the first row of each page, by the offset index."""
    page_sizes: bytes | None
    """It is what else the offset index says."""
    bounds: bytes | None
    """It is the column index."""
    description: Mapping[int, bytes]
    """These are all other fields that the footer has of the chunk, such as its statistics."""

    def without_bounds(self) -> ColumnFacts:
        """Return the column with statistics that have no bounds."""
        statistics = self.description.get(_STATISTICS)
        if statistics is None:
            return self
        rest = {key: one for key, one in decode_struct(statistics).items() if key not in BOUNDS}
        return self._replace(description={**self.description, _STATISTICS: encode_struct(rest)})


class GroupFacts(NamedTuple):
    """This is what a file stores of a row group."""

    rows: int
    columns: tuple[ColumnFacts, ...]
    sorting: bytes | None
    """It says by which columns the rows are sorted."""

    def without_bounds(self, leaves: Set[int]) -> GroupFacts:
        """Return the row group with statistics that have no bounds of these columns."""
        columns = (
            column.without_bounds() if leaf in leaves else column for leaf, column in enumerate(self.columns)
        )
        return self._replace(columns=tuple(columns))

    def difference(self, other: GroupFacts) -> str | None:
        """Return what another row group has otherwise, in words; None when it has the same."""
        if self == other:
            return None
        if (self.rows, self.sorting, len(self.columns)) != (other.rows, other.sorting, len(other.columns)):
            return f"it has {other.rows} rows instead of {self.rows}, or other columns or another order"
        mine, theirs = next(
            pair for pair in zip(self.columns, other.columns, strict=True) if pair[0] != pair[1]
        )
        names = zip(mine._fields, mine, theirs, strict=True)
        name = next(name for name, left, right in names if left != right).replace("_", " ")
        return f"column {mine.path} has another {name} than in the file that it was copied from"


class StoredGroups:
    """It shows the row groups of an open parquet file `path`. `metadata` is pyarrow's footer."""

    def __init__(self, source: RangeSource, path: str) -> None:
        """Read the footer. Raises CorruptDataError."""
        self._source = source
        self._size = source.size()
        self.path = path
        with corrupt_data_errors(path):
            self._thrift = thrift = _footer(source)
            self.metadata = metadata_of(thrift)
            self._fields, _ = walk(thrift, 0, _IN_FILE)
            self._groups: list[Fields] = self._fields[_GROUPS][3]
            if len(self._groups) != self.metadata.num_row_groups:
                raise ValueError("two readers of its footer find other row groups")

    @cached_property
    def identity(self) -> tuple[bytes | None, ...]:
        """Return what the footer says of the whole file, as bytes. Files of one writer have the same."""
        return tuple(self._raw(self._fields, field) for field in (_SCHEMA, _NOTES, _WRITER, _ORDERS))

    @cached_property
    def columns(self) -> tuple[Any, ...]:
        """Return what readers learn of the columns from the schema, but for the name of the whole."""
        schema = self.metadata.schema
        levels = []
        for leaf in range(self.metadata.num_columns):
            one = schema.column(leaf)
            kind = one.physical_type, str(one.logical_type), one.length, one.precision, one.scale
            levels.append((one.path, *kind, one.max_definition_level, one.max_repetition_level))
        arrow = schema.to_arrow_schema().remove_metadata()
        return (*levels, arrow.to_string(truncate_metadata=False))

    @cached_property
    def rest(self) -> tuple[Any, ...]:
        """Return the notes, by which order the statistics of each column are made, and what readers conclude
        from the name of the writer: the time zone of INT96.
        """
        notes = tuple(sorted((self.metadata.metadata or {}).items()))
        schema = self.metadata.schema
        kinds = {schema.column(leaf).physical_type for leaf in range(self.metadata.num_columns)}
        writer = (self.metadata.created_by or "")[:_NAME_BYTES] if "INT96" in kinds else ""
        return notes, self._raw(self._fields, _ORDERS), writer

    @cached_property
    def group_rows(self) -> tuple[int, ...]:
        """Return how many rows each row group has."""
        return tuple(self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups))

    def is_exact(self, group: int, leaf: int) -> bool:
        """Return whether the bounds that the footer has of a column are values of it."""
        meta = self._groups[group][_COLUMNS][3][leaf][_META][3]
        return has_exact_bounds(self._raw(meta, _STATISTICS))

    @cached_property
    def leaves_without_bounds(self) -> frozenset[int]:
        """Return the columns whose statistics have bounds in no row group: a writer may leave them out."""
        chunks = [group[_COLUMNS][3] for group in self._groups]
        return frozenset(
            leaf
            for leaf in range(self.metadata.num_columns)
            if not any(has_any_bounds(self._raw(chunk[leaf][_META][3], _STATISTICS)) for chunk in chunks)
        )

    def group(self, number: int) -> GroupFacts:
        """Return what footer and page indexes say of a row group. Raises CorruptDataError."""
        with corrupt_data_errors(self.path):
            group = self.metadata.row_group(number)
            stored: Fields = self._groups[number]
            chunks = stored[_COLUMNS][3]
            if group.num_rows != stored[_ROWS][3] or group.num_columns != len(chunks):
                raise ValueError("two readers of its footer find other rows or columns")
            columns = tuple(self._column(group.column(leaf), chunk) for leaf, chunk in enumerate(chunks))
            return GroupFacts(group.num_rows, columns, self._raw(stored, _SORTING))

    def rows_of(self, part: GroupPart) -> tuple[int, int] | None:
        """Return the rows [start, stop) of a part in the file; None where the file does not have it."""
        if not 0 <= part.group < len(self.group_rows):
            return None
        start, count = sum(self.group_rows[: part.group]), self.group_rows[part.group]
        first, last = (0, count) if part.rows is None else part.rows
        return (start + first, start + last) if 0 <= first < last <= count else None

    def chunk_start(self, number: int, leaf: int) -> int:
        """Return where a column chunk begins in the file."""
        return _start(self.metadata.row_group(number).column(leaf))

    def blocks(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield where each block of the column chunks of a row group begins, and its size: two row groups
        with the same facts have blocks of the same sizes.
        """
        group = self.metadata.row_group(number)
        for leaf in range(group.num_columns):
            column = group.column(leaf)
            stop = _start(column) + column.total_compressed_size
            for begin in range(_start(column), stop, _BLOCK):
                yield begin, min(_BLOCK, stop - begin)

    def block_bytes(self, block: tuple[int, int]) -> bytes:
        """Return the bytes of a block; threads may call it at once. Raises CorruptDataError."""
        with corrupt_data_errors(self.path):
            return self.read(*block)

    def _column(self, column: Any, chunk: Fields) -> ColumnFacts:
        meta: Fields = chunk[_META][3]
        begin, start = column.data_page_offset, _start(column)
        if begin != meta[_DATA_PAGE][3] or (start != begin) != bool(_value(meta, _DICTIONARY)):
            raise ValueError("two readers of its footer find pages elsewhere")
        pages, sizes = self._pages(chunk, start)
        bounds = self._index(chunk, _BOUNDS, _BOUNDS_LENGTH)
        if (column.has_offset_index, column.has_column_index) != (pages is not None, bounds is not None):
            raise ValueError("two readers of its footer find other page indexes")
        index_page, thrift = _value(meta, _INDEX_PAGE), self._thrift
        return ColumnFacts(
            path=column.path_in_schema,
            kind=(
                column.physical_type,
                column.compression,
                column.num_values,
                column.total_compressed_size,
                column.total_uncompressed_size,
                column.encodings,
            ),
            places=(begin - start, index_page - start if index_page else None),
            bloom_filter=column.bloom_filter_offset,
            pages=pages,
            page_sizes=sizes,
            bounds=bounds,
            description={
                field: thrift[span[1] : span[2]] for field, span in meta.items() if field not in _PLACES
            },
        )

    def _pages(
        self, chunk: Fields, start: int
    ) -> tuple[tuple[tuple[int, int, int], ...] | None, bytes | None]:
        index = self._index(chunk, _PAGES, _PAGES_LENGTH)
        if index is None:
            return None, None
        pages, rest = page_list(index)
        return tuple((offset - start, size, row) for offset, size, row in pages), rest

    def _index(self, chunk: Fields, offset: int, length: int) -> bytes | None:
        at, size = _value(chunk, offset), _value(chunk, length)
        return self.read(at, size) if at and size else None

    def read(self, at: int, size: int) -> bytes:
        """Return bytes of the file. Raises ValueError where it ends before."""
        if at < 0 or size < 0 or at + size > self._size:
            raise ValueError(f"the file ends before byte {at + size}")
        data = self._source.read_at(size, at)
        if len(data) != size:
            raise ValueError(f"the file ends before byte {at + size}")
        return data

    def _raw(self, fields: Fields, field: int) -> bytes | None:
        span = fields.get(field)
        return None if span is None else self._thrift[span[1] : span[2]]


@contextmanager
def open_groups(file_io: FileIO, path: str) -> Iterator[StoredGroups]:
    """Open a parquet file. Raises NotFoundError, CorruptDataError."""
    with open_small_whole(file_io, path) as source:
        yield StoredGroups(source, path)


def _footer(source: RangeSource) -> bytes:
    size = source.size()
    tail = source.read_at(TAIL, max(size - TAIL, 0))
    if len(tail) != TAIL or tail[4:] != MAGIC:
        raise ValueError("it does not end as a parquet file")
    length = struct.unpack("<I", tail[:4])[0]
    if length + TAIL + len(MAGIC) > size:
        raise ValueError(f"the footer claims {length} bytes in a file of {size}")
    return bytes(source.read_at(length, size - TAIL - length))


def _start(column: Any) -> int:
    """Return where a column chunk begins. A dictionary at 0 says that there is none."""
    begin = column.data_page_offset
    dictionary = column.dictionary_page_offset if column.has_dictionary_page else None
    return min(begin, dictionary) if dictionary else begin  # type: ignore[no-any-return]  # pyarrow's numbers


def _value(fields: Fields, field: int) -> Any:
    span = fields.get(field)
    return None if span is None else span[3]
