"""This module sorts any number of rows: they are sorted in a buffer, spilled to local disk as runs, and
merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakecore.merge.key_columns import Keys
from lakecore.merge.passes import Batches, Scratch, reduce_runs
from lakecore.merge.row_order import order_rows
from lakecore.merge.windows import windows
from lakecore.row.sort_rule import SortRule

__all__ = ["KEY_NAME", "RowSorter", "keyed"]

KEY_NAME = "__lakecore_sort_key_"
_ROW_NAME = "__lakecore_sort_row"
_BUFFER_BYTES = 96 << 20
_CHUNK_BYTES = 1 << 20
_MAX_CHUNK_ROWS = 1 << 15
_MOST_RUNS = 64


def keyed(batch: pa.RecordBatch, rule: SortRule) -> pa.RecordBatch:
    """Return the batch with its sort keys after its columns."""
    keys = rule.keys([batch.column(name) for name in rule.columns])
    fields = [pa.field(f"{KEY_NAME}{number}", key.type) for number, key in enumerate(keys)]
    return pa.RecordBatch.from_arrays([*batch.columns, *keys], schema=pa.schema([*batch.schema, *fields]))


class RowSorter:
    """It gathers batches that have sort keys (`keyed`), gives them back in order, equal rows as they came.

    Memory: about four times `buffer_bytes`, and a megabyte a run while runs are merged (64 at once).
    """

    def __init__(self, scratch: Scratch, buffer_bytes: int = _BUFFER_BYTES) -> None:
        self._scratch = scratch
        self._buffer_bytes = buffer_bytes
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._rows = 0
        self._runs: list[str] = []
        self._names: tuple[str, ...] = ()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises UnavailableError when the disk is full."""
        if not batch.num_rows:
            return
        numbers = pa.array(np.arange(self._rows, self._rows + batch.num_rows, dtype=np.int64))
        keys = (name for name in batch.schema.names if name.startswith(KEY_NAME))
        self._names = (*keys, _ROW_NAME)  # no two rows are equal: a window of the merge stays small
        self._rows += batch.num_rows
        self._batches.append(batch.append_column(_ROW_NAME, numbers))
        self._size += self._batches[-1].nbytes
        if self._size >= self._buffer_bytes:
            self._runs.append(self._scratch.store(self._drain(), _MAX_CHUNK_ROWS))

    def sorted(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, once."""
        if not self._runs:
            yield from self._drain()
            return
        if self._batches:
            self._runs.append(self._scratch.store(self._drain(), _MAX_CHUNK_ROWS))
        runs = [self._scratch.read(path) for path in self._runs]
        yield from self._merge(reduce_runs(runs, _MOST_RUNS, _MAX_CHUNK_ROWS, self._merge, self._scratch))

    def _drain(self) -> Iterator[pa.RecordBatch]:
        if not self._batches:
            return
        batch = pa.concat_batches(self._batches)
        self._batches.clear()
        self._size = 0
        yield from self._sort(batch)

    def _merge(self, runs: Sequence[Batches]) -> Batches:
        for parts in windows(runs, self._names):
            batch = parts[0].batch if len(parts) == 1 else pa.concat_batches([part.batch for part in parts])
            yield from (batch,) if len(parts) == 1 else self._sort(batch)

    def _sort(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch in order, in batches of about a megabyte."""
        keys = Keys.of([batch.column(name) for name in self._names])
        rows = order_rows(keys.columns, ()).rows
        step = min(max(_CHUNK_BYTES * batch.num_rows // max(batch.nbytes, 1), 1), _MAX_CHUNK_ROWS)
        for start in range(0, len(rows), step):
            yield batch.take(pa.array(rows[start : start + step]))
