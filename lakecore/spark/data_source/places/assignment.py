"""This module assigns dynamic buckets in tasks of Spark, between two shuffles.

Rows are shuffled by a hash of partition and key to assigners. Each keeps its hashes of the hash index, looks
up or chooses the bucket of each key, and Spark shuffles rows by partition and bucket to the writers, which
write data files and one hash file for each bucket that got new keys.

An assignment must not depend on the order in which rows come. Spark runs a task again whose output is lost,
and runs slow tasks twice, and shuffled rows then come in another order. A writer that ended has rows of the
first run, and another would get rows of the second, so that keys would be in two buckets, or in none. So the
rows of an assigner are sorted by partition and hash: a run with the same rows, and with the snapshot that the
driver chose, gives every key the same bucket. Where the rows themselves differ between two runs (a random
column of the query), no sink of Spark can be right.

Cost: every assigner reads the manifests of the snapshot and all hash files of its partitions, and keeps 6
bytes a hash of its shares. Spark sorts the rows, with spills to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.row.hashing import hash_longs, hash_rows
from lakecore.spark.data_source.map_merge import BeforeShuffle
from lakecore.spark.data_source.places.arrow_tasks import map_in_arrow
from lakecore.spark.versions import default_tasks
from lakecore.table import Table
from lakecore.types.datatypes import RowType
from lakecore.write.assigned import AssignedBy
from lakecore.write.buckets.assigners import Assigners
from lakecore.write.buckets.routing import partition_codes
from lakecore.write.rows.incoming import BUCKET_COLUMN, column_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BucketAssignment", "columns_of_table", "first_places", "keys_of_tasks", "partition_hashes"]

_TASK, _HASH = "__lakecore_task", "__lakecore_hash"
_BUCKET_BITS = 32


@dataclass(frozen=True)
class BucketAssignment:
    """It assigns the rows of one save. `place_name` is the column of places, by which rows are shuffled to
    writers: a hash of the partition and the bucket.
    """

    table: Table
    assigned_by: AssignedBy
    place_name: str

    def run(self, frame: DataFrame, before: BeforeShuffle) -> DataFrame:
        """Return the rows with their buckets and places, after what is done before the shuffle."""
        from pyspark.sql.types import IntegerType, LongType, StructField, StructType

        assigners = Assigners.from_options(self.table.schema.options, default_tasks(frame))
        place = StructField(self.place_name, LongType())
        keyer = partial(self._key, assigners, keys_of_tasks(assigners.tasks))
        columns = [place, StructField(_TASK, LongType()), StructField(_HASH, IntegerType())]
        rows = before.run(frame, keyer, columns)
        shuffled = rows.repartition(assigners.tasks, _TASK).sortWithinPartitions(self.place_name, _HASH)
        with_buckets = StructType(
            [*before.schema(frame).fields, place, StructField(BUCKET_COLUMN, IntegerType())]
        )
        return map_in_arrow(shuffled, partial(self._assign, assigners), with_buckets)

    def _key(
        self,
        assigners: Assigners,
        keys: np.ndarray[Any, Any],
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Add the partition, the task and the hash of the key to each row."""
        schema = self.table.schema
        key, partition = schema.key_type, schema.partition_type
        for batch in batches:
            if batch.num_rows:
                hashes = hash_rows(columns_of_table(batch, key), key)
                parts = partition_hashes(batch, partition)
                tasks = pa.array(keys[assigners.task_of(parts, hashes)])
                yield (
                    batch.append_column(self.place_name, pa.array(first_places(parts)))
                    .append_column(_TASK, tasks)
                    .append_column(_HASH, pa.array(hashes))
                )

    def _assign(self, assigners: Assigners, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Put the bucket of each row behind it. The rows come in the order of partition and hash."""
        schema, table = self.table.schema, self.table
        names = [*schema.partition_keys, *schema.key_type.names]
        needed = schema.row_type.select(tuple(dict.fromkeys(names)))
        places = None
        for batch in batches:
            if places is None:
                session = table._session(table._with_user(None))
                places = self.assigned_by.new_assigner(session, assigners.shares)
            rows = pa.RecordBatch.from_arrays(columns_of_table(batch, needed), names=list(needed.names))
            buckets = places.place(rows, *partition_codes(rows, schema.partition_type)).astype(np.int32)
            numbers = batch.column(self.place_name).to_numpy() + buckets
            yield (
                batch.drop_columns([self.place_name, _TASK, _HASH])
                .append_column(self.place_name, pa.array(numbers))
                .append_column(BUCKET_COLUMN, pa.array(buckets))
            )


def columns_of_table(batch: pa.RecordBatch, row_type: RowType) -> list[pa.Array]:
    """Return columns in the types of the table, with defaults in place of nulls; the writer judges nulls."""
    return [column_of_table(batch, field) for field in row_type.fields]


def partition_hashes(batch: pa.RecordBatch, partition_type: RowType) -> np.ndarray[Any, Any]:
    """Return the hash of the partition of each row (int32); 0 in a table without partitions."""
    if not partition_type.fields:
        return np.zeros(batch.num_rows, np.int32)
    return hash_rows(columns_of_table(batch, partition_type), partition_type)


def first_places(hashes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the place (int64) of bucket 0 of each partition, by the hashes of the partitions; that of
    another bucket is the place plus the bucket. Places are what Spark brings rows to their writers by.
    """
    return hashes.astype(np.int64) << _BUCKET_BITS


def keys_of_tasks(tasks: int) -> np.ndarray[Any, Any]:
    """Return a number for each task that Spark's hash partitioning sends there.

    The rows would be right with any numbers, but some tasks would have the rows of several others.
    """
    keys = np.full(tasks, -1, np.int64)
    start = 0
    while (keys < 0).any():
        numbers = np.arange(start, start + 8 * tasks, dtype=np.int64)
        keys[np.mod(hash_longs(numbers).astype(np.int64), tasks)] = numbers
        start += 8 * tasks
    return keys
