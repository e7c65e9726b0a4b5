"""This module assigns each row to its partition and bucket, as groups of rows that keep their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import encode_row
from lakecore.row.bucket import assign_buckets
from lakecore.row.values import batch_rows
from lakecore.types.datatypes import RowType
from lakecore.write.rows.incoming import Rows

__all__ = ["Placer", "Router", "Share", "partition_codes"]

Codes = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Share:
    """These are the rows of one partition and bucket."""

    partition: bytes
    """This is the serialised row of `values`."""
    values: tuple[Any, ...]
    """These are the partition values, as internal values."""
    bucket: int
    rows: Rows


class Placer(Protocol):
    """It assigns buckets that are not a function of the row alone."""

    def place(self, batch: pa.RecordBatch, codes: Codes, partitions: Sequence[bytes]) -> Codes:
        """Return the bucket of each row; `codes` are the indices of their partitions in `partitions`
        (serialised rows).
        """


class Router:
    """It splits batches of one table to the buckets of `placer`; without one, to fixed buckets by hash.

    A table without buckets has only bucket 0.
    """

    def __init__(
        self, schema: TableSchema, options: TableOptions, placer: Callable[[], Placer] | None = None
    ) -> None:
        self._placer = placer
        self._partition_type = schema.partition_type
        self._bucket_key = schema.row_type.select(schema.bucket_keys)
        self._options = options

    def split(self, rows: Rows) -> list[Share]:
        """Return shares in order of partition and bucket; every row is in one of them."""
        batch = rows.batch
        if batch.num_rows == 0:
            return []
        partitions, values = _partitions(batch, self._partition_type)
        serialised = [encode_row(row, self._partition_type) for row in values]
        total, buckets = self._buckets(batch, partitions, serialised)
        groups = partitions.astype(np.int64) * total + buckets
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        shares = []
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            partition, bucket = divmod(int(groups[order[start]]), total)
            part = rows if len(starts) == 1 else _take(rows, order[start:stop])
            shares.append(Share(serialised[partition], values[partition], bucket, part))
        return shares

    def _buckets(self, batch: pa.RecordBatch, codes: Codes, partitions: Sequence[bytes]) -> tuple[int, Codes]:
        """Return how many buckets there may be, and that of each row."""
        if self._placer is not None:
            placed = self._placer().place(batch, codes, partitions)
            return int(placed.max()) + 1, placed
        if self._options.bucket_mode is not BucketMode.HASH_FIXED:  # all in one place, whatever it is called
            return 1, np.zeros(batch.num_rows, np.int32)
        function = self._options.bucket_function.value
        return self._options.bucket, assign_buckets(batch, self._bucket_key, self._options.bucket, function)


def partition_codes(batch: pa.RecordBatch, data_type: RowType) -> tuple[Codes, list[bytes]]:
    """Return a code per row, and the serialised partition of each code."""
    codes, values = _partitions(batch, data_type)
    return codes, [encode_row(row, data_type) for row in values]


def _partitions(batch: pa.RecordBatch, data_type: RowType) -> tuple[Codes, list[tuple[Any, ...]]]:
    """Return a code per row and the values of each code."""
    if not data_type.fields:
        return np.zeros(batch.num_rows, np.int32), [()]
    codes = reduce(_combine, (_codes(batch.column(name)) for name in data_type.names))
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    samples = batch.select(list(data_type.names)).take(pa.array(first))
    return inverse, batch_rows(samples, data_type)


def _codes(column: pa.Array) -> Codes:
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def _combine(left: Codes, right: Codes) -> Codes:
    return left * (int(right.max()) + 1) + right


def _take(rows: Rows, picked: Codes) -> Rows:
    kinds = None if rows.kinds is None else rows.kinds[picked]
    return Rows(rows.batch.take(pa.array(picked)), kinds)
