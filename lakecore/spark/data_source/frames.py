"""This module makes DataFrames of scans, without the format `lakecore`: the scan is planned by its caller.

Spark's own reader of Parquet reads the files where they have exactly the rows of the scan, and the Python
workers of lakecore read the others.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.read.source.lineage.read_versions import report_reads
from lakecore.read.source.resolve_blobs import without_resolved_blobs
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.parquet.conditions import condition_of
from lakecore.spark.data_source.parquet.files import FilePlan, parquet_files
from lakecore.spark.data_source.parquet.frame import check_file_on_hdfs, has_file_reader, parquet_frame
from lakecore.spark.data_source.partitions import Parts, plan_partitions, plan_parts, read_parts
from lakecore.spark.data_source.places.arrow_tasks import quoted
from lakecore.spark.data_source.request import (
    INFER_MAX,
    NANOSECONDS,
    PARALLELISM,
    Nanoseconds,
    Parallelism,
)
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.spark.data_source.worker_memory import skip_in_collections
from lakecore.spark.versions import collect_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["partitions_in", "scan_frame"]

logger = logging.getLogger(__name__)


class Reader(Enum):
    """This enum says who reads the files of a scan: `spark` is Spark's own reader of Parquet."""

    AUTO = "auto"
    SPARK = "spark"
    LAKECORE = "lakecore"


def scan_frame(
    spark: SparkSession,
    scan: Scan,
    nanoseconds: str = "refuse",
    parallelism: int | None = None,
    reader: str = "auto",
) -> DataFrame:
    """Plan the scan and return its rows; every use of the DataFrame reads this plan.

    Where Spark's reader and lakecore read parts of the plan, the DataFrame is the union of both. Spark
    evaluates the conditions of queries after the read: give the scan those that select files. Raises
    the errors of `Scan.plan`, InvalidOptionError, InvalidInputError for an unknown `reader`, and
    UnsupportedError if `reader` is `spark` and Spark's reader of Parquet cannot read the files.
    """
    settings = {} if parallelism is None else {PARALLELISM.key: str(parallelism)}
    requested = PARALLELISM.read(settings)
    packing = Parallelism(requested, INFER_MAX.default)
    handling = NANOSECONDS.read({NANOSECONDS.key: nanoseconds})
    choice = _reader(reader)
    schema = spark_schema(scan.row_type, handling)
    parts = plan_parts(scan)
    if not parts:
        report_reads((scan,))
        return spark.createDataFrame([], schema)
    plan = _plan_for_spark(spark, scan, parts, choice, requested)
    if plan is None:
        return _lakecore_frame(spark, scan, schema, handling, plan_partitions(scan, packing, parts))
    report_reads((scan,))
    frame = _spark_frame(spark, scan, plan, handling)
    if not plan.others:
        return frame
    tasks = plan_partitions(scan, packing, plan.others)
    return frame.unionAll(_lakecore_frame(spark, scan, schema, handling, tasks))


def _lakecore_frame(
    spark: SparkSession, scan: Scan, schema: StructType, handling: Nanoseconds, partitions: tuple[Parts, ...]
) -> DataFrame:
    if not partitions:  # the limit is 0
        return spark.createDataFrame([], schema)
    tasks = tuple(pickle.dumps(parts) for parts in partitions)
    read = _task_reader(scan, ColumnsForSpark(schema, handling), tasks)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def _spark_frame(spark: SparkSession, scan: Scan, plan: FilePlan, handling: Nanoseconds) -> DataFrame:
    frame = parquet_frame(spark, spark_schema(plan.row_type, handling), plan.paths)
    if plan.where is None:
        return frame
    frame = frame.where(condition_of(plan.where, plan.row_type))
    return frame.drop(*plan.row_type.names[len(scan.row_type.names) :])


def _reader(text: str) -> Reader:
    try:
        return Reader(text)
    except ValueError as err:
        names = ", ".join(one.value for one in Reader)
        raise InvalidInputError(f"reader={text!r}: it must be one of {names}") from err


def _plan_for_spark(
    spark: SparkSession, scan: Scan, parts: Sequence[Any], choice: Reader, parallelism: int | None
) -> FilePlan | None:
    """Return what Spark's reader reads, or None if lakecore reads the whole plan."""
    if choice is Reader.LAKECORE:
        return None
    try:
        plan = _checked_plan(spark, scan, parts, parallelism, alone=choice is Reader.SPARK)
    except UnsupportedError as err:
        if choice is Reader.SPARK:
            raise UnsupportedError(
                f"{scan.source.description} is not read by Spark's reader of Parquet: {err}; reader='auto' "
                "has lakecore read it"
            ) from err
        logger.info("%s is read by lakecore: %s", scan.source.description, err)
        return None
    if plan.others:
        count = len(plan.others)
        logger.info("%s: lakecore reads %d splits: %s", scan.source.description, count, plan.reason)
    return plan


def _checked_plan(
    spark: SparkSession, scan: Scan, parts: Sequence[Any], parallelism: int | None, *, alone: bool
) -> FilePlan:
    if parallelism is not None:
        raise UnsupportedError(
            "Spark's reader packs files as spark.sql.files.maxPartitionBytes says; leave parallelism out"
        )
    if not has_file_reader(spark):
        raise UnsupportedError("a session of Spark Connect may not see the files of this machine")
    plan = parquet_files(scan, parts, alone=alone)
    if plan.where is not None:
        condition_of(plan.where, plan.row_type)
    check_file_on_hdfs(spark, plan.paths[0])
    return plan


def _task_reader(
    scan: Scan, columns: ColumnsForSpark, tasks: tuple[bytes, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that reads the tasks of which it gets the numbers."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in read_parts(scan, pickle.loads(tasks[number])):
                    yield columns.convert(rows)
        skip_in_collections()

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
    return scan.in_partitions(collect_arrow(frame.select(*map(quoted, names)).distinct()))
