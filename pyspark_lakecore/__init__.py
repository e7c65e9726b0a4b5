"""Spark looks for packages called `pyspark_…` and registers the `DefaultSource` of each: here the format
`lakecore`, so that `spark.read.format("lakecore")` works wherever lakecore is installed.
"""

from lakecore.spark.data_source.format import LakecoreSource as DefaultSource

__all__ = ["DefaultSource"]
