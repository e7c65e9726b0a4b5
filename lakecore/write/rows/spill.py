"""This module spills sorted runs of a full buffer to local disk, and merges them when the buffer is
flushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakecore.fs.file_io import FileIO
from lakecore.merge.groups import Engine, Groups, fold
from lakecore.merge.key_columns import Keys
from lakecore.merge.passes import Scratch, reduce_runs
from lakecore.merge.row_order import order_rows
from lakecore.merge.sorted_merge import MergeSpec, merge_runs
from lakecore.metadata.row_kind import SEQUENCE_NAME

__all__ = ["Spill"]

_MAX_RUNS = 64
_BATCH_ROWS = 1 << 16


class Spill:
    """These are the runs of one bucket, oldest first. Reading holds about a megabyte a run; many are
    merged in passes.

    With an engine in `spec` the runs hold every row, and the rows of a key are merged once, all together:
    those of one key are held in memory. Such a table has no sequence fields.
    """

    def __init__(self, file_io: FileIO, spec: MergeSpec) -> None:
        self._scratch = Scratch(file_io)
        self._engine = spec.engine
        self._key_columns = spec.key_columns
        whole = replace(spec, engine=None, key_columns=(*spec.key_columns, SEQUENCE_NAME))
        self._spec = spec if spec.engine is None else whole
        self._paths: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._paths)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Store a run: batches in key order, one row per key; with an engine all rows, by number.

        Raises UnavailableError when the disk is full.
        """
        self._paths.append(self._scratch.store(batches, _BATCH_ROWS))

    def merged(self) -> Iterator[pa.RecordBatch]:
        """Yield all runs merged, one row per key; call it once. Files are removed as they are read."""
        runs = [self._scratch.read(path) for path in self._paths]
        rows = self._merge(reduce_runs(runs, _MAX_RUNS, _BATCH_ROWS, self._merge, self._scratch))
        return rows if self._engine is None else self._fold(rows, self._engine)

    def clear(self) -> None:
        """Remove the files."""
        self._scratch.close()
        self._paths.clear()

    def _merge(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        for window in merge_runs(runs, self._spec):
            if window.batch.num_rows:
                yield window.batch

    def _fold(self, rows: Iterable[pa.RecordBatch], engine: Engine) -> Iterator[pa.RecordBatch]:
        """Apply `engine` to rows in order, key by key."""
        rest: list[pa.RecordBatch] = []
        enough = _BATCH_ROWS
        for batch in rows:
            rest.append(batch)
            if sum(part.num_rows for part in rest) < enough:
                continue
            groups = self._groups(rest)
            start = int(groups.starts[-1])
            if start:
                ended = Groups(batch=groups.batch.slice(0, start), order=None, last=groups.last[:start])
                yield fold(ended, engine).batch
            rest = [groups.batch.slice(start)]
            enough = max(_BATCH_ROWS, 2 * rest[0].num_rows)  # a key of many rows is looked through seldom
        if rest:
            yield fold(self._groups(rest), engine).batch

    def _groups(self, parts: Sequence[pa.RecordBatch]) -> Groups:
        batch = pa.concat_batches(parts)
        keys = Keys.of([batch.column(name) for name in self._key_columns])
        return Groups(batch=batch, order=None, last=np.append(~order_rows(keys.columns, []).same, True))
