"""This module merges rows of a key before they are assigned to buckets (option `local-merge-buffer-size`).

It is done only where it has no visible effect: the last row of a key counts (deduplicate), no changelog holds
the others, and keys stay in their partition. Elsewhere the option changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakecore.metadata.options import (
    BucketMode,
    ChangelogProducer,
    MergeEngine,
    SequenceOrder,
    TableOptions,
)
from lakecore.metadata.row_kind import KIND_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_size
from lakecore.write.rows.incoming import Rows
from lakecore.write.rows.sort_buffer import SortBuffer

__all__ = ["LocalMerge"]

BUFFER_SIZE: Option[int | None] = Option(
    "local-merge-buffer-size", parse_size, None, "Bytes of rows that are merged before they find buckets."
)


class LocalMerge:
    """This buffer lies in front of the buckets. It needs the memory of its size, twice while it is
    emptied.
    """

    def __init__(self, schema: TableSchema, options: TableOptions, limit: int) -> None:
        self._names = schema.row_type.names
        self._limit = limit
        self._row_count = 0
        descending = options.sequence_order is SequenceOrder.DESCENDING
        self._buffer = SortBuffer(schema.primary_keys, options.sequence_fields, descending=descending)

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> LocalMerge | None:
        """Create the buffer; None where rows are not merged. Raises InvalidOptionError."""
        limit = BUFFER_SIZE.read(schema.options)
        merges = (
            bool(schema.primary_keys)
            and options.merge_engine is MergeEngine.DEDUPLICATE
            and options.changelog_producer is not ChangelogProducer.INPUT
            and options.bucket_mode is not BucketMode.KEY_DYNAMIC
        )
        return cls(schema, options, limit) if merges and limit is not None else None

    def add(self, rows: Rows) -> Iterator[Rows]:
        """Buffer rows; yields the merged ones when the buffer is full."""
        self._buffer.add(rows, self._row_count)
        self._row_count += rows.batch.num_rows
        if self._buffer.size >= self._limit:
            yield from self.drain()

    def drain(self) -> Iterator[Rows]:
        """Yield one row per key of all buffered rows, in batches."""
        drained = self._buffer.drain()
        for batch in () if drained is None else drained.merged():
            kinds = batch.column(KIND_NAME).to_numpy(zero_copy_only=False)
            yield Rows(batch.select(list(self._names)), kinds if kinds.any() else None)
