"""This module writes a DataFrame whose rows are brought to the writers of their buckets first.

The bucket of a row is a hash of Paimon, which Spark does not know: it is computed beside the row, Spark
shuffles by it, and each task writes all rows of its buckets. Dynamic buckets are assigned between two
shuffles (`places.assignment`), and so are partitions where keys may move between them
(`places.cross_partition`). Tables without buckets need no shuffle. Rows of a key may be merged before the
shuffle (`map_merge`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lakecore.commit.request import CommitResult
from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.metadata.options import BucketMode
from lakecore.row.bucket import assign_buckets
from lakecore.spark.data_source.map_merge import BeforeShuffle
from lakecore.spark.data_source.places.arrow_tasks import Batches, map_in_arrow
from lakecore.spark.data_source.places.assignment import (
    BucketAssignment,
    columns_of_table,
    first_places,
    partition_hashes,
)
from lakecore.spark.data_source.places.cross_partition import CrossPartitionKeys, cross_partition_obstacle
from lakecore.spark.data_source.sink_request import check_columns
from lakecore.spark.data_source.write_task import write_task
from lakecore.spark.list_param import ListParam
from lakecore.spark.versions import uses_connect
from lakecore.table import Table
from lakecore.types.datatypes import RowType
from lakecore.write.assigned import AssignedBy
from lakecore.write.batch_write import BatchWrite

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame

__all__ = ["Shuffle", "write_frame"]

logger = logging.getLogger(__name__)

_PLACE = "__lakecore_place"
_PREPARED = "prepared binary"
WriteTask: TypeAlias = Callable[[Iterator[pa.RecordBatch]], bytes]
"""It writes the rows of one task and returns what it prepared."""


def write_frame(frame: DataFrame, table: Table, write: BatchWrite, parallelism: int | None) -> CommitResult:
    """Write the rows in one snapshot; see `lakecore.spark.write`. `write` is one of `writers_table`."""
    check_columns(table, frame.schema)
    rows = Shuffle(table, parallelism, write.assigned_by)
    writer = write.with_assigned_buckets() if rows.assigns else write
    return write.commit(rows.run_writers(frame, partial(write_task, writer), write.abort))


@dataclass(frozen=True)
class Shuffle:
    """It brings rows to the writers of their buckets. `table` is as the user set it: where it asks for a
    merge before the shuffle, the writers have one of `writers_table`.

    `parallelism` is the number of tasks that write. `assigned_by` is the state by which dynamic buckets are
    assigned.
    """

    table: Table
    parallelism: int | None
    assigned_by: AssignedBy

    @property
    def assigns(self) -> bool:
        """Return whether rows come to their writers with the column `BUCKET_COLUMN`."""
        mode = self.table.options.bucket_mode
        moves = mode is BucketMode.KEY_DYNAMIC and cross_partition_obstacle(self.table) is None
        return moves or mode is BucketMode.HASH_DYNAMIC

    def run_writers(
        self, frame: DataFrame, write: WriteTask, abort: Callable[[Sequence[bytes]], object]
    ) -> list[bytes]:
        """Shuffle the rows; returns what `write` prepared in each task.

        When a task fails, `abort` removes what the tasks prepared that had ended; nothing of it was committed
        then. Tasks that Spark kills leave files, which are removed as orphans. Spark Connect has no
        accumulator: there, tasks count as ended whose results came, which is in the order of the tasks.
        """
        before = BeforeShuffle.of(self.table)
        rows = self._shuffle(frame, before)
        run_tasks = _run_connected if uses_connect(frame) else _run_tasks
        ended: list[bytes] = []
        try:
            prepared = run_tasks(rows, write, ended)
        except BaseException:
            with suppress(LakeError):  # the error of the task counts; what is left is removed as orphans
                abort(ended)
            raise
        before.log_counts()
        return prepared

    def _shuffle(self, frame: DataFrame, before: BeforeShuffle) -> DataFrame:
        mode, parallelism = self.table.options.bucket_mode, self.parallelism
        if mode is BucketMode.KEY_DYNAMIC and not self.assigns:
            logger.warning(
                "table %s: one task writes all rows, for their keys may move between partitions: %s",
                self.table.name,
                cross_partition_obstacle(self.table),
            )
            return frame.repartition(1)
        if mode is BucketMode.BUCKET_UNAWARE:
            return frame if parallelism is None else frame.repartition(parallelism)
        placed = self._with_places(frame, before)
        return placed.repartition(_PLACE) if parallelism is None else placed.repartition(parallelism, _PLACE)

    def _with_places(self, frame: DataFrame, before: BeforeShuffle) -> DataFrame:
        from pyspark.sql.types import LongType, StructField

        if self.table.options.bucket_mode is BucketMode.KEY_DYNAMIC:
            return CrossPartitionKeys(self.table, self.assigned_by, _PLACE).run(frame)
        if self.assigns:
            return BucketAssignment(self.table, self.assigned_by, _PLACE).run(frame, before)
        return before.run(frame, _placer(self.table), [StructField(_PLACE, LongType())])


def _placer(table: Table) -> Batches:
    """Return a function that adds the place of each row: a number of its partition, and its bucket."""
    schema, options = table.schema, table.options
    partition = schema.partition_type
    fixed = options.bucket_mode is BucketMode.HASH_FIXED
    keys = schema.row_type.select(schema.bucket_keys) if fixed else RowType(())

    def place(batch: pa.RecordBatch) -> Any:
        number = first_places(partition_hashes(batch, partition))
        if fixed:
            batch_of_keys = pa.RecordBatch.from_arrays(columns_of_table(batch, keys), names=list(keys.names))
            number += assign_buckets(batch_of_keys, keys, options.bucket, options.bucket_function.value)
        return pa.array(number)

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield batch.append_column(_PLACE, place(batch))

    return add


def _run_tasks(rows: DataFrame, write: WriteTask, ended: list[bytes]) -> list[bytes]:
    """Run the writers; when one fails, `ended` gets what those prepared that had ended."""
    accumulator = rows.sparkSession.sparkContext.accumulator([], ListParam())
    try:
        results = map_in_arrow(rows, _task_writer(write, accumulator), _PREPARED).collect()
    except BaseException:
        ended.extend(accumulator.value)
        raise
    return [bytes(row.prepared) for row in results]


def _run_connected(rows: DataFrame, write: WriteTask, ended: list[bytes]) -> list[bytes]:
    """Run the writers by Spark Connect."""
    for row in map_in_arrow(rows, _task_writer(write, None), _PREPARED).toLocalIterator():
        ended.append(bytes(row.prepared))  # noqa: PERF401 - what came before an error counts
    return ended


def _task_writer(write: WriteTask, ended: Accumulator[list[bytes]] | None) -> Batches:
    """Return a function that writes the rows of a task, and yields what it prepared as one row. The driver
    gets it by `ended`, too, where another task fails.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (batch.drop_columns([_PLACE]) if _PLACE in batch.schema.names else batch for batch in batches)
        prepared = write(rows)
        if ended is not None:
            ended.add([prepared])
        yield pa.RecordBatch.from_pydict({"prepared": [prepared]})

    return run
