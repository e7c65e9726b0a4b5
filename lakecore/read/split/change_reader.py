"""This module reads changes: files in order without merging, every row with the kind it was written with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of, restricted
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.scan.split import Split

__all__ = ["read_changes", "with_kind"]


def read_changes(
    ctx: ReadContext, split: Split, columns: Sequence[str], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split: `columns` of `ctx.schema` and `_VALUE_KIND`, where `predicate` is true of
    that row.

    An update is two rows (before, after): a predicate may keep only one of them. Rows of append tables are
    inserts. It holds one batch. Raises NotFoundError when a file does not exist, CorruptDataError,
    UnsupportedError.
    """
    names = tuple(dict.fromkeys((*columns, *sorted(columns_of(predicate) if predicate else ()))))
    needed = (*names, KIND_NAME) if ctx.keyed else names
    prunable = restricted(predicate, ctx.schema.primary_keys) if ctx.keyed else predicate
    directory = ctx.bucket_dir(split.partition, split.bucket)
    ctx = ctx.in_partition(split.partition)
    for file in split.files:
        for batch in read_file(ctx, directory, file, needed, FileRows(predicate=prunable)):
            filtered = batch if predicate is None else batch.filter(mask(predicate, batch))
            if filtered.num_rows:
                yield (
                    filtered.select([*columns, KIND_NAME])
                    if ctx.keyed
                    else with_kind(filtered.select(list(columns)))
                )


def with_kind(batch: pa.RecordBatch, kind: RowKind = RowKind.INSERT) -> pa.RecordBatch:
    """Return the batch with `_VALUE_KIND` as its last column, the same for all rows."""
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
    return batch.append_column(pa.field(KIND_NAME, pa.int8(), nullable=False), kinds)
