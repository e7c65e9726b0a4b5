"""This package has Spark as an executor of units, its session, and tables as DataFrames. It is the only
package that imports pyspark, and it does so where it is used.

- `executor` runs units of maintenance, `session` starts a session for them, `java` finds a JVM. The driver
  plans, proves and commits; executors read and write data files.
- `data_source/` is the format `lakecore` for reads, streams and their sinks; `write` and `write_stream`
  shuffle rows by bucket first, so that one task writes a bucket. A save commits once, on the driver.
- `checkpoints/` has checkpoints of queries; `tag_checkpoint` tags the snapshot of one.
- `follow` compacts the tables to which others write, as a streaming query.
- `lookup_join` joins a DataFrame with a table that changes; `query_service` runs lookup servers as a job.
- `class_archive`, `daemon` and `stderr_capture` make a session start sooner and write less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from lakecore.commit.request import CommitResult
    from lakecore.jobs.compact.report import Report
    from lakecore.jobs.compact_database import ListedLake
    from lakecore.jobs.concurrent_services import ConcurrentServices
    from lakecore.jobs.definitions.compaction import CompactDatabase
    from lakecore.read.source.scan import Scan
    from lakecore.spark.checkpoints.tags import TaggedCheckpoint
    from lakecore.table import Commit, Table

__all__ = [
    "BucketShuffle",
    "follow",
    "lookup_join",
    "partitions_in",
    "register",
    "stream_metrics",
    "tag_checkpoint",
    "with_watermark",
    "write",
    "write_stream",
]


@dataclass(frozen=True, slots=True)
class BucketShuffle:
    """It asks a lookup join to shuffle the rows of a DataFrame by the bucket of the table that they may
    match, to so many tasks, each of which keeps its own buckets only.

    The table needs fixed buckets whose number was never changed, and the columns that decide the bucket must
    be looked up.
    """

    frame: DataFrame
    tasks: int

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise InvalidInputError(f"tasks={self.tasks}: must be at least 1")


def register(spark: SparkSession) -> None:
    """Add the format `lakecore` to a session.

    Spark finds it by itself where lakecore is installed beside pyspark; this is for other layouts, such as an
    archive that `addPyFile` shipped. Raises UnsupportedError where Spark has no data sources in Python.
    """
    from lakecore.spark.versions import DATA_SOURCES, check_feature

    check_feature(DATA_SOURCES, "the format lakecore")
    from pyspark.errors import AnalysisException

    from lakecore.spark.data_source.format import LakecoreSource

    try:
        spark.dataSource.register(LakecoreSource)
    except AnalysisException as err:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(err):  # Spark 4.0 found it by itself
            raise


def follow(
    spark: SparkSession,
    lake: ListedLake,
    job: CompactDatabase,
    checkpoint: str,
    *,
    on_round: Callable[[tuple[Report, ...]], None] | None = None,
    **trigger: Any,
) -> StreamingQuery:
    """Start a streaming query that compacts the tables of a catalog to which others write: a dedicated
    compactor, as `lakecore compact-database --follow`.

    `job` says which tables, also later ones, and how they are compacted. Each micro-batch compacts the tables
    that have changed, on the executors of the session, and `on_round` gets their reports. An error of a table
    does not end the query: the table is tried again after 2, 4, …, at most 64 rounds. A round without a
    change makes no micro-batch, and costs one check and one small read for each table.

    `checkpoint` is the checkpoint location of the query. What is known of the tables is in the warehouse
    (`.lakecore/followers`, some 60 bytes for each), so a query that is started again goes on with the tables
    that have changed meanwhile. `trigger` is what `DataStreamWriter.trigger` takes, by default
    `processingTime="10 seconds"`; `availableNow=True` compacts what is due now, and ends.
    `StreamingQuery.stop` lets the round that runs end first. Raises UnsupportedError before PySpark 4.2,
    InvalidInputError for a job of one run (`dry_run`, `until_ms`); errors of listing tables end the query.
    """
    from lakecore.jobs import compact_database as jobs
    from lakecore.spark.follow_query import FollowRequest, start_following

    rounds = jobs.without_run(job)
    request = FollowRequest(
        lake=lake,
        names=jobs.PatternNames(rounds, lake),
        compact=lambda names, executor: jobs.run_on(names, rounds, lake, executor),
        job=repr(rounds),
        checkpoint=checkpoint,
        on_round=on_round,
    )
    return start_following(spark, request, trigger)


def lookup_join(
    frame: DataFrame | BucketShuffle,
    table: Table,
    on: str | Sequence[str] | Mapping[str, str],
    columns: Sequence[str] | None = None,
    *,
    how: str = "left",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add columns of the rows of `table` that the rows of a DataFrame match, batch or streaming, without a
    shuffle unless the DataFrame comes in a BucketShuffle.

    `on` names columns, or maps columns of the DataFrame to columns of the table; `columns` are added, by
    default all. `how` is `left` or `inner`; a row that matches several rows comes several times. Each Python
    worker has a lookup table of its own, which follows the table by its options `lookup.*`, or by `options`
    (docs/lookup_join.md): two tasks may see different snapshots, and none sees one that is older than the
    refresh interval. With a full cache each worker loads these columns of all rows; with a partial cache the
    workers of an executor share the local copies of the data files that their keys need. Raises
    InvalidInputError, UnsupportedError before a task starts for columns and types; what the lookup table
    refuses fails the task.
    """
    from lakecore.spark.joined_frame import JoinRequest, join_columns, join_frame

    names = table.schema.row_type.names if columns is None else tuple(columns)
    request = JoinRequest(on=join_columns(on), columns=tuple(names), how=how, options=dict(options or {}))
    return join_frame(frame, table, request)


