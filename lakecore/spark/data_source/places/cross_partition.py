"""This module assigns partitions and buckets in tasks of Spark, where keys may move between partitions.

The driver plans the splits of the snapshot, and tasks read the keys of the table, each of some splits (option
`cross-partition-upsert.bootstrap-parallelism`). These keys, with the places where they are, and the rows are
shuffled together by the hash of the primary key to assigners (`dynamic-bucket.assigner-parallelism`), so that
each gets the keys of its rows, before the rows. An assigner adds a row that deletes a key in its old
partition, or gives a row the partition where its key stays, or leaves it out, by the merge engine. Spark then
brings the rows to their writers, by partition and bucket. Each assigner may fill its share of the room in
each bucket (`TaskShare`).

The places must not depend on the order in which rows come (see `assignment`). So the rows of an assigner are
sorted by key, partition, kind, and a hash of the whole row, and the time by which old keys
are forgotten is that of the driver. The rows of a key that one assigner sends to one writer keep their order
in Spark's shuffle.

Cost: the key columns of the table are read once, and some 30 bytes a key are shuffled and sorted. An assigner
needs the memory of `write.buckets.cross_partition` for its keys.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.options import Option
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.places.arrow_tasks import map_in_arrow
from lakecore.spark.data_source.places.assignment import (
    columns_of_table,
    first_places,
    keys_of_tasks,
    partition_hashes,
)
from lakecore.spark.data_source.request import Nanoseconds
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.spark.versions import default_tasks
from lakecore.table import Table
from lakecore.types.arrow import arrow_schema
from lakecore.write.assigned import AssignedBy
from lakecore.write.buckets.assigners import Assigners
from lakecore.write.buckets.bucket_places import BucketShare
from lakecore.write.buckets.cross_partition import Emptied, Occupied, Places
from lakecore.write.buckets.key_moves import TaskShare
from lakecore.write.buckets.key_places import KeyHashes, hash_keys
from lakecore.write.buckets.routing import Share, partition_codes
from lakecore.write.rows.event_time import WATERMARK_COLUMN, EventTime
from lakecore.write.rows.incoming import ASSIGNED_KIND_COLUMN, BUCKET_COLUMN, Incoming, Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

__all__ = ["CrossPartitionKeys", "cross_partition_obstacle"]

BOOTSTRAP_TASKS = Option(
    "cross-partition-upsert.bootstrap-parallelism",
    int,
    10,
    "Tasks of Spark that read the keys of a table whose keys may move between partitions.",
)
_STEP, _TASK, _PARTITION = "__lakecore_step", "__lakecore_task", "__lakecore_partition"
_HIGH, _LOW, _CONTENT = "__lakecore_high", "__lakecore_low", "__lakecore_content"
_COUNTS, _KEYS, _ROWS = 0, 1, 2
"""An assigner gets first how many keys the buckets have, then its keys, then rows."""
_Columns = dict[str, Any]


def cross_partition_obstacle(table: Table) -> str | None:
    """Return why the rows of a table whose keys may move cannot be assigned in tasks; None if they can."""
    if EventTime.of_table(table.schema.row_type, table.schema.options) is not None:
        return f"option {WATERMARK_COLUMN.key} asks for the times of all rows as they came"
    try:
        spark_schema(table.schema.row_type, Nanoseconds.REFUSE)
    except UnsupportedError as err:
        return str(err)
    return None


@dataclass(frozen=True)
class CrossPartitionKeys:
    """It assigns the rows of one save. `place_name` is the column of places, by which rows are shuffled to
    writers: a hash of the partition and the bucket.
    """

    table: Table
    assigned_by: AssignedBy
    place_name: str

    def run(self, frame: DataFrame) -> DataFrame:
        """Return the rows in the types of the table, with their buckets, kinds and places. Raises
        InvalidOptionError.
        """
        from pyspark.sql.types import ByteType, IntegerType, LongType, StructField, StructType

        tasks = self._assigners(frame)
        schema = StructType([*self._columns.schema.fields, *_fields()])
        keyed = map_in_arrow(frame, partial(self._prepare, tasks), schema)
        if not self.assigned_by.replaces and self.assigned_by.snapshot is not None:
            keyed = keyed.union(self._live_keys(frame, tasks, schema))
        sorted_rows = keyed.repartition(tasks, _TASK).sortWithinPartitions(*self._order())
        assigned = [
            StructField(self.place_name, LongType()),
            StructField(BUCKET_COLUMN, IntegerType()),
            StructField(ASSIGNED_KIND_COLUMN, ByteType()),
        ]
        schema = StructType([*self._columns.schema.fields, *assigned])
        return map_in_arrow(sorted_rows, partial(self._assign, tasks), schema)

    @property
    def _columns(self) -> ColumnsForSpark:
        schema = spark_schema(self.table.schema.row_type, Nanoseconds.REFUSE)
        return ColumnsForSpark(schema, Nanoseconds.REFUSE)

    def _assigners(self, frame: DataFrame) -> int:
        return Assigners.from_options(self.table.schema.options, default_tasks(frame)).tasks

    def _order(self) -> list[Column]:
        """Return what the rows of an assigner are sorted by: rows that agree in all of it are the same."""
        from pyspark.sql.functions import col

        last = (_PARTITION, BUCKET_COLUMN, ASSIGNED_KIND_COLUMN, _CONTENT)
        return [col(name) for name in (_STEP, _HIGH, _LOW, *last)]

    def _live_keys(self, frame: DataFrame, tasks: int, schema: Any) -> DataFrame:
        """Return the keys of the table, as rows without columns of the table."""
        parts = BOOTSTRAP_TASKS.read(self.table.schema.options)
        if parts < 1:
            raise InvalidOptionError(f"option {BOOTSTRAP_TASKS.key}={parts}: must be at least 1")
        splits = self.assigned_by.key_splits(self.table._session(self.table._with_user(None)))
        shares = tuple(pickle.dumps(splits[number::parts]) for number in range(min(parts, len(splits))))
        if not shares:
            return frame.sparkSession.createDataFrame([], schema)
        now_ms = self.table._stores.clock.now_ms()
        numbers = frame.sparkSession.range(0, len(shares), 1, len(shares))
        return numbers.mapInArrow(partial(self._read_keys, tasks, shares, now_ms), schema)

    def _read_keys(
        self, tasks: int, shares: Sequence[bytes], now_ms: int, numbers: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the keys of some splits for the assigners that get them, and the counts for all."""
        session = self.table._session(self.table._with_user(None))
        task_keys = keys_of_tasks(tasks)
        for number in (int(one) for batch in numbers for one in batch.column(0).to_pylist()):
            counts: dict[tuple[bytes, int], int] = {}
            places: list[tuple[bytes, int]] = []
            occupied = partial(_count, counts, places)
            live = self.assigned_by.live_keys(session, now_ms, pickle.loads(shares[number]))
            for prints, place in live(_nothing, occupied):
                partition, bucket = places[int(np.max(place))]
                yield self._without_row({
                    _STEP: np.full(len(prints), _KEYS, np.int32),
                    _TASK: task_keys[BucketShare.numbers(prints.low, tasks)],
                    _HIGH: prints.high.view(np.int64),
                    _LOW: prints.low,
                    _PARTITION: pa.repeat(pa.scalar(partition, pa.binary()), len(prints)),
                    BUCKET_COLUMN: np.full(len(prints), bucket, np.int32),
                })  # fmt: skip
            yield from self._counts_for_all(task_keys, counts)

    def _counts_for_all(
        self, task_keys: np.ndarray[Any, Any], counts: dict[tuple[bytes, int], int]
    ) -> Iterator[pa.RecordBatch]:
        tasks = len(task_keys)
        for (partition, bucket), count in counts.items():
            yield self._without_row({
                _STEP: np.full(tasks, _COUNTS, np.int32),
                _TASK: task_keys,
                _HIGH: np.full(tasks, count, np.int64),
                _LOW: np.zeros(tasks, np.int32),
                _PARTITION: pa.repeat(pa.scalar(partition, pa.binary()), tasks),
                BUCKET_COLUMN: np.full(tasks, bucket, np.int32),
            })  # fmt: skip

    def _without_row(self, fields: _Columns) -> pa.RecordBatch:
        rows = len(fields[_STEP])
        arrow = self._columns.arrow
        nulls = pa.RecordBatch.from_arrays([pa.nulls(rows, one.type) for one in arrow], schema=arrow)
        rest = {ASSIGNED_KIND_COLUMN: np.zeros(rows, np.int8), _CONTENT: np.zeros(rows, np.int64)}
        return _with_columns(nulls, {**fields, **rest})

    def _prepare(self, tasks: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert rows to the types of the table, and add what they are shuffled and sorted by."""
        schema, columns, task_keys = self.table.schema, self._columns, keys_of_tasks(tasks)
        incoming = Incoming(schema, self.table.options)
        key_type = schema.row_type.select(schema.primary_keys)
        for batch in batches:
            rows = incoming.rows(batch)
            number = rows.batch.num_rows
            if not number:
                continue
            prints = hash_keys(rows.batch, key_type)
            codes, partitions = partition_codes(rows.batch, schema.partition_type)
            yield _with_columns(columns.convert(rows.batch), {
                _STEP: np.full(number, _ROWS, np.int32),
                _TASK: task_keys[BucketShare.numbers(prints.low, tasks)],
                _HIGH: prints.high.view(np.int64),
                _LOW: prints.low,
                _PARTITION: pa.array(partitions, pa.binary()).take(pa.array(codes)),
                BUCKET_COLUMN: np.zeros(number, np.int32),
                ASSIGNED_KIND_COLUMN: np.zeros(number, np.int8) if rows.kinds is None else rows.kinds,
                _CONTENT: hash_keys(rows.batch, schema.row_type).high.view(np.int64),
            })  # fmt: skip

    def _assign(self, tasks: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows where they belong. Counts and keys come before the rows."""
        first = next(batches, None)
        if first is None:
            return
        session = self.table._session(self.table._with_user(None))
        number = int(np.flatnonzero(keys_of_tasks(tasks) == first.column(_TASK)[0].as_py())[0])
        pieces = chain.from_iterable(map(_pieces, chain([first], batches)))
        steps = groupby(pieces, key=lambda piece: piece[0] == _ROWS)
        are_rows, group = next(steps)
        live = () if are_rows else (part for _, part in group)
        keys = self.assigned_by.new_key_assigner(session, TaskShare(number, tasks), _LiveKeysOf(live))
        try:
            keys.load()
            rows = group if are_rows else next(steps, (True, iter(())))[1]
            for _, part in rows:
                yield from self._places(keys.split(self._rows(part)))
            for shares in keys.drain():
                yield from self._places(shares)
        finally:
            keys.close()

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        row_type = self.table.schema.row_type
        columns = columns_of_table(batch, row_type)
        kinds = batch.column(ASSIGNED_KIND_COLUMN).to_numpy()
        rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(row_type))
        return Rows(rows, kinds if kinds.any() else None)

    def _places(self, shares: list[Share]) -> Iterator[pa.RecordBatch]:
        columns, partition_type = self._columns, self.table.schema.partition_type
        batches = []
        for share in shares:
            rows, number = share.rows, share.rows.batch.num_rows
            first = first_places(partition_hashes(rows.batch.slice(0, 1), partition_type))
            kinds = np.zeros(number, np.int8) if rows.kinds is None else rows.kinds
            added = {
                self.place_name: np.repeat(first + share.bucket, number),
                BUCKET_COLUMN: np.full(number, share.bucket, np.int32),
                ASSIGNED_KIND_COLUMN: kinds,
            }
            batches.append(_with_columns(columns.convert(rows.batch), added))
        if batches:
            yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


