"""Spark looks for packages called `pyspark_…` and registers the `DefaultSource` of each: here the format
`lakecore`, so that `spark.read.format("lakecore")` works wherever lakecore is installed.

Every session of Spark looks once, for any format, in a process of its own: the format is imported where it is
used.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):  # type: ignore[misc] # pyspark is not seen by mypy
    """This class is the name `lakecore` for Spark; to make an object of it makes a `LakecoreSource`."""

    def __new__(cls, options: Mapping[str, str]) -> DataSource:
        """Return the format with these options of a DataFrame."""
        from lakecore.spark.data_source.format import LakecoreSource

        return LakecoreSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lakecore"
