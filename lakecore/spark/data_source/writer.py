"""This module has the writer of one save: executors prepare commits, and the driver's side commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakecore.data_class import dataclass
from lakecore.spark.data_source.write_task import write_task
from lakecore.write.batch_write import BatchWrite

__all__ = ["BatchWriter"]


@dataclass
class _PreparedMessage(WriterCommitMessage):  # type: ignore[misc] # pyspark is not seen by mypy
    """It carries what one task prepared from its executor to the driver."""

    data: bytes


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """It writes a DataFrame. It is pickled: each task has a copy of the batch write."""

    def __init__(self, write: BatchWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. When it fails, its files are removed."""
        return _PreparedMessage(write_task(self._write, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit what the tasks prepared; see `BatchWrite.commit`."""
        self._write.commit([one.data for one in messages if isinstance(one, _PreparedMessage)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks prepared, if the save failed before the commit.

        Spark calls this after a failed commit, too. All tasks have prepared something then, and the commit
        has removed their files unless its outcome is uncertain: nothing is removed here.
        """
        prepared = [one.data for one in messages if isinstance(one, _PreparedMessage)]
        if len(prepared) < len(messages):
            self._write.abort(prepared)
