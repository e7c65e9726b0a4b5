"""Sorted runs of a full buffer on local disk, merged again when the buffer is flushed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakecore.fs.file_io import FileIO
from lakecore.merge.passes import Scratch, reduce_runs
from lakecore.merge.sorted_merge import MergeSpec, merge_runs

__all__ = ["Spill"]

_MAX_RUNS = 64
_BATCH_ROWS = 1 << 16


class Spill:
    """Runs of one bucket, oldest first. Reading holds about a megabyte a run; many are merged in passes."""

    def __init__(self, file_io: FileIO, spec: MergeSpec) -> None:
        self._scratch = Scratch(file_io)
        self._spec = spec
        self._paths: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._paths)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Store a run: batches in key order, one row a key. Raises UnavailableError when the disk is full."""
        self._paths.append(self._scratch.store(batches, _BATCH_ROWS))

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All runs as one, the latest row of a key winning; once. Files go away as they are read."""
        runs = [self._scratch.read(path) for path in self._paths]
        yield from self._merge(reduce_runs(runs, _MAX_RUNS, _BATCH_ROWS, self._merge, self._scratch))

    def clear(self) -> None:
        """Remove the files."""
        self._scratch.close()
        self._paths.clear()

    def _merge(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        for window in merge_runs(runs, self._spec):
            if window.batch.num_rows:
                yield window.batch
