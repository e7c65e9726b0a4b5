"""This module stores rows in blocks of Arrow, and takes some of them by their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.lookup.tables.blocks import BlockCache, BlockStore

__all__ = ["RowStore", "RowStoreBuilder"]

_PER_BLOCK = 1 << 12
Places = npt.NDArray[np.int64]


class RowStore:
    """It never changes. The place of a row is its number, from 0. Several threads may read it."""

    def __init__(self, schema: pa.Schema, store: BlockStore, count: int, cache: BlockCache[Any]) -> None:
        self.schema = schema
        self._store = store
        self._count = count
        self._cache = cache

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Return the bytes that the rows take as they are stored."""
        return self._store.size

    def take(self, places: Places) -> pa.Table:
        """Return the rows at `places`, in that order. Each block that is needed is read once."""
        if not len(places):
            return self.schema.empty_table()
        order = np.argsort(places, kind="stable")
        numbers = places[order] // _PER_BLOCK
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        parts = []
        for rows in np.split(order, cuts):
            number = int(places[rows[0]]) // _PER_BLOCK
            parts.append(self._block(number).take(pa.array(places[rows] - number * _PER_BLOCK)))
        table = pa.Table.from_batches(parts, self.schema)
        if np.array_equal(order, np.arange(len(order))):
            return table
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.combine_chunks().take(pa.array(back))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in their order, past the cache."""
        for number in range(len(self._store)):
            yield self._load(number)[0]

    def close(self) -> None:
        """Forget the blocks that the cache has of these rows."""
        self._cache.drop(self._store)

    def _block(self, number: int) -> pa.RecordBatch:
        block: pa.RecordBatch = self._cache.get(self._store, number, lambda: self._load(number))
        return block

    def _load(self, number: int) -> tuple[pa.RecordBatch, int]:
        with pa.ipc.open_stream(self._store.read(number)) as reader:
            batch = reader.read_next_batch()
        return batch, batch.get_total_buffer_size()


class RowStoreBuilder:
    """It takes batches of rows and makes a store. It holds at most one block beside the batch that it is
    given.
    """

    def __init__(
        self, schema: pa.Schema, directory: str | None, codec: str | None, cache: BlockCache[Any]
    ) -> None:
        """`directory`: see `BlockStore`. `codec` compresses blocks: `zstd`, `lz4` or None."""
        self._schema = schema
        self._store = BlockStore(directory)
        self._cache = cache
        self._codec = codec
        self._waiting: list[pa.RecordBatch] = []
        self._row_count = 0
        self._count = 0

    def add(self, batch: pa.RecordBatch) -> int:
        """Add rows and return the place of the first."""
        first = self._count + self._row_count
        self._waiting.append(batch)
        self._row_count += batch.num_rows
        if self._row_count >= _PER_BLOCK:
            self._flush(_PER_BLOCK)
        return first

    def finish(self) -> RowStore:
        """Return the store of all rows that were added."""
        self._flush(1)
        return RowStore(self._schema, self._store, self._count, self._cache)

    def _flush(self, least: int) -> None:
        """Write blocks while at least `least` rows wait."""
        if self._row_count < least:
            return
        rows = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        start = 0
        while rows.num_rows - start >= least:
            block = rows.slice(start, _PER_BLOCK).combine_chunks()
            start += block.num_rows
            self._store.append(self._bytes(block))
        rest = rows.slice(start)
        self._waiting = rest.combine_chunks().to_batches() if rest.num_rows else []
        self._row_count = rest.num_rows
        self._count += start

    def _bytes(self, rows: pa.Table) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=self._codec)
        batch = pa.RecordBatch.from_arrays(
            [
                column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
                for column in rows.columns
            ],
            schema=self._schema,
        )
        with pa.ipc.new_stream(sink, self._schema, options=options) as writer:
            writer.write_batch(batch)
        return sink.getvalue()
