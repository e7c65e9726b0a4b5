"""This module writes a DataFrame whose rows are brought to the writers of their buckets first.

The bucket of a row is a hash of Paimon, which Spark does not know: it is computed beside the row, Spark
shuffles by it, and each task writes all rows of its buckets. Where buckets are assigned instead, a partition
has one writer; where keys may move between partitions, the table has. Tables without buckets need no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from lakecore.commit.request import CommitResult
from lakecore.metadata.options import BucketMode
from lakecore.row.bucket import assign_buckets
from lakecore.row.hashing import hash_rows
from lakecore.spark.data_source.writer import write_task
from lakecore.table import Table
from lakecore.types.datatypes import RowType
from lakecore.write.batch_write import BatchWrite
from lakecore.write.rows.casting import cast_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["run_writers", "write_frame"]

_PLACE = "__lakecore_place"
WriteTask: TypeAlias = Callable[[Iterator[pa.RecordBatch]], bytes]
"""It writes the rows of one task and returns what it prepared."""


def write_frame(frame: DataFrame, table: Table, write: BatchWrite, parallelism: int | None) -> CommitResult:
    """Write the rows in one snapshot; see `lakecore.spark.write`."""
    return write.commit(run_writers(frame, table, parallelism, partial(write_task, write)))


def run_writers(frame: DataFrame, table: Table, parallelism: int | None, write: WriteTask) -> list[bytes]:
    """Bring the rows to the writers of their buckets; returns what `write` prepared in each task."""
    rows = _shuffle(frame, table, parallelism).mapInArrow(_task_writer(write), "prepared binary").collect()
    return [bytes(row.prepared) for row in rows]


def _shuffle(frame: DataFrame, table: Table, parallelism: int | None) -> DataFrame:
    mode = table.options.bucket_mode
    if mode is BucketMode.KEY_DYNAMIC:
        return frame.repartition(1)
    if mode is BucketMode.BUCKET_UNAWARE:
        return frame if parallelism is None else frame.repartition(parallelism)
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([*frame.schema.fields, StructField(_PLACE, LongType())])
    placed = frame.mapInArrow(_placer(table), schema)
    return placed.repartition(_PLACE) if parallelism is None else placed.repartition(parallelism, _PLACE)


def _placer(table: Table) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that adds the place of each row: a number of its partition, and its bucket."""
    schema, options = table.schema, table.options
    partition = schema.partition_type
    fixed = options.bucket_mode is BucketMode.HASH_FIXED
    keys = schema.row_type.select(schema.bucket_keys) if fixed else RowType(())

    def place(batch: pa.RecordBatch) -> Any:
        number = np.zeros(batch.num_rows, np.int64)
        if partition.fields:
            number += hash_rows(_columns(batch, partition), partition).astype(np.int64) << 32
        if fixed:
            batch_of_keys = pa.RecordBatch.from_arrays(_columns(batch, keys), names=list(keys.names))
            number += assign_buckets(batch_of_keys, keys, options.bucket, options.bucket_function.value)
        return pa.array(number)

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield batch.append_column(_PLACE, place(batch))

    return add


def _columns(batch: pa.RecordBatch, data_type: RowType) -> list[pa.Array]:
    """Return the columns in the types of the table; a missing one is null, which the writer judges."""
    names = batch.schema.names
    return [
        cast_column(
            batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows),
            field.type,
            field.name,
        )
        for field in data_type.fields
    ]


def _task_writer(write: WriteTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that writes the rows of a task, and yields what it prepared as one row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (batch.drop_columns([_PLACE]) if _PLACE in batch.schema.names else batch for batch in batches)
        yield pa.RecordBatch.from_pydict({"prepared": [write(rows)]})

    return run
