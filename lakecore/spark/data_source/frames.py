"""This module makes DataFrames of scans, without the format `lakecore`: the scan is planned by its caller."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.read.source.resolve_blobs import without_resolved_blobs
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.partitions import plan_partitions, read_parts
from lakecore.spark.data_source.request import INFER_MAX, NANOSECONDS, PARALLELISM, Parallelism
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.spark.versions import collect_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["partitions_in", "scan_frame"]


def scan_frame(
    spark: SparkSession, scan: Scan, nanoseconds: str = "refuse", parallelism: int | None = None
) -> DataFrame:
    """Plan the scan and return its rows; every use of the DataFrame reads this plan.

    Spark evaluates the conditions of queries after the read: give the scan those that select files. Raises
    the errors of `Scan.plan`, InvalidOptionError.
    """
    settings = {} if parallelism is None else {PARALLELISM.key: str(parallelism)}
    handling = NANOSECONDS.read({NANOSECONDS.key: nanoseconds})
    schema = spark_schema(scan.row_type, handling)
    partitions = plan_partitions(scan, Parallelism(PARALLELISM.read(settings), INFER_MAX.default))
    if not partitions:
        return spark.createDataFrame([], schema)
    tasks = tuple(pickle.dumps(parts) for parts in partitions)
    read = _task_reader(scan, ColumnsForSpark(schema, handling), tasks)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def _task_reader(
    scan: Scan, columns: ColumnsForSpark, tasks: tuple[bytes, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that reads the tasks of which it gets the numbers."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in read_parts(scan, pickle.loads(tasks[number])):
                    yield columns.convert(rows)

    return read


def partitions_in(scan: Scan, frame: DataFrame) -> Scan:
    """Return the scan of the partitions that a DataFrame has rows for, for joins on partition columns.

    The columns of the DataFrame are named as the partition columns; others are not looked at. It runs a query
    for their distinct values. Raises InvalidInputError if it has no partition column.
    """
    source = without_resolved_blobs(scan.in_partitions([]).source)
    schema = source.context.schema if isinstance(source, SnapshotRows) else None
    keys = () if schema is None else schema.partition_keys
    names = [name for name in keys if name in frame.columns]
    if not names:
        raise InvalidInputError(
            f"the DataFrame has no partition column; the partition columns are: {', '.join(keys)}"
        )
    return scan.in_partitions(collect_arrow(frame.select(*names).distinct()))
