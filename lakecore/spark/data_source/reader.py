"""This module has the reader of a DataFrame: it plans once, and reads partitions on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakecore.predicate.tree import conjunction
from lakecore.read.source.scan import Scan
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.filters import predicate_of
from lakecore.spark.data_source.partitions import plan_partitions, read_parts
from lakecore.spark.data_source.request import Parallelism
from lakecore.spark.data_source.worker_memory import skip_in_collections

__all__ = ["PushingScanReader", "ScanReader"]


class ScanReader(DataSourceReader):  # type: ignore[misc] # pyspark is not seen by mypy
    """It reads a scan. It is pickled: executors get the source, without the plan, and their own parts."""

    def __init__(self, scan: Scan, columns: ColumnsForSpark, parallelism: Parallelism) -> None:
        self._scan = scan
        self._columns = columns
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        """Plan the read. Raises the errors of `Scan.plan`."""
        return [InputPartition(parts) for parts in plan_partitions(self._scan, self._parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the parts of a partition; Spark makes one without parts for an empty plan."""
        for batch in read_parts(self._scan, partition.value or ()):
            if batch.num_rows:
                yield self._columns.convert(batch)
        skip_in_collections()


class PushingScanReader(ScanReader):
    """It also takes conditions from Spark, for a DataFrame that is used in one query only.

    Spark 4.2 keeps one plan for a DataFrame or view: the conditions that one query pushed would hold for all
    others, and for all of its places in one query. That is why this is not the default.
    """

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:  # noqa: N802 - the name is Spark's
        """Take the conditions that the scan evaluates exactly; the others are returned to Spark."""
        scan = self._scan
        if scan.limit is not None:  # the limit counts the rows before the condition
            return filters
        predicates = [(one, predicate_of(one, scan.source.row_type)) for one in filters]
        pushed = tuple(predicate for _, predicate in predicates if predicate is not None)
        both = pushed if scan.where is None else (scan.where, *pushed)
        self._scan = replace(scan, where=conjunction(both))
        return [one for one, predicate in predicates if predicate is None]
