"""This package has Spark as an executor of units, its session, and tables as DataFrames. It is the only
package that imports pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakecore.commit.request import CommitResult
    from lakecore.read.source.scan import Scan
    from lakecore.table import Commit, Table

__all__ = ["partitions_in", "register", "write"]


def register(spark: SparkSession) -> None:
    """Add the format `lakecore` to a session.

    Spark finds it by itself where lakecore is installed beside pyspark; this is for other layouts, such as an
    archive that `addPyFile` shipped.
    """
    from lakecore.spark.data_source.format import LakecoreSource

    spark.dataSource.register(LakecoreSource)


def partitions_in(scan: Scan, frame: DataFrame) -> Scan:
    """Return the scan of the partitions that a DataFrame has rows for, before the two are joined.

    The columns of the DataFrame are named as the partition columns. It runs a query for their values.
    """
    from lakecore.spark.data_source import frames

    return frames.partitions_in(scan, frame)


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
    the table a sequence field where it matters. When a task fails, files of others stay until orphans are
    removed. Raises the errors of `BatchWrite.commit`, and what Spark raises for a task that failed.
    """
    from lakecore.spark.data_source.shuffle import write_frame

    batch_write = table.new_batch_write(overwrite=overwrite, partitions=partitions, commit=commit)
    return write_frame(frame, table, batch_write, parallelism)