class _LiveKeysOf:
    """It is `LiveKeys` of the counts and keys that came to an assigner."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches

    def __call__(self, emptied: Emptied, occupied: Occupied) -> Iterator[tuple[KeyHashes, int | Places]]:
        for batch in self._batches:
            is_key = batch.column(_STEP)[0].as_py() == _KEYS
            high = batch.column(_HIGH).to_numpy()
            encoded = batch.column(_PARTITION).dictionary_encode()
            partitions = encoded.dictionary.to_pylist()
            codes = encoded.indices.to_numpy().astype(np.int64) << 32
            places, inverse = np.unique(codes + batch.column(BUCKET_COLUMN).to_numpy(), return_inverse=True)
            counts = np.zeros(len(places), np.int64)
            if not is_key:
                np.add.at(counts, inverse, high)
            numbers = [
                occupied(partitions[place >> 32], place & 0xFFFFFFFF, count)
                for place, count in zip(places.tolist(), counts.tolist(), strict=True)
            ]
            if is_key:
                prints = KeyHashes(high.view(np.uint64), batch.column(_LOW).to_numpy())
                yield prints, np.array(numbers, np.int32)[inverse]


def _fields() -> list[StructField]:
    """Return the columns by which rows are shuffled and sorted."""
    from pyspark.sql.types import BinaryType, ByteType, IntegerType, LongType, StructField

    return [
        StructField(_STEP, IntegerType()),
        StructField(_TASK, LongType()),
        StructField(_HIGH, LongType()),
        StructField(_LOW, IntegerType()),
        StructField(_PARTITION, BinaryType()),
        StructField(BUCKET_COLUMN, IntegerType()),
        StructField(ASSIGNED_KIND_COLUMN, ByteType()),
        StructField(_CONTENT, LongType()),
    ]


def _with_columns(batch: pa.RecordBatch, columns: _Columns) -> pa.RecordBatch:
    """Return the batch with columns behind it."""
    for name, column in columns.items():
        batch = batch.append_column(name, column if isinstance(column, pa.Array) else pa.array(column))
    return batch


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield a batch in pieces of one step each, with the step."""
    steps = batch.column(_STEP).to_numpy()
    for step in np.unique(steps).tolist():
        start, stop = np.searchsorted(steps, [step, step + 1]).tolist()
        yield step, batch.slice(start, stop - start)


def _count(
    counts: dict[tuple[bytes, int], int],
    places: list[tuple[bytes, int]],
    partition: bytes,
    bucket: int,
    keys: int,
) -> int:
    """Add keys to the count of a place; returns the number of the place in `places`."""
    place = (partition, bucket)
    counts[place] = counts.get(place, 0) + keys
    places.append(place)
    return len(places) - 1


def _nothing(partitions: Any) -> frozenset[bytes]:
    return frozenset()
