"""This module merges rows of a key before they are assigned to buckets (option `local-merge-buffer-size`).

It is done where it has no visible effect (`merge_obstacle`), by the merge engine of the table. Elsewhere the
option changes nothing, and a warning says why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakecore.merge.groups import Engine
from lakecore.metadata.options import SequenceOrder, TableOptions
from lakecore.metadata.row_kind import KIND_NAME, is_retract
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_size
from lakecore.write.rows.incoming import Rows
from lakecore.write.rows.merge_obstacle import folds_retractions, merge_obstacle
from lakecore.write.rows.sort_buffer import SortBuffer, SortedRows

__all__ = ["LocalMerge"]

logger = logging.getLogger(__name__)

BUFFER_SIZE: Option[int | None] = Option(
    "local-merge-buffer-size", parse_size, None, "Bytes of rows that are merged before they find buckets."
)


class LocalMerge:
    """This buffer lies in front of the buckets. It needs the memory of its size, twice while it is emptied,
    and sorts all rows once. Where `engine` does not fold retractions, a key that has one keeps its rows.
    """

    def __init__(self, schema: TableSchema, options: TableOptions, engine: Engine | None, limit: int) -> None:
        self._names = schema.row_type.names
        self._limit = limit
        self._row_count = 0
        self._engine = engine
        self._folds_retractions = folds_retractions(schema, options, engine)
        descending = options.sequence_order is SequenceOrder.DESCENDING
        self._buffer = SortBuffer(schema.primary_keys, options.sequence_fields, descending=descending)

    @classmethod
    def of(
        cls, table: str, schema: TableSchema, options: TableOptions, engine: Engine | None
    ) -> LocalMerge | None:
        """Create the buffer; None where rows are not merged. `table` is its name for messages. Raises
        InvalidOptionError.
        """
        limit = BUFFER_SIZE.read(schema.options)
        if limit is None:
            return None
        obstacle = merge_obstacle(schema, options, engine)
        if obstacle is None:
            return cls(schema, options, engine, limit)
        logger.warning("table %s: option %s has no effect: %s", table, BUFFER_SIZE.key, obstacle)
        return None

    def add(self, rows: Rows) -> Iterator[Rows]:
        """Buffer rows; yields the merged ones when the buffer is full."""
        self._buffer.add(rows, self._row_count)
        self._row_count += rows.batch.num_rows
        if self._buffer.size >= self._limit:
            yield from self.drain()

    def drain(self) -> Iterator[Rows]:
        """Yield one row per key of all buffered rows, in batches. Raises UnsupportedError for a retraction
        that the engine cannot take.
        """
        drained = self._buffer.drain()
        if drained is None:
            return
        merged, others = (drained, None) if self._folds_retractions else _by_retractions(drained)
        for batch in merged.merged(self._engine):
            yield self._rows(batch)
        for batch in () if others is None else others.raw():
            yield self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        kinds = batch.column(KIND_NAME).to_numpy(zero_copy_only=False)
        return Rows(batch.select(list(self._names)), kinds if kinds.any() else None)


def _by_retractions(rows: SortedRows) -> tuple[SortedRows, SortedRows]:
    """Return the rows of keys without, and of keys with, a row of kind -U or -D."""
    kinds = rows.batch.column(KIND_NAME).to_numpy(zero_copy_only=False)[rows.order]
    starts = np.flatnonzero(np.append(True, rows.latest[:-1]))
    sizes = np.diff(starts, append=len(rows.order))
    has_one = np.repeat(np.logical_or.reduceat(is_retract(kinds), starts), sizes)
    clean, other = (
        SortedRows(rows.batch, rows.order[mask], rows.latest[mask]) for mask in (~has_one, has_one)
    )
    return clean, other
