"""This module decides what the installed PySpark can do, and does in another way what an older one lacks.

Nothing else in the project compares versions of Spark. Whether a feature is there is decided by the version,
and not by looking for a name: a message has to name the version that has it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "ARROW_FRAMES",
    "CONDITIONS",
    "CONNECT",
    "DATA_SOURCES",
    "FOLLOW_SOURCE",
    "FUTURE_JOBS",
    "OLDEST",
    "SOURCE_REPORTS",
    "STREAM_LIMITS",
    "STREAM_SINK",
    "TIME_TYPE",
    "TIME_ZONES",
    "VARIANT_TYPE",
    "Feature",
    "arrow_schema_of",
    "cancel_group",
    "check_feature",
    "check_version",
    "collect_arrow",
    "default_tasks",
    "has_feature",
    "refuse_session",
    "uses_connect",
]

OLDEST = (3, 5)
_CANCEL_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Feature:
    """It is something that PySpark has since a version."""

    what: str
    since: tuple[int, int]
    remedy: str = ""
    """It says what to do without the feature; empty where lakecore does it in another way."""


DATA_SOURCES = Feature(
    "data sources in Python",
    (4, 0),
    "read with Table.scan().to_spark(spark), and write with lakecore.spark.write or write_stream",
)
STREAM_SINK = Feature(
    "streaming writers of Arrow batches", (4, 1), "write the stream with lakecore.spark.write_stream"
)
STREAM_LIMITS = Feature("limits of micro-batches for Python sources", (4, 2), "leave the option out")
FOLLOW_SOURCE = Feature(
    "sources in Python that know where a micro-batch begins",
    (4, 2),
    "run lakecore compact --follow without --checkpoint",
)
SOURCE_REPORTS = Feature(
    "reports of sources in Python",
    (4, 2),
    "use the numbers of rows that Spark's own progress has",
)
CONDITIONS = Feature(
    "conditions for Python sources", (4, 1), "leave it out, and give the condition in the option where"
)
CONNECT = Feature("client of Spark Connect that lakecore was tried with", (4, 2), "use the local engine")
TIME_TYPE = Feature("type TIME", (4, 1), "leave the column out with the option columns")
VARIANT_TYPE = Feature("type VARIANT", (4, 0), "leave the column out with the option columns")
ARROW_FRAMES = Feature("DataFrame.toArrow", (4, 0))
FUTURE_JOBS = Feature("cancelJobGroupAndFutureJobs", (4, 0))
TIME_ZONES = Feature("time zones of Arrow schemas", (4, 2))


def has_feature(feature: Feature) -> bool:
    """Return whether the installed PySpark has the feature."""
    return _version() >= feature.since


def check_feature(feature: Feature, subject: str) -> None:
    """Raise UnsupportedError, which says what `subject` is, if the installed PySpark lacks the feature."""
    if not has_feature(feature):
        raise UnsupportedError(
            f"{subject}: PySpark {_version_text()} has no {feature.what}, which came with "
            f"{_release(feature.since)}; {feature.remedy}, or install a later PySpark"
        )


def check_version() -> None:
    """Raise UnsupportedError for a PySpark that is too old for anything."""
    if _version() < OLDEST:
        raise UnsupportedError(
            f"PySpark {_version_text()} is too old; install PySpark {_release(OLDEST)} or later, "
            "or use the local engine"
        )


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark takes batches of these columns: its times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # before 4.2 the zone is always UTC
    return to_arrow_schema(schema, timezone="UTC") if has_feature(TIME_ZONES) else to_arrow_schema(schema)


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Run the query and return all its rows."""
    if has_feature(ARROW_FRAMES):
        return frame.toArrow()
    return pa.Table.from_batches(frame._collect_as_arrow(), arrow_schema_of(frame.schema))


def uses_connect(value: DataFrame | SparkSession) -> bool:
    """Return whether a session, or that of a DataFrame, is of Spark Connect, which has no SparkContext."""
    return type(value).__module__.startswith("pyspark.sql.connect.")


def refuse_session(value: DataFrame | SparkSession, subject: str, remedy: str) -> None:
    """Raise UnsupportedError, which says what `subject` is, if a session is one of Spark Connect."""
    if uses_connect(value):
        raise UnsupportedError(
            f"{subject}: its rounds run in this process, and with Spark Connect they would run on the "
            f"server; {remedy}"
        )


def default_tasks(frame: DataFrame) -> int:
    """Return the number of tasks that Spark runs at once. With Spark Connect a small query counts them."""
    session = frame.sparkSession
    if not uses_connect(frame):
        return int(session.sparkContext.defaultParallelism)
    return int(session.range(0, 1 << 16).mapInArrow(_one_row, "n int").count())


def _one_row(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"n": pa.array([0], pa.int32())})


def cancel_group(spark: SparkContext, group: str, job: threading.Thread) -> None:
    """Cancel the jobs of a group, also a job that `job` has yet to hand to the scheduler: every group is used
    once.

    Where Spark cancels only what the scheduler has, a thread cancels again until `job` ends.
    """
    if spark._jsc is None:  # it was stopped, and its jobs with it
        return
    if has_feature(FUTURE_JOBS):
        spark._jsc.sc().cancelJobGroupAndFutureJobs(group)
    else:
        threading.Thread(target=_cancel_until_end, args=(spark, group, job), daemon=True).start()


def _cancel_until_end(spark: Any, group: str, job: threading.Thread) -> None:
    while job.is_alive() and spark._jsc is not None:
        spark.cancelJobGroup(group)
        job.join(_CANCEL_AGAIN_SECONDS)


def _version() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", _version_text())
    return (int(match[1]), int(match[2])) if match else OLDEST


def _version_text() -> str:
    import pyspark

    return str(pyspark.__version__)


def _release(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
