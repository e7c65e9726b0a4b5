"""This package has Spark as an executor of units, its session, and tables as DataFrames. It is the only
package that imports pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakecore.read.source.scan import Scan

__all__ = ["partitions_in", "register"]


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
