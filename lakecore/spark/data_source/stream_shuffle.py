"""This module starts streaming queries whose rows are brought to the writers of their buckets first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.jobs.concurrent_services import ConcurrentServices
from lakecore.metadata.options import MergeEngine
from lakecore.spark.data_source.batch_commits import (
    abort_batch,
    buckets_at_start,
    check_writable,
    commit_batch,
    write_batch_task,
)
from lakecore.spark.data_source.map_merge import writers_table
from lakecore.spark.data_source.shuffle import Shuffle
from lakecore.spark.data_source.sink_request import check_columns
from lakecore.spark.versions import refuse_session
from lakecore.table import Table
from lakecore.write.assigned import StreamBuckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["StreamTarget", "start_stream"]

_APPEND, _UPDATE = "append", "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTarget:
    """It says where and how a query writes; see `lakecore.spark.write_stream`."""

    table: Table
    checkpoint: str
    output_mode: str
    parallelism: int | None
    services: ConcurrentServices | None
    """They follow the commits in place of those of the table."""


def start_stream(frame: DataFrame, target: StreamTarget, trigger: Mapping[str, Any]) -> StreamingQuery:
    """Start the query; see `lakecore.spark.write_stream`."""
    table, checkpoint = target.table, target.checkpoint
    if not frame.isStreaming:
        raise InvalidInputError("the DataFrame is no stream; use lakecore.spark.write for it")
    if not checkpoint:
        raise InvalidInputError("a stream needs a checkpoint location, which names its commits; give one")
    refuse_session(frame, "lakecore.spark.write_stream", 'use writeStream.format("lakecore")')
    _check_mode(table, target.output_mode)
    check_writable(table)
    check_columns(table, frame.schema)
    if target.services is not None:
        target.services.check_open()
    writer = frame.writeStream.outputMode(target.output_mode).option("checkpointLocation", checkpoint)
    writer = writer.trigger(**trigger) if trigger else writer
    query = writer.foreachBatch(_batch_writer(target)).start()
    if target.services is not None:
        threading.Thread(target=_close_at_end, args=(query, target.services), daemon=True).start()
    return query


def _close_at_end(query: StreamingQuery, services: ConcurrentServices) -> None:
    """Wait for the end of the query, and end its services."""
    with suppress(Exception):  # the error of a query is for who waits for it
        query.awaitTermination()
    services.close()


def _check_mode(table: Table, mode: str) -> None:
    """Raise UnsupportedError unless the rows of the mode, added to the table, give the result of the
    query.
    """
    if mode == _APPEND:
        return
    if mode != _UPDATE:
        raise UnsupportedError(
            f"output mode {mode}: a stream does not overwrite a table; use append, or update for a table "
            "with a primary key"
        )
    if not table.schema.primary_keys or table.options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table {table.name}: output mode update gives the new value of a row again and again; it needs "
            "a primary key and merge-engine=deduplicate, under which the last one is kept"
        )


def _batch_writer(target: StreamTarget) -> Callable[[DataFrame, int], None]:
    table, buckets = target.table, StreamBuckets()

    def write(batch: DataFrame, number: int) -> None:
        base = buckets_at_start(table, buckets)
        rows = Shuffle(table, target.parallelism, base)
        task = partial(write_batch_task, writers_table(table), base, assigned=rows.assigns)
        prepared = rows.run_writers(batch, task, partial(abort_batch, table, number))
        commit_batch(table, number, prepared, target.services)

    return write
