"""This module merges the rows of a key in the task that made them, before Spark shuffles them by bucket
(option `local-merge-buffer-size`).

What leaves a task are rows in the types of the table, one for each key in the buffer, with their kinds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.engines.choice import engine_of
from lakecore.metadata.options import BucketMode
from lakecore.metadata.row_kind import RowKind
from lakecore.read.columns.kind_texts import kind_texts
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.places.arrow_tasks import Batches, map_in_arrow
from lakecore.spark.data_source.request import Nanoseconds
from lakecore.spark.data_source.spark_types import KIND_COLUMN, spark_schema
from lakecore.table import Table
from lakecore.write.rows.event_time import WATERMARK_COLUMN, EventTime
from lakecore.write.rows.incoming import Incoming, Rows
from lakecore.write.rows.local_merge import BUFFER_SIZE, LocalMerge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation
    from pyspark.sql.types import StructField, StructType

__all__ = ["BeforeShuffle", "MapMerge", "writers_table"]

logger = logging.getLogger(__name__)

_COUNT = "rows"


@dataclass(frozen=True)
class MapMerge:
    """It merges the rows of one task of a save. The task needs the memory of the buffer, twice while it is
    emptied. Spark's partitions decide how many updates of a key one task has.
    """

    table: Table

    @classmethod
    def of(cls, table: Table) -> MapMerge | None:
        """Return the merge of a table; None where rows are shuffled as they are, with a warning if the option
        is set.
        """
        if BUFFER_SIZE.read(table.schema.options) is None:
            return None
        if table.options.bucket_mode in (BucketMode.BUCKET_UNAWARE, BucketMode.KEY_DYNAMIC):
            return None  # no shuffle by bucket: the writer warns
        if EventTime.of_table(table.schema.row_type, table.schema.options) is not None:
            logger.warning(
                "table %s: rows are not merged before the shuffle: option %s asks for the times of all rows",
                table.name,
                WATERMARK_COLUMN.key,
            )
            return None
        return cls(table) if _new_buffer(table) is not None else None

    @property
    def schema(self) -> Any:
        """Return the schema of the merged rows. Raises UnsupportedError for a column that Spark lacks."""
        kinds = self.table.options.rowkind_field is None
        return spark_schema(self.table.schema.row_type, Nanoseconds.REFUSE, kinds=kinds)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of a task. Raises InvalidInputError naming column and row."""
        buffer = _new_buffer(self.table)
        if buffer is None:
            raise AssertionError("the driver has asked whether rows are merged")
        incoming = Incoming(self.table.schema, self.table.options)
        columns = ColumnsForSpark(self.schema, Nanoseconds.REFUSE)
        for batch in batches:
            if batch.num_rows:
                yield from (self._batch(rows, columns) for rows in buffer.add(incoming.rows(batch)))
        yield from (self._batch(rows, columns) for rows in buffer.drain())

    def _batch(self, rows: Rows, columns: ColumnsForSpark) -> pa.RecordBatch:
        batch = rows.batch
        if self.table.options.rowkind_field is None:
            inserts = pa.repeat(RowKind.INSERT.symbol, batch.num_rows)
            kinds = inserts if rows.kinds is None else kind_texts(pa.array(rows.kinds))
            batch = batch.append_column(KIND_COLUMN, kinds)
        return columns.convert(batch)


def _new_buffer(table: Table) -> LocalMerge | None:
    engine = engine_of(table.name, table.schema, table.options)
    return LocalMerge.of(table.name, table.schema, table.options, engine)


def writers_table(table: Table) -> Table:
    """Return the table for the writers behind the shuffle, which do not merge a second time where the tasks
    before it merge.
    """
    if MapMerge.of(table) is None:
        return table
    schema = table.schema
    rest = {key: value for key, value in schema.options.items() if key not in BUFFER_SIZE.keys}
    return replace(table, _stores=replace(table._stores, schema=replace(schema, options=rest)))


@dataclass(frozen=True)
class RowCounts:
    """It counts the rows before and after the merge, by observations of Spark."""

    before: Observation
    after: Observation

    @classmethod
    def new(cls) -> RowCounts:
        """Return counts for one query."""
        from pyspark.sql import Observation

        return cls(Observation(), Observation())

    @staticmethod
    def watch(frame: DataFrame, observation: Observation) -> DataFrame:
        """Return the DataFrame whose rows are counted when it runs."""
        from pyspark.sql.functions import count, lit

        return frame.observe(observation, count(lit(1)).alias(_COUNT))

    def log(self, table: str) -> None:
        """Log the counts, after the query has ended."""
        before, after = (one.get.get(_COUNT) for one in (self.before, self.after))
        logger.info("table %s: %s rows were merged into %s before the shuffle", table, before, after)


@dataclass(frozen=True)
class BeforeShuffle:
    """It is what the tasks before a shuffle do with the rows of a DataFrame."""

    table: str
    merge: MapMerge | None
    counts: RowCounts | None

    @classmethod
    def of(cls, table: Table) -> BeforeShuffle:
        """Return the steps for one query."""
        merge = MapMerge.of(table)
        return cls(table.name, merge, None if merge is None else RowCounts.new())

    def schema(self, frame: DataFrame) -> StructType:
        """Return the columns of the rows, which are those of the table if rows are merged."""
        schema: StructType = frame.schema if self.merge is None else self.merge.schema
        return schema

    def run(self, frame: DataFrame, placer: Batches, columns: list[StructField]) -> DataFrame:
        """Return the rows, merged where the table asks for it, with the columns that `placer` adds."""
        from pyspark.sql.types import StructType

        schema = StructType([*self.schema(frame).fields, *columns])
        if self.merge is None or self.counts is None:
            return map_in_arrow(frame, placer, schema)
        watched = self.counts.watch(frame, self.counts.before)
        placed = map_in_arrow(watched, _in_turn(self.merge, placer), schema)
        return self.counts.watch(placed, self.counts.after)

    def log_counts(self) -> None:
        """Log the numbers of rows, after the query has ended."""
        if self.counts is not None:
            self.counts.log(self.table)


def _in_turn(first: Batches, second: Batches) -> Batches:
    return lambda batches: second(first(batches))
