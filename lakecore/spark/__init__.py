"""This package has Spark as an executor of units, its session, and tables as DataFrames. It is the only
package that imports pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Add the format `lakecore` to a session.

    Spark finds it by itself where lakecore is installed beside pyspark; this is for other layouts, such as an
    archive that `addPyFile` shipped.
    """
    from lakecore.spark.data_source.format import LakecoreSource

    spark.dataSource.register(LakecoreSource)