def partitions_in(scan: Scan, frame: DataFrame) -> Scan:
    """Return the scan of the partitions that a DataFrame has rows for, before the two are joined.

    The columns of the DataFrame are named as the partition columns. It runs a query for their values.
    """
    from lakecore.spark.data_source import frames

    return frames.partitions_in(scan, frame)


def stream_metrics(progress: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the metrics of the sources of a streaming query that are tables of lakecore, in their order.

    `progress` is `StreamingQuery.lastProgress`, one of `recentProgress`, or the progress of an event of a
    `StreamingQueryListener`; None gives no metrics. They are numbers: times in milliseconds, sizes in bytes
    (docs/spark.md). Raises UnsupportedError before PySpark 4.2, which asks no source in Python for them.
    """
    from lakecore.spark.progress import metrics_of
    from lakecore.spark.versions import SOURCE_REPORTS, check_feature

    check_feature(SOURCE_REPORTS, "metrics of streams")
    return metrics_of(progress)


def tag_checkpoint(
    spark: SparkSession,
    table: Table,
    checkpoint: str,
    name: str | None = None,
    *,
    batch: int | None = None,
    time_retained_ms: int | None = None,
) -> TaggedCheckpoint:
    """Tag the snapshot that has the rows of a checkpoint of a streaming query, so that expiry keeps it: the
    table as a query that starts again from the checkpoint continues it.

    The query writes to `table`, by `write_stream` or the format `lakecore`; it may run, or have ended.
    `checkpoint` is its checkpoint location, or better a copy that stays as it is. The tag is named `name`, by
    default `savepoint-` and the number of the micro-batch, which is `batch`, by default the last that the
    checkpoint has as committed. A micro-batch without rows has the snapshot of the one before. The tag
    expires after `time_retained_ms`, by default after the option `tag.default-time-retained` of the table.

    A second call for the same micro-batch creates nothing. Raises InvalidInputError for a location without a
    checkpoint, or without that micro-batch; NotFoundError if its snapshot has expired; AlreadyExistsError if
    a tag of this name has another snapshot. It costs two small queries of Spark, and a read of each snapshot
    that is newer.
    """
    from lakecore.spark.checkpoints.tags import TagRequest, tag_for

    request = TagRequest(checkpoint=checkpoint, name=name, batch=batch, time_retained_ms=time_retained_ms)
    return tag_for(spark, table, request)


def with_watermark(frame: DataFrame, table: Table) -> DataFrame:
    """Give a stream of `table` the watermark that a DDL statement of Flink declared for the table, or that
    its option `read.watermark` says: a column less a delay, as `DataFrame.withWatermark` takes them. A column
    without a time zone is cast to Spark's TIMESTAMP, which alone can be an event time.

    Raises InvalidInputError for a table without one, UnsupportedError for an expression of another form.
    """
    from lakecore.metadata.option_rules.event_times import EventTimeRule

    rule = EventTimeRule.of_reads(table.schema.row_type, table.schema.options)
    if rule is None:
        raise InvalidInputError(
            f"table {table.name}: it declares no watermark; call DataFrame.withWatermark with a column and a "
            "delay"
        )
    if frame.schema[rule.column].dataType.typeName() == "timestamp_ntz":
        frame = frame.withColumn(rule.column, frame[rule.column].cast("timestamp"))
    return frame.withWatermark(rule.column, f"{rule.delay_ms} milliseconds")


def write(
    frame: DataFrame,
    table: Table,
    *,
    overwrite: bool = False,
    partitions: str | None = None,
    parallelism: int | None = None,
    commit: Commit | None = None,
) -> CommitResult:
    """Write the rows of a DataFrame in one snapshot, after a shuffle that brings the rows of a bucket to one
    task.

    `overwrite` replaces `partitions` (`dt=a,hh=b;dt=c`), or what the options of the table say. `parallelism`
    is the number of tasks that write. Rows of one key that the DataFrame has twice come in any order: give
    the table a sequence field where it matters. With the option `local-merge-buffer-size`, the tasks before
    the shuffle merge rows of a key, where that changes no result (docs/spark.md). When a task fails,
    the files of those that have ended are removed; files of tasks that Spark kills stay until orphans are
    removed. Raises the errors of `BatchWrite.commit`, and what Spark raises for
    a task that failed.
    """
    from lakecore.spark.data_source.map_merge import writers_table
    from lakecore.spark.data_source.shuffle import write_frame

    batch_write = writers_table(table).new_batch_write(
        overwrite=overwrite, partitions=partitions, commit=commit
    )
    return write_frame(frame, table, batch_write.with_buckets_at_start(), parallelism)


def write_stream(
    frame: DataFrame,
    table: Table | ConcurrentServices,
    checkpoint: str,
    *,
    output_mode: str = "append",
    parallelism: int | None = None,
    watermark: str | None = None,
    **trigger: Any,
) -> StreamingQuery:
    """Start a streaming query that writes each micro-batch in one commit, exactly once, after a shuffle that
    brings the rows of a bucket to one task.

    `checkpoint` is the checkpoint location of the query; its query id is the commit user. `output_mode` is
    `append`, or `update` for tables with a primary key and merge engine deduplicate. `watermark` (`ts - 5 s`)
    is as for `Table.new_stream_write`. `trigger` is what `DataStreamWriter.trigger` takes:
    `availableNow=True` or `processingTime="10 seconds"`. With `ConcurrentServices(table)` in place of the
    table, its compaction runs on the driver while the next micro-batches are written, and ends with the
    query. Raises UnsupportedError, InvalidInputError before the query starts; later errors end the query.
    """
    from lakecore.jobs.concurrent_services import ConcurrentServices
    from lakecore.spark.data_source.stream_shuffle import StreamTarget, start_stream
    from lakecore.write.rows.event_time import WATERMARK_COLUMN

    services = table if isinstance(table, ConcurrentServices) else None
    opened = table.table if isinstance(table, ConcurrentServices) else table
    target = StreamTarget(
        table=opened if watermark is None else opened.with_options({WATERMARK_COLUMN.key: watermark}),
        checkpoint=checkpoint,
        output_mode=output_mode,
        parallelism=parallelism,
        services=services,
    )
    return start_stream(frame, target, trigger)
