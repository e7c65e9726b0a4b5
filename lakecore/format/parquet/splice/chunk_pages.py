"""This module has the pages of a row group, by its offset indexes and column indexes, and makes row groups of
runs of them. No page is read here.

A run begins and ends where pages of all columns begin. Its statistics come from the column index: bounds of
numbers are values only if those of all pages together are the ones that the footer has of the chunk. Bounds
of text may be cut and those of floats may leave values out: the run has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.format.parquet.footer_bounds import has_exact_bounds
from lakecore.format.parquet.page_locations import PagePlace, page_list
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import changed, raw, value
from lakecore.format.parquet.splice.footer import Chunk, Footer, PageRun, RowGroup
from lakecore.format.parquet.splice.schema import Leaf, ValueOrder
from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)
from lakecore.format.parquet.thrift_spans import binary, binary_value, encode_changed, walk
from lakecore.fs.file_io import RangeSource

__all__ = ["GroupPages", "PageIndexes", "group_pages", "read_indexes"]

_MOST_BYTES = 16 << 20
"""Page indexes of a file that are more are not read: decoded they take some 50 times as much memory."""

_NULL_PAGES, _LOWS, _HIGHS, _ORDER, _NULL_COUNTS = 1, 2, 3, 4, 5
_LISTS = (_NULL_PAGES, _LOWS, _HIGHS, _NULL_COUNTS)
_UNKNOWN_RUNS = (f.META_NOTES, f.META_BLOOM_FILTER, f.META_BLOOM_FILTER_LENGTH, f.META_GEOSPATIAL)
"""What these fields say of a chunk, they may not say of some of its pages."""
_OFFSET_INDEX = f.CHUNK_OFFSET_INDEX, f.CHUNK_OFFSET_INDEX_LENGTH
_COLUMN_INDEX = f.CHUNK_COLUMN_INDEX, f.CHUNK_COLUMN_INDEX_LENGTH
_BINARY = int(WireType.BINARY)


@dataclass(frozen=True, slots=True)
class _ChunkPages:
    """These are the pages of one column chunk. `bounds` is its column index."""

    places: tuple[PagePlace, ...]
    bounds: Struct
    order: ValueOrder | None

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(row for _, _, row in self.places)

    def run(self, start: int, stop: int | None) -> PageRun:
        """Return the pages of the rows [start, stop) of the row group; None: up to its end."""
        starts = self.starts
        first = starts.index(start)
        last = len(starts) if stop is None else starts.index(stop)
        index: Struct = {}
        for field in _LISTS:
            part: ThriftList = self.bounds[field].value
            index[field] = Field(WireType.LIST, ThriftList(part.type, part.values[first:last]))
        index[_ORDER] = self.bounds[_ORDER]  # a part of what is ordered has the same order
        places = tuple((offset, size, row - start) for offset, size, row in self.places[first:last])
        return PageRun(places, encode_struct(index), _statistics(index, self.order))


@dataclass(frozen=True, slots=True)
class GroupPages:
    """These are the pages of all columns of a row group."""

    group: RowGroup
    columns: tuple[_ChunkPages, ...]

    @property
    def starts(self) -> list[int]:
        """Return the rows at which pages of all columns begin, ascending; the first is 0."""
        common = reduce(set.intersection, (set(column.starts) for column in self.columns))
        return sorted(common)

    @property
    def dictionaries(self) -> int:
        """Return how many bytes its dictionaries have, which each run may need."""
        return sum(chunk.data_page - chunk.start for chunk in self.group.chunks)

    def run(self, start: int, stop: int) -> RowGroup:
        """Return the rows [start, stop), two of `starts` or the end, as a row group. Raises ValueError for
        other rows.
        """
        end = None if stop == self.group.rows else stop
        runs = tuple(column.run(start, end) for column in self.columns)
        return replace(self.group, rows=stop - start, runs=runs)


@dataclass(frozen=True, slots=True)
class PageIndexes:
    """These are the bytes of a file that have its page indexes; they begin at `start`."""

    data: bytes
    start: int

    def read(self, chunk: Chunk, offset: int, length: int) -> bytes | None:
        """Return an index of a chunk, which two fields of it place; None where it has none."""
        at, size = _place(chunk, offset, length)
        data = self.data[at - self.start : at - self.start + size]
        return data if 0 < size == len(data) and at >= self.start else None


def read_indexes(source: RangeSource, footer: Footer) -> PageIndexes | None:
    """Read the page indexes of all row groups, at once; None where a column has none. Raises
    UnavailableError.
    """
    places = [
        _place(chunk, *fields)
        for group in footer.groups
        for chunk in group.chunks
        for fields in (_OFFSET_INDEX, _COLUMN_INDEX)
    ]
    start, stop = min(at for at, _ in places), max(at + size for at, size in places)
    if not all(at > 0 and size > 0 for at, size in places) or stop > footer.data_end:
        return None
    return (
        PageIndexes(bytes(source.read_at(stop - start, start)), start)
        if stop - start <= _MOST_BYTES
        else None
    )


def _place(chunk: Chunk, offset: int, length: int) -> tuple[int, int]:
    return value(chunk.fields, offset, 0), value(chunk.fields, length, 0)


def group_pages(indexes: PageIndexes, footer: Footer, number: int) -> GroupPages | None:
    """Return the pages of a row group; None where its indexes do not say all that a run of pages needs, or
    say otherwise than the footer. It costs some microseconds a page.
    """
    group = footer.groups[number]
    columns = []
    try:
        for chunk, leaf in zip(group.chunks, footer.schema.leaves, strict=True):
            pages = _chunk_pages(indexes, footer, chunk, leaf)
            if pages is None or not _fit(pages, chunk, leaf, group.rows):
                return None
            columns.append(pages)
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError):
        return None  # whatever is wrong with the indexes: the row group can be copied or decoded without them
    return GroupPages(group, tuple(columns))


def _chunk_pages(indexes: PageIndexes, footer: Footer, chunk: Chunk, leaf: Leaf) -> _ChunkPages | None:
    if any(field in chunk.meta for field in _UNKNOWN_RUNS) or value(chunk.meta, f.META_INDEX_PAGE, 0) > 0:
        return None
    places, bounds = indexes.read(chunk, *_OFFSET_INDEX), indexes.read(chunk, *_COLUMN_INDEX)
    if places is None or bounds is None:
        return None
    pages = _ChunkPages(tuple(page_list(places)[0]), decode_struct(bounds), leaf.order)
    stated = raw(footer.thrift, chunk.meta, f.META_STATISTICS)
    return pages if stated is not None and _agree(pages, stated) else None


def _fit(pages: _ChunkPages, chunk: Chunk, leaf: Leaf, rows: int) -> bool:
    """Return whether the pages are those of the chunk, and tile its rows."""
    starts = (*pages.starts, rows)
    rising = starts[0] == 0 and all(before < after for before, after in pairwise(starts))
    counts = {len(pages.bounds[field].value.values) for field in _LISTS}
    if not rising or counts != {len(pages.places)} or pages.places[0][0] != chunk.data_page:
        return False
    if leaf.repeated:
        return True
    flags, nulls = (pages.bounds[field].value.values for field in (_NULL_PAGES, _NULL_COUNTS))
    sizes = [after - before for before, after in pairwise(starts)]
    return all(
        (count == size) if flag else 0 <= count < size
        for flag, count, size in zip(flags, nulls, sizes, strict=True)
    )


def _agree(pages: _ChunkPages, stated: bytes) -> bool:
    """Return whether the column index and the statistics of the chunk say the same of nulls, and of bounds
    that are values.
    """
    fields, _ = walk(stated, 0)
    if value(fields, f.STATISTICS_NULLS) != sum(pages.bounds[_NULL_COUNTS].value.values):
        return False
    ends = _ends(pages.bounds, pages.order)
    if pages.order is None or ends is None:
        return True
    if not has_exact_bounds(stated):
        return False
    theirs = tuple(binary(stated, fields[end]) for end in (f.STATISTICS_MIN, f.STATISTICS_MAX))
    return ends == theirs


def _ends(index: Struct, order: ValueOrder | None) -> tuple[bytes, bytes] | None:
    """Return the smallest and the largest bound of some pages; None where they have none that are values."""
    if order is None:
        return None
    flags: Sequence[bool] = index[_NULL_PAGES].value.values
    lows, highs = (
        [bound for bound, flag in zip(index[field].value.values, flags, strict=True) if not flag]
        for field in (_LOWS, _HIGHS)
    )
    return (min(lows, key=order.rank), max(highs, key=order.rank)) if lows else None


def _statistics(index: Struct, order: ValueOrder | None) -> bytes:
    """Return the statistics of a column chunk of some pages."""
    nulls = sum(index[_NULL_COUNTS].value.values)
    fields = {f.STATISTICS_NULLS: changed(WireType.I64, nulls)}
    ends = _ends(index, order)
    if ends is not None:
        fields[f.STATISTICS_MIN] = (_BINARY, binary_value(ends[0]))
        fields[f.STATISTICS_MAX] = (_BINARY, binary_value(ends[1]))
    return encode_changed(b"", {}, fields)
