"""This module has Spark's own reader read Parquet files that are known to have exactly the rows of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakecore.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["check_file_on_hdfs", "has_file_reader", "parquet_frame"]

_OPTIONS = {
    "mergeSchema": "false",
    "recursiveFileLookup": "true",  # directories such as dt=1 are no columns
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",
}
_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Spark lists more paths than this in a job with a task for each path."""


def has_file_reader(spark: SparkSession) -> bool:
    """Return whether the session is one of this process, which a client of Spark Connect is not."""
    return hasattr(spark, "_jsparkSession")


def parquet_frame(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files, which all have the columns of `schema`; paths without a scheme are local.

    A file that does not exist any more is an error of Spark, at this call or when the DataFrame is used.
    """
    with _listed_by_driver(spark, len(paths)):
        return spark.read.schema(schema).options(**_OPTIONS).parquet(*map(_url, paths))


def _url(path: str) -> str:
    return path if "://" in path else f"file://{path}"


def check_file_on_hdfs(spark: SparkSession, path: str) -> None:
    """Raise UnsupportedError if the file is on HDFS and the driver of Spark cannot look it up there."""
    if "://" not in path:
        return
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
    try:
        hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).getFileStatus(hadoop)
    except Exception as err:  # py4j's, and its class says nothing about the cause
        text = str(getattr(err, "java_exception", err)).splitlines()[0]
        raise UnsupportedError(f"Spark cannot look up {path}: {text}") from err


@contextmanager
def _listed_by_driver(spark: SparkSession, count: int) -> Iterator[None]:
    """Have the driver look at the paths meanwhile. The setting is that of the session, and changes no
    rows.
    """
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(count))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, str(before))
