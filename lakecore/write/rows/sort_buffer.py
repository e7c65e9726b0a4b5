"""This module buffers rows of one bucket in memory and sorts them by key on request, the latest row of a key
last.

Rule of the format: rows of one key become one before they are flushed, by the table's merge engine.

Order of rows of one key: sequence fields, then arrival, as between files. (Java Paimon before 2.0 ignores
`sequence.field.sort-order=descending` inside one buffer: a bug, fixed there.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.groups import Engine, Groups, fold
from lakecore.merge.key_columns import Keys
from lakecore.merge.row_order import SequenceColumn, order_rows
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.write.rows.incoming import Rows

__all__ = ["SortBuffer", "SortedRows"]

_ROW_OVERHEAD = 9
_CHUNK_BYTES = 1 << 20
_MAX_CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class SortedRows:
    """These are rows (`_SEQUENCE_NUMBER`, `_VALUE_KIND`, the table's columns) and their order by key."""

    batch: pa.RecordBatch
    order: np.ndarray[Any, Any]
    latest: np.ndarray[Any, Any]
    """`latest[i]` is true when the row at place i of the order is the last of its key."""

    def merged(self, engine: Engine | None = None) -> Iterator[pa.RecordBatch]:
        """Yield one row per key, in batches of about a megabyte: the latest, or the result of `engine` over
        all of them.

        Raises UnsupportedError for a retraction that the engine cannot take.
        """
        if engine is None:
            return self._chunks(self.order[self.latest])
        groups = Groups(batch=self.batch, order=self.order, last=self.latest)
        return (fold(part, engine).batch for part in groups.chunks())

    def raw(self) -> Iterator[pa.RecordBatch]:
        """Yield every row, in key order, in batches of about a megabyte."""
        return self._chunks(self.order)

    def _chunks(self, rows: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
        size = max(self.batch.nbytes // max(self.batch.num_rows, 1), 1)
        step = min(max(_CHUNK_BYTES // size, 1), _MAX_CHUNK_ROWS)
        for start in range(0, len(rows), step):
            yield self.batch.take(pa.array(rows[start : start + step]))


class SortBuffer:
    """It holds rows in order of arrival, with their sequence numbers."""

    def __init__(
        self, key_names: tuple[str, ...], sequence_fields: tuple[str, ...], *, descending: bool = False
    ) -> None:
        self._key_names = key_names
        self._sequence_fields = sequence_fields
        self._descending = descending
        self._batches: list[pa.RecordBatch] = []
        self.size = 0
        """Bytes held."""

    def add(self, rows: Rows, first_sequence: int) -> None:
        """Add rows numbered from `first_sequence`."""
        count = rows.batch.num_rows
        numbers = pa.array(np.arange(first_sequence, first_sequence + count, dtype=np.int64))
        kinds = pa.array(np.zeros(count, np.int8) if rows.kinds is None else rows.kinds)
        names = [SEQUENCE_NAME, KIND_NAME, *rows.batch.schema.names]
        self._batches.append(pa.RecordBatch.from_arrays([numbers, kinds, *rows.batch.columns], names=names))
        self.size += rows.batch.nbytes + _ROW_OVERHEAD * count

    def drain(self) -> SortedRows | None:
        """Return all rows, sorted, and empty the buffer; None when it holds none. It costs a copy of the
        rows.
        """
        if not self._batches:
            return None
        batch = pa.concat_batches(self._batches)
        self._batches.clear()
        self.size = 0
        keys = Keys.of([batch.column(name) for name in self._key_names])
        sequence = [SequenceColumn(batch.column(name), self._descending) for name in self._sequence_fields]
        ordered = order_rows(keys.columns, [*sequence, SequenceColumn(batch.column(SEQUENCE_NAME))])
        return SortedRows(batch, ordered.rows, np.append(~ordered.same, True))
