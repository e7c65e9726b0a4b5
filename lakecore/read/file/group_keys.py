"""This module reads single keys of a key-value file at known rows, such as the first key of each row group
or page.

The keys are decoded. Statistics never say what a key is, because they may be cut, missing or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.format.data_reader import BATCH_ROWS
from lakecore.format.parquet.pages import FilePages
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import FileColumns, convert, read_columns
from lakecore.read.file.key_range import Key, KeyRange, RangeRows, key_pages, open_pages, read_range
from lakecore.row.values import array_values

__all__ = ["key_at_row", "key_batches", "keys_at"]

_FEW_ROWS = 16
"""Of so many rows each is looked up alone. More are found on one way through the keys: a page that is opened
costs more than to decode one.
"""


def keys_at(ctx: ReadContext, bucket_dir: str, file: DataFile, rows: Sequence[int]) -> tuple[Key, ...] | None:
    """Return the keys of rows, which count from 0 and ascend; None where ranges of keys cannot be read by
    pages.

    Cost: the footer, the indexes of the key columns, and for a few rows the page of each that has its key;
    for many the keys from the first to the last of them. Raises NotFoundError, CorruptDataError.
    """
    pages = open_pages(ctx, bucket_dir, file)
    if pages is None:
        return None
    try:
        if key_pages(ctx, bucket_dir, file, pages) is None:
            return None
        if len(rows) > _FEW_ROWS:
            return tuple(_keys_on_the_way(ctx, bucket_dir, file, pages, rows))
        return tuple(_key(ctx, bucket_dir, file, pages, (row, 1)) for row in rows)
    finally:
        pages.close()


def key_at_row(ctx: ReadContext, bucket_dir: str, file: DataFile, row: int) -> Key:
    """Return the key of a row, counted from 0. Raises CorruptDataError, also for a file without a page
    index.
    """
    pages = open_pages(ctx, bucket_dir, file)
    if pages is None:
        raise CorruptDataError(ctx.paths.data_file(bucket_dir, file), "it has lost its page index")
    try:
        return _key(ctx, bucket_dir, file, pages, (row, BATCH_ROWS))
    finally:
        pages.close()


def key_batches(
    ctx: ReadContext, bucket_dir: str, file: DataFile, bounds: KeyRange
) -> Iterator[pa.RecordBatch] | None:
    """Return an iterator over the keys of a file in a range, in key order; None where the range cannot be
    read by pages. Raises NotFoundError, CorruptDataError.
    """
    pages = open_pages(ctx, bucket_dir, file)
    if pages is None:
        return None
    try:
        if key_pages(ctx, bucket_dir, file, pages) is None:
            return None
    finally:
        pages.close()
    return read_range(ctx, bucket_dir, file, ctx.schema.trimmed_primary_keys, RangeRows(bounds))


def _keys_on_the_way(
    ctx: ReadContext, bucket_dir: str, file: DataFile, pages: FilePages, rows: Sequence[int]
) -> Iterator[Key]:
    path = ctx.paths.data_file(bucket_dir, file)
    plan = read_columns(ctx, file, pages.schema, path, ctx.schema.trimmed_primary_keys)
    rest = iter(rows)
    row, start = next(rest), rows[0]
    for batch in pages.batches(plan.stored, rows[0], rows[-1] + 1, BATCH_ROWS):
        while row < start + batch.num_rows:
            yield _key_of(ctx, path, plan, batch.slice(row - start, 1))
            row = next(rest, pages.num_rows)
        start += batch.num_rows


def _key(ctx: ReadContext, bucket_dir: str, file: DataFile, pages: FilePages, place: tuple[int, int]) -> Key:
    """Return the key at `place`: a row, and how many rows are decoded at once on the way to it."""
    path = ctx.paths.data_file(bucket_dir, file)
    plan = read_columns(ctx, file, pages.schema, path, ctx.schema.trimmed_primary_keys)
    row, count = place
    batch = next(pages.batches(plan.stored, row, row + 1, count), None)
    if batch is None:
        raise CorruptDataError(path, f"it has no row {row}")
    return _key_of(ctx, path, plan, batch)


def _key_of(ctx: ReadContext, path: str, plan: FileColumns, batch: pa.RecordBatch) -> Key:
    values = convert(ctx, path, plan, batch)
    return tuple(array_values(values.column(field.name), field.type)[0] for field in ctx.schema.key_type)
