"""This module partitions rows into parts, on local disk when they are many, and reads them part by part.

Memory: `limit` bytes of rows, twice while these are written out. Disk: the rows, compressed with lz4; one
file for each `limit` bytes, in which every part has a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.fs.file_io import FileIO
from lakecore.merge.passes import Scratch

__all__ = ["PartSpool"]

_BATCH_ROWS = 1 << 17

Parts = npt.NDArray[np.uint8]


class PartSpool:
    """It holds batches of one schema in up to 256 `parts`. `file_io` is local storage."""

    def __init__(self, file_io: FileIO, parts: int, limit: int) -> None:
        self._scratch = Scratch(file_io)
        self._parts = parts
        self._limit = limit
        self._spooled: list[tuple[pa.RecordBatch, Parts]] = []
        self._size = 0
        self._files: list[tuple[str, Sequence[int | None]]] = []

    def __bool__(self) -> bool:
        return bool(self._spooled or self._files)

    def add(self, batch: pa.RecordBatch, parts: Parts) -> None:
        """Add rows; `parts` is the part of each. Raises UnavailableError when the disk is full."""
        if batch.num_rows == 0:
            return
        self._spooled.append((batch, parts))
        self._size += batch.nbytes
        if self._size > self._limit:
            pieces = list(self._pieces())
            self._spooled.clear()
            self._size = 0
            self._files.append(self._scratch.store_pieces(pieces, _BATCH_ROWS))

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in the order in which they were added, in batches of at most 131,072."""
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._stored_batches(part):
            if rows + batch.num_rows > _BATCH_ROWS and gathered:
                yield _join(gathered)
                gathered, rows = [], 0
            gathered.append(batch)
            rows += batch.num_rows
        if gathered:
            yield _join(gathered)

    def close(self) -> None:
        """Remove the files. It may be called twice."""
        self._scratch.close()
        self._files.clear()
        self._spooled.clear()

    def _stored_batches(self, part: int) -> Iterator[pa.RecordBatch]:
        for path, offsets in self._files:
            offset = offsets[part]
            if offset is not None:
                yield from self._scratch.read_piece(path, offset)
        for batch, parts in self._spooled:
            rows = np.flatnonzero(parts == part)
            for start in range(0, len(rows), _BATCH_ROWS):
                yield batch.take(pa.array(rows[start : start + _BATCH_ROWS]))

    def _pieces(self) -> Iterator[pa.RecordBatch | None]:
        """Yield what is in memory as one batch per part, rows of a part in their order; frees nothing."""
        whole = _join([batch for batch, _ in self._spooled])
        parts = np.concatenate([places for _, places in self._spooled])
        order = np.argsort(parts, kind="stable")
        bounds = np.searchsorted(parts[order], np.arange(self._parts + 1))
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield whole.take(pa.array(order[start:stop])) if stop > start else None


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
