"""This module brings the rows of a DataFrame to the task that has the bucket of the table which they may
match, for lookup joins.

The bucket is a hash of Paimon, which Spark does not know: it is computed beside the row, and Spark shuffles
by its number, so that task i of n has the buckets i, i + n, i + 2n and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError, UnsupportedError
from lakecore.spark.data_source.places.arrow_tasks import Batches, map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakecore.spark import BucketShuffle
    from lakecore.table import Table

__all__ = ["TaskBuckets", "cast_key", "shuffle_by_bucket"]

_TASK = "_lakecore_task"
"""This column has the number of the task of a row; it does not leave the join."""


@dataclass(frozen=True, slots=True)
class TaskBuckets:
    """It is the share of each task in the buckets of the table."""

    buckets: int
    tasks: int
    is_kept: bool
    """A lookup table keeps its buckets; otherwise it reads the files that its keys need, of any bucket."""

    @classmethod
    def of(cls, table: Table, on: Mapping[str, str], columns: Sequence[str], tasks: int) -> TaskBuckets:
        """Return the shares of tasks that look up `on` in a table."""
        from lakecore.lookup.tables.lookup_options import is_partial

        names = tuple(on.values())
        partial = is_partial(table.name, table.schema, table.options, names, (*names, *columns))
        return cls(table.options.bucket, tasks, not partial)

    def of_this_task(self) -> tuple[int, ...] | None:
        """Return the buckets that the lookup table of this task keeps; None where it reads what it needs."""
        return tuple(range(_this_task(), self.buckets, self.tasks)) if self.is_kept else None

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of this task without its number."""
        tasks = batch.column(_TASK).to_numpy()
        if (tasks != _this_task()).any():
            raise LakeError(f"Spark brought rows of task {int(tasks[0])} to task {_this_task()}")
        return batch.drop_columns([_TASK])


def shuffle_by_bucket(shuffle: BucketShuffle, table: Table, on: Mapping[str, str]) -> DataFrame:
    """Return the DataFrame with the numbers of tasks, in as many tasks. `on` maps its columns to the table's.

    Raises UnsupportedError for a table of which the buckets of keys are not known, InvalidInputError where
    the columns that decide the bucket are not among `on`.
    """
    from pyspark.sql.types import IntegerType, StructField, StructType

    from lakecore.service.remote_query import has_known_buckets

    if not has_known_buckets(table):
        raise UnsupportedError(
            f"table {table.name}: rows cannot be shuffled by its buckets, which are not a function of the "
            "keys or whose number has been changed; join the DataFrame without a BucketShuffle"
        )
    names = {theirs: mine for mine, theirs in on.items()}
    keys = table.schema.bucket_keys
    if missing := [name for name in keys if name not in names]:
        raise InvalidInputError(
            f"table {table.name}: column {missing[0]} decides the bucket, but is not looked up; add it to "
            "on, or join the DataFrame without a BucketShuffle"
        )
    frame, tasks = shuffle.frame, shuffle.tasks
    schema = StructType([*frame.schema.fields, StructField(_TASK, IntegerType(), False)])
    adder = _task_adder(table, tuple(names[name] for name in keys), tasks)
    return map_in_arrow(frame, adder, schema).repartitionById(tasks, _TASK)


def cast_key(batch: pa.RecordBatch, name: str, data_type: pa.DataType) -> pa.Array:
    """Return a column that is looked up in the type of the table's column. Raises InvalidInputError."""
    column = batch.column(name)
    try:
        return column if column.type == data_type else column.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        raise InvalidInputError(
            f"column {name!r} is {column.type}, and the column of the table is {data_type}: {err}; cast it "
            "before the join"
        ) from err


def _task_adder(table: Table, columns: tuple[str, ...], tasks: int) -> Batches:
    from lakecore.types.arrow import arrow_schema

    row_type, options = table.schema.row_type.select(table.schema.bucket_keys), table.options
    stored = arrow_schema(row_type)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakecore.row.bucket import assign_buckets

        for batch in batches:
            pairs = zip(columns, stored.types, strict=True)
            arrays = [cast_key(batch, name, kind) for name, kind in pairs]
            keys = pa.RecordBatch.from_arrays(arrays, names=stored.names)
            # A row with a null matches nothing, in whatever task.
            numbers = np.arange(batch.num_rows, dtype=np.int32)
            complete = np.logical_and.reduce(
                [one.is_valid().to_numpy(zero_copy_only=False) for one in arrays]
            )
            keys = keys.filter(pa.array(complete))
            numbers[complete] = assign_buckets(keys, row_type, options.bucket, options.bucket_function.value)
            yield batch.append_column(pa.field(_TASK, pa.int32(), False), pa.array(numbers % tasks))

    return run


def _this_task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise LakeError("rows that were shuffled by bucket are joined in tasks of Spark only")
    return int(context.partitionId())
