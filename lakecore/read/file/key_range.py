"""Rows of a sorted file within a range of keys: only the pages that can hold them are decoded.

Bounds are keys or prefixes of keys (internal values, in key order): a row is inside when
`low <= key[:len(low)]` and `key[:len(high)] < high`. Adjoining ranges therefore tile the key space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.format.data_reader import file_format
from lakecore.format.parquet.pages import FilePages, KeyPage
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.columns.evolve import same_values
from lakecore.read.context import ReadContext
from lakecore.read.file.deletions import live_rows
from lakecore.read.file.file_reader import (
    FileRows,
    convert,
    expired_file_error,
    read_columns,
    read_file,
    select_stored_fields,
)
from lakecore.read.file.selection import Selection
from lakecore.read.file.sizes import DEFAULT_SIZES, ReadSizes
from lakecore.row.values import array_values
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import RowType

__all__ = [
    "Key",
    "KeyRange",
    "RangeRows",
    "cut_points",
    "key_pages",
    "open_pages",
    "ordered_key",
    "rank",
    "read_range",
]

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `low` (inclusive) to `high` (exclusive); None is unbounded. It can be pickled."""

    low: Key | None = None
    high: Key | None = None


def open_pages(ctx: ReadContext, bucket_dir: str, file: DataFile) -> FilePages | None:
    """Open the pages of a data file; None when it cannot be cut (not parquet, or no page index)."""
    path = ctx.paths.data_file(bucket_dir, file)
    if file_format(path) != "parquet":
        return None
    try:
        return FilePages.open(ctx.file_io, path)
    except NotFoundError as err:
        raise expired_file_error(path) from err


def cut_points(
    ctx: ReadContext, bucket_dir: str, file: DataFile, begins: set[Key] | None = None
) -> tuple[tuple[Key, int], ...] | None:
    """Return (first key of a page or a prefix of it, rows of the page), in key order; None: the file cannot
    be cut. `begins` gets those of pages that begin a row group.

    Shortened text bounds are made valid text, which may move a cut a little but never splits a key.
    """
    pages = open_pages(ctx, bucket_dir, file)
    if pages is None:
        return None
    try:
        pages_of_key = key_pages(ctx, bucket_dir, file, pages)
        starts = set(pages.group_starts)
    finally:
        pages.close()
    if pages_of_key is None:
        return None
    text = [arrow_type(field.type) == pa.string() for field in ctx.schema.key_type]
    points = tuple(
        (tuple(_readable(value, is_text=t) for value, t in zip(page.low, text, strict=False)), page.rows)
        for page in pages_of_key
    )
    if begins is not None:
        pairs = zip(points, pages_of_key, strict=True)
        begins.update(point[0] for point, page in pairs if page.first_row in starts)
    return points


def _readable(value: Any, *, is_text: bool) -> Any:
    """Make a bound of text valid: bounds are bytes, perhaps cut inside a character."""
    return value.decode("utf-8", "ignore") if is_text else value


@dataclass(frozen=True, slots=True)
class RangeRows:
    """It says which rows of a key-value file are read: those in a range of keys."""

    bounds: KeyRange
    deletions: BitMap | None = None
    """These are positions of rows to leave out."""


def read_range(
    ctx: ReadContext,
    bucket_dir: str,
    file: DataFile,
    columns: Sequence[str],
    rows: RangeRows,
    sizes: ReadSizes = DEFAULT_SIZES,
) -> Iterator[pa.RecordBatch]:
    """Read `rows` of a key-value file, in key order. `columns` must hold the key columns.

    A file without usable page bounds is decoded from its start. For the errors see `read_file`.
    """
    pages = open_pages(ctx, bucket_dir, file)
    pages_of_key = None if pages is None else key_pages(ctx, bucket_dir, file, pages)
    try:
        if pages is None or pages_of_key is None:
            stream = read_file(ctx, bucket_dir, file, columns, FileRows(deletions=rows.deletions), sizes)
        else:
            path = ctx.paths.data_file(bucket_dir, file)
            plan = select_stored_fields(read_columns(ctx, file, pages.schema, path, columns), pages)
            span = _rows(pages_of_key, rows.bounds, ctx.schema.key_type)
            stored = pages.batches(plan.stored, *span, sizes.batch_rows, sizes.buffer_size)
            live = live_rows(rows.deletions, file.row_count, path)
            if live is not None:
                stored = Selection(None, (live & BitMap(range(*span))).shift(-span[0])).select(stored)
            stream = (convert(ctx, path, plan, batch) for batch in stored)
        yield from _inside(stream, rows.bounds, ctx.schema.key_type)
    finally:
        if pages is not None:
            pages.close()


def key_pages(
    ctx: ReadContext, bucket_dir: str, file: DataFile, pages: FilePages
) -> tuple[KeyPage, ...] | None:
    """Return the pages of the leading key columns that are stored with the type they are read as."""
    path = ctx.paths.data_file(bucket_dir, file)
    plan = read_columns(ctx, file, pages.schema, path, ctx.schema.trimmed_primary_keys)
    names = []
    for field, source, stored in zip(plan.row_type.fields, plan.sources, plan.fields, strict=True):
        if source is None or stored is None or not same_values(stored.type, field.type):
            break
        names.append(plan.stored[source])
    return pages.key_pages(names) if names else None


def _rows(pages: Sequence[KeyPage], bounds: KeyRange, key_type: RowType) -> tuple[int, int]:
    """Return the rows [start, stop) of the pages that can hold a key of the range; keys are sorted, so the
    rows are contiguous.
    """
    low, high = _page_bound(bounds.low), _page_bound(bounds.high)
    inside = [page for page in pages if not _below(page, low) and not _above(page, high)]
    if not inside:
        return 0, 0
    return inside[0].first_row, inside[-1].first_row + inside[-1].rows


def _below(page: KeyPage, low: Key | None) -> bool:
    return low is not None and page.high[: len(low)] < low[: len(page.high)]


def _above(page: KeyPage, high: Key | None) -> bool:
    if high is None:
        return False
    low, bound = page.low[: len(high)], high[: len(page.low)]
    return low > bound or (low == bound and len(low) == len(high))


def _page_bound(bound: Key | None) -> Key | None:
    """Encode text as the bytes that page bounds hold."""
    if bound is None:
        return None
    return tuple(value.encode() if isinstance(value, str) else value for value in bound)


def _inside(
    stream: Iterator[pa.RecordBatch], bounds: KeyRange, key_type: RowType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows inside the range; stops at the first batch that begins above it."""
    for batch in stream:
        start = 0 if bounds.low is None else rank(batch, bounds.low, key_type)
        stop = batch.num_rows if bounds.high is None else rank(batch, bounds.high, key_type)
        if start < stop:
            yield batch if stop - start == batch.num_rows else batch.slice(start, stop - start)
        if stop < batch.num_rows:
            return


def rank(batch: pa.RecordBatch, bound: Key, key_type: RowType) -> int:
    """Count the rows whose key (cut to the length of `bound`) is below `bound`: binary search in sorted
    rows.
    """
    prefix = RowType(key_type.fields[: len(bound)])
    target = tuple(map(comparable, bound))
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high) // 2
        if ordered_key(batch, middle, prefix) < target:
            low = middle + 1
        else:
            high = middle
    return low


def ordered_key(batch: pa.RecordBatch, row: int, prefix: RowType) -> Key:
    """Return one key as values that compare in key order."""
    return tuple(
        comparable(array_values(batch.column(field.name).slice(row, 1), field.type)[0])
        for field in prefix.fields
    )
