"""This module has the writer of a streaming query that the format `lakecore` gives to Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnsupportedError
from lakecore.spark.data_source.batch_commits import (
    abort_batch,
    buckets_at_start,
    check_writable,
    commit_batch,
    write_batch_task,
)
from lakecore.table import Table

__all__ = ["StreamWriter"]


@dataclass
class _PreparedMessage(WriterCommitMessage):  # type: ignore[misc] # pyspark is not seen by mypy
    """It carries what one task prepared from its executor to the driver."""

    data: bytes


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """It writes the micro-batches of a query. It is pickled: each task has a copy, without the name of the
    commit, which the task gets from Spark.
    """

    def __init__(self, table: Table, *, overwrite: bool) -> None:
        """Check what the query asks for. `overwrite` is Spark's output mode complete.

        Raises UnsupportedError for a query that replaces rows, and for a table that cannot be written to.
        """
        if overwrite:
            raise UnsupportedError(
                f"table {table.name}: output mode complete replaces all rows with each micro-batch, and a "
                "stream does not overwrite; use output mode append, or lakecore.spark.write_stream with "
                "output mode update for a table with a primary key"
            )
        check_writable(table)
        self._table = table
        self._base = buckets_at_start(table)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. When it fails, its files are removed."""
        return _PreparedMessage(write_batch_task(self._table, self._base, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit what the tasks prepared, unless this batch was committed before."""
        commit_batch(self._table, batch_id, _data(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Remove what the tasks prepared, if the batch failed before the commit.

        Spark calls this after a failed commit, too, which has removed the files, unless its outcome is
        uncertain. All tasks have prepared something then.
        """
        prepared = _data(messages)
        if prepared and len(prepared) < len(messages):
            with suppress(LakeError):  # the error of the task counts; what is left is removed as orphans
                abort_batch(self._table, batch_id, prepared)


def _data(messages: Sequence[WriterCommitMessage | None]) -> list[bytes]:
    return [one.data for one in messages if isinstance(one, _PreparedMessage)]
