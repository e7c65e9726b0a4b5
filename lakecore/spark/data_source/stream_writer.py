"""This module has the writer of a streaming query: each micro-batch is one commit, made once.

The commit user is made of the id of the query, which Spark keeps in the checkpoint, and the number of the
commit is that of the micro-batch. Spark runs a batch again that it does not know to be committed; the table
knows, and the batch is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakecore.commit.request import CommitResult
from lakecore.errors import CommitUncertainError, InvalidInputError, LakeError, UnsupportedError
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.maintain.stream_intents import StreamIntents
from lakecore.table import Table
from lakecore.write.messages import decode_commit
from lakecore.write.stream_write import StreamWrite

__all__ = ["BATCH_ID", "QUERY_ID", "StreamWriter", "commit_batch", "stream_user", "write_batch_task"]

QUERY_ID = "sql.streaming.queryId"
"""This property of a task has the id of its query, which is in the checkpoint."""
BATCH_ID = "streaming.sql.batchId"
"""This property of a task has the number of its micro-batch."""


def stream_user(query_id: str) -> str:
    """Return the commit user of a streaming query."""
    return f"spark-{query_id}"


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
        table._session(table._with_user(None))
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. When it fails, its files are removed."""
        return _PreparedMessage(write_batch_task(self._table, iterator))

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
                self._table.new_stream_write(_user_of(prepared)).abort(prepared, batch_id)


def _data(messages: Sequence[WriterCommitMessage | None]) -> list[bytes]:
    return [one.data for one in messages if isinstance(one, _PreparedMessage)]


def write_batch_task(table: Table, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Write the rows of one task of a micro-batch and return what to commit."""
    context = TaskContext.get()
    query, number = (context and context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
    if not query or number is None:
        raise InvalidInputError(
            f"table {table.name}: the task has no properties of a streaming query, which name its "
            "commit; write rows of a batch with lakecore.spark.write"
        )
    write: StreamWrite = table.new_stream_write(stream_user(query))
    try:
        for batch in batches:
            if batch.num_rows:
                write.write(batch)
        return write.prepare_commit(int(number))
    except BaseException:
        write.abort()
        raise


def commit_batch(table: Table, number: int, prepared: Sequence[bytes]) -> CommitResult:
    """Commit a micro-batch, unless it was committed before. When it fails, the files are removed, unless the
    outcome is uncertain: Spark writes them again.

    What is about to be committed is stored first, so that the batch is recognised after all snapshots of the
    query have expired. Raises NotFoundError if that cannot be known any more.
    """
    if not prepared:
        return CommitResult()
    user = _user_of(prepared)
    write, intents = table.new_stream_write(user), _intents(table)
    intent = intents.find(table.name, user)
    if intent is not None and intent.number == number and write.has_committed(number, intent.prepared):
        with suppress(LakeError):
            write.abort(prepared, number)
        return CommitResult(duplicate=True)
    intents.save(table.name, user, number, prepared)
    try:
        return write.commit(number, prepared)
    except CommitUncertainError:
        raise
    except LakeError:
        with suppress(LakeError):
            intents.remove(table.name, user)
            write.abort(prepared, number)
        raise


def _intents(table: Table) -> StreamIntents:
    lake = OneTableLake(table)
    return StreamIntents(lake.file_io, lake.warehouse)


def _user_of(prepared: Sequence[bytes]) -> str:
    return decode_commit(prepared[0]).user
