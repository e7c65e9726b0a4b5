"""This module makes each micro-batch of a streaming query one commit, once.

The commit user is made of the id of the query, which Spark keeps in the checkpoint, and the number of the
commit is that of the micro-batch. Spark runs a batch again that it does not know to be committed; the table
knows, and the batch is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark import TaskContext

from lakecore.commit.duplicates import LastCommit, last_commit_of
from lakecore.commit.request import CommitResult
from lakecore.errors import CommitUncertainError, InvalidInputError, LakeError, NotFoundError
from lakecore.jobs.concurrent_services import ConcurrentServices
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.maintain.stream_intents import StreamIntent, StreamIntents
from lakecore.spark.data_source.write_task import write_task
from lakecore.table import Table
from lakecore.write.assigned import AssignedBy, StreamBuckets
from lakecore.write.buckets.local_state import LocalState
from lakecore.write.messages import decode_commit

__all__ = [
    "abort_batch",
    "buckets_at_start",
    "check_writable",
    "commit_batch",
    "stream_user",
    "user_of",
    "write_batch_task",
]

_QUERY_ID = "sql.streaming.queryId"
"""This property of a task has the id of its query, which is in the checkpoint."""
_BATCH_ID = "streaming.sql.batchId"
"""This property of a task has the number of its micro-batch."""


def stream_user(query_id: str) -> str:
    """Return the commit user of a streaming query."""
    return f"spark-{query_id}"


def check_writable(table: Table) -> None:
    """Raise UnsupportedError for a table that a stream cannot write to."""
    table._session(table._with_user(None))


def write_batch_task(
    table: Table, base: AssignedBy, batches: Iterator[pa.RecordBatch], *, assigned: bool = False
) -> bytes:
    """Write the rows of one task of a micro-batch and return what to commit. `base` is the state of the
    buckets when the micro-batch began. `assigned`: the rows come with their buckets.
    """
    context = TaskContext.get()
    query, number = (context and context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
    if not query or number is None:
        raise InvalidInputError(
            f"table {table.name}: the task has no properties of a streaming query, which name its "
            "commit; write rows of a batch with lakecore.spark.write"
        )
    write = table.new_stream_write(stream_user(query))
    write = write.with_assigned_buckets(base) if assigned else write.with_buckets_of(base)
    return write_task(write, batches, int(number))


def buckets_at_start(table: Table, followed: StreamBuckets | None = None) -> AssignedBy:
    """Return the state of the buckets for the tasks of a micro-batch. `followed` has that of the micro-batch
    before; without it, the local disk of the driver has. It costs what `StreamBuckets.latest` says.
    """
    written = table._of_streams()
    session = written._session(written._with_user(None))
    return (followed or StreamBuckets(LocalState(session.stores.paths))).latest(session)


def commit_batch(
    table: Table, number: int, prepared: Sequence[bytes], services: ConcurrentServices | None = None
) -> CommitResult:
    """Commit a micro-batch, unless it was committed before; `services` follow it in place of the table's own.
    When it fails, the files are removed, unless the outcome is uncertain: Spark writes them again.

    What is about to be committed is stored first, so that the batch is recognised after all snapshots of the
    query have expired. Where a snapshot shows the batch, what was stored stays: it tells of the try that
    was committed. Raises NotFoundError if that cannot be known any more, and once if the table was created
    again since the batch before; InvalidInputError if it was rolled back behind that batch.
    """
    if not prepared:
        return CommitResult()
    user = user_of(prepared)
    write, intents = table.new_stream_write(user), _intents(table)
    if services is not None:
        write = write.with_services(services.after)
    last = last_commit_of(table._stores.snapshots, user)
    if last.snapshot is not None and last.snapshot.commit_identifier >= number:
        return write.commit(number, prepared)
    intent = intents.find(table.name, user)
    if intent is not None and intent.number <= number and _is_of_other_table(table, intent):
        with suppress(LakeError):
            write.abort(prepared, number)
        intents.remove(table.name, user, intent.prepared)
        raise NotFoundError(
            f"{table.name}: the table was dropped and created again after micro-batch {intent.number} of "
            f"this query was prepared, so micro-batch {number} is not committed; start the query again to "
            "write it, and what follows, to the new table, or with a new checkpoint to write all rows of "
            "its source"
        )
    if intent is not None and _is_rolled_back(table, intent, number, last):
        with suppress(LakeError):
            write.abort(prepared, number)
        raise InvalidInputError(
            f"{table.name}: the table was rolled back behind micro-batch {intent.number} of this query, or "
            f"purged; its rows are lost, so micro-batch {number} is not committed; start the query with the "
            "checkpoint of the moment to which the table was rolled back, or with a new checkpoint to go on "
            "without them"
        )
    if intent is not None and intent.number == number and write.has_committed(number, intent.prepared):
        with suppress(LakeError):
            write.abort(prepared, number)
        return CommitResult(duplicate=True)
    intents.save(
        table.name,
        user,
        StreamIntent(number, tuple(prepared), table.schema.id, table.schema.time_millis),
    )
    try:
        return write.commit(number, prepared)
    except CommitUncertainError:
        raise
    except LakeError:
        with suppress(LakeError):
            intents.remove(table.name, user, prepared)
            write.abort(prepared, number)
        raise


def _is_rolled_back(table: Table, intent: StreamIntent, number: int, last: LastCommit) -> bool:
    """Return whether the batch of the intent, which Spark believes committed, is not in the table any more.
    `last`: the newest snapshot of the query. Snapshots expire from the oldest on, so that an older one shows
    it; so do, without one, all snapshots since the batch was prepared. A batch without files has no snapshot,
    and a table that was created again has none of the one before.
    """
    if intent.number >= number:
        return False
    commits = [commit for one in intent.prepared if (commit := decode_commit(one)).messages]
    if last.snapshot is not None:
        return bool(commits) and last.snapshot.commit_identifier < intent.number
    return any(last.looked_since <= one.prepared_after + 1 for one in commits) and _has_schema(table, intent)


def _is_of_other_table(table: Table, intent: StreamIntent) -> bool:
    """Return whether the intent was certainly stored for an earlier table of this name: its schema is not
    there. It costs a read if the table's schema has another id. A table that was dropped after it was loaded
    is not looked at: the commit refuses it.
    """
    if intent.schema_time_ms == 0:
        return False
    if intent.schema_id == table.schema.id:
        return intent.schema_time_ms != table.schema.time_millis
    try:
        return table._stores.schemas.load(intent.schema_id).time_millis != intent.schema_time_ms
    except NotFoundError:
        return table._stores.schemas.is_same(table.schema)


def _has_schema(table: Table, intent: StreamIntent) -> bool:
    """Return whether the table is certainly still the one for which the intent was stored, where
    `_is_of_other_table` says nothing else.
    """
    return intent.schema_time_ms != 0 and table._stores.schemas.is_same(table.schema)


def abort_batch(table: Table, number: int, prepared: Sequence[bytes]) -> None:
    """Remove the files that tasks prepared for a micro-batch that was not committed. Raises InvalidInputError
    where the number was committed.
    """
    if prepared:
        table.new_stream_write(user_of(prepared)).abort(prepared, number)


def _intents(table: Table) -> StreamIntents:
    lake = OneTableLake(table)
    return StreamIntents(lake.file_io, lake.warehouse)


def user_of(prepared: Sequence[bytes]) -> str:
    """Return the commit user of what tasks prepared."""
    return decode_commit(prepared[0]).user
