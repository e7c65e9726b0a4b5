"""This module tags the snapshot of a checkpoint of a streaming query, as Paimon's sink in Flink does for
savepoints.

A checkpoint and the table belong together: the tag has the rows of the micro-batches that the checkpoint
knows, so that a table that is rolled back to it, and a query that starts from a copy of the checkpoint, go on
without a row that is lost or doubled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.jobs.versions import tags
from lakecore.maintain.tags.stream_state import state_after_commit
from lakecore.maintain.target import Target
from lakecore.spark.checkpoints.location import read_checkpoint
from lakecore.spark.data_source.batch_commits import stream_user
from lakecore.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TagRequest", "TaggedCheckpoint", "tag_for"]

_PREFIX = "savepoint-"
"""Rule of the format: tags of savepoints are named by the number of the commit behind these letters."""


@dataclass(frozen=True, slots=True)
class TaggedCheckpoint:
    """This is the tag of a checkpoint."""

    tag: str
    batch: int
    """The tag has the rows up to this micro-batch."""
    snapshot: int
    """This is the id of the snapshot that is tagged."""
    created: bool
    """It is False if the tag was there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRequest:
    """It says which checkpoint is tagged, and how; see `lakecore.spark.tag_checkpoint`."""

    checkpoint: str
    name: str | None
    batch: int | None
    time_retained_ms: int | None


def tag_for(spark: SparkSession, table: Table, request: TagRequest) -> TaggedCheckpoint:
    """Create the tag; see `lakecore.spark.tag_checkpoint`."""
    checkpoint = read_checkpoint(spark, request.checkpoint)
    batch = checkpoint.last_batch() if request.batch is None else request.batch
    checkpoint.check_batch(batch)
    lake = OneTableLake(table)
    target = Target(table.name, lake.warehouse, table._stores)
    snapshot = state_after_commit(target, stream_user(checkpoint.query_id), batch)
    job = CreateTag(
        table=table.name,
        tag=request.name or f"{_PREFIX}{batch}",
        snapshot=snapshot.id,
        time_retained_ms=request.time_retained_ms,
        options=dict(table._overrides),
    )
    report = tags.run(job, lake, None, table._stores.clock)
    return TaggedCheckpoint(job.tag, batch, snapshot.id, created=not report.nothing_to_do)
