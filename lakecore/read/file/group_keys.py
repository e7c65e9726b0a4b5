"""This module reads single keys of a key-value file at known rows, such as the first key of each row group.

The keys are decoded. Statistics never say what a key is, because they may be cut, missing or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.format.data_reader import BATCH_ROWS
from lakecore.format.parquet.pages import FilePages
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import convert, read_columns
from lakecore.read.file.key_range import Key, KeyRange, RangeRows, key_pages, open_pages, read_range
from lakecore.row.values import array_values

__all__ = ["first_keys", "key_at_row", "key_batches"]


def first_keys(ctx: ReadContext, bucket_dir: str, file: DataFile) -> tuple[Key, ...] | None:
    """Return the first key of each row group; None where ranges of keys cannot be read by pages.

    Cost: the footer, the indexes of the key columns, and of each row group a page of each key column. Raises
    NotFoundError, CorruptDataError.
    """
    pages = open_pages(ctx, bucket_dir, file)
    if pages is None:
        return None
    try:
        if key_pages(ctx, bucket_dir, file, pages) is None:
            return None
        return tuple(_key(ctx, bucket_dir, file, pages, (row, 1)) for row in pages.group_starts)
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


def _key(ctx: ReadContext, bucket_dir: str, file: DataFile, pages: FilePages, place: tuple[int, int]) -> Key:
    """Return the key at `place`: a row, and how many rows are decoded at once on the way to it."""
    path = ctx.paths.data_file(bucket_dir, file)
    plan = read_columns(ctx, file, pages.schema, path, ctx.schema.trimmed_primary_keys)
    row, count = place
    batch = next(pages.batches(plan.stored, row, row + 1, count), None)
    if batch is None:
        raise CorruptDataError(path, f"it has no row {row}")
    values = convert(ctx, path, plan, batch)
    return tuple(array_values(values.column(field.name), field.type)[0] for field in ctx.schema.key_type)
