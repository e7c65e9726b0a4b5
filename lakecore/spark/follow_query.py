"""This module starts a dedicated compactor as a streaming query: each micro-batch compacts the tables that
are due.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError, UnavailableError, UnsupportedError
from lakecore.executor import Executor
from lakecore.jobs.compact.follow import CompactionFollower
from lakecore.jobs.compact.report import Report
from lakecore.jobs.runner.lake import Lake
from lakecore.spark.connect.executor import ConnectExecutor
from lakecore.spark.executor import SparkExecutor
from lakecore.spark.follow_source import FollowRead, source_class
from lakecore.spark.versions import FOLLOW_SOURCE, check_feature, refuse_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["FollowRequest", "follow_until", "start_following"]

logger = logging.getLogger(__name__)

_TRIGGER: Mapping[str, Any] = {"processingTime": "10 seconds"}
_LOOK_SECONDS = 0.5
_STOP_SECONDS = 3.0
"""Airflow kills a task 5 s after it has asked it to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """It says what a query follows, and how."""

    lake: Lake
    names: Callable[[], Sequence[str]]
    """It returns the names of the tables. It is pickled, with `lake`, to the process in which Spark plans."""
    compact: Callable[[Sequence[str], Executor], Sequence[Report]]
    job: str
    """This text is another one for another job. A query that is restarted with another job looks at all
    tables again.
    """
    checkpoint: str
    on_round: Callable[[tuple[Report, ...]], None] | None = None


def start_following(
    spark: SparkSession,
    request: FollowRequest,
    trigger: Mapping[str, Any],
    units: Executor | None = None,
) -> StreamingQuery:
    """Start the query; see `lakecore.spark.follow`. Its rounds run on `units`, which share the session."""
    check_feature(FOLLOW_SOURCE, "a compactor as a streaming query")
    refuse_session(spark, "a compactor as a streaming query", "run lakecore compact --follow")
    if not request.checkpoint:
        raise InvalidInputError("a compactor as a streaming query needs a checkpoint location; give one")
    place = request.checkpoint if "://" in request.checkpoint else os.path.abspath(request.checkpoint)
    read = FollowRead(request.lake, request.names, place, request.job)
    states = read.store().load(read.query, read.job)  # an error before the query starts
    executor = units or SparkExecutor()
    follower = CompactionFollower(request.lake, request.names, lambda names: request.compact(names, executor))
    follower.restore(states)
    name = f"lakecore-follow-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    spark.dataSource.register(source_class(name, read))
    frame = spark.readStream.format(name).load()
    writer = frame.writeStream.option("checkpointLocation", request.checkpoint)
    writer = writer.trigger(**(trigger or _TRIGGER))
    return writer.foreachBatch(_round_of(follower, read, request.on_round)).start()


def follow_until(
    stop: threading.Event, workers: Executor, request: FollowRequest, trigger: Mapping[str, Any]
) -> None:
    """Run the query in the session of `workers` until it ends, or `stop` is set: then the round that runs
    ends first. An exception in the thread that waits, such as that of a task that is killed, cancels the
    units of the round and stops the query.

    Raises InvalidInputError where the engine is not Spark, UnsupportedError for Spark Connect and for a Spark
    that is too old, UnavailableError when the query has failed or the session has ended.
    """
    if isinstance(workers, ConnectExecutor):
        raise UnsupportedError(
            "a checkpoint location starts a query of Spark whose rounds run in this process, and with Spark "
            "Connect they would run on the server; leave the checkpoint out, or name another master"
        )
    if not isinstance(workers, SparkExecutor):
        raise InvalidInputError(
            "a checkpoint location starts a query of Spark, and the engine is local; use engine spark "
            "(--engine spark), or leave the checkpoint out"
        )
    session, units = workers.session(), SparkExecutor()
    query = start_following(session, request, trigger, units)
    try:
        _wait_for_end(query, stop, workers)
    except BaseException:
        _stop_now(query, units)
        raise


def _wait_for_end(query: StreamingQuery, stop: threading.Event, workers: Executor) -> None:
    """Wait until the query has ended, or end it when `stop` is set."""
    try:
        while query.isActive and not stop.wait(_LOOK_SECONDS):
            pass
        query.stop()
        error = query.exception()
    except Exception:
        workers.check()  # py4j raises several types when nobody answers
        raise
    if error is not None:
        problem = str(error).strip().split("\n", 1)[0]
        raise UnavailableError(f"the streaming query has ended with an error: {problem}")


def _stop_now(query: StreamingQuery, units: Executor) -> None:
    """Cancel the units of the round, which then ends, and stop the query. It returns after some seconds at
    most, because whoever killed the task waits no longer. A session that has ended is left alone.
    """

    def end() -> None:
        try:
            units.cancel()
            query.stop()
        except Exception as err:  # noqa: BLE001 - py4j raises several types when nobody answers
            logger.debug("the query could not be stopped: %s", err)

    thread = threading.Thread(target=end, name="lakecore-stop-query", daemon=True)
    thread.start()
    thread.join(_STOP_SECONDS)


def _round_of(
    follower: CompactionFollower,
    read: FollowRead,
    on_round: Callable[[tuple[Report, ...]], None] | None,
) -> Callable[[DataFrame, int], None]:
    def run(batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        if not rows:
            return
        reports = follower.compact_due([row["table"] for row in rows], rows[0]["round"])
        try:
            read.store().save(read.query, read.job, follower.states)
        except LakeError as err:
            logger.warning("what is known of the followed tables could not be stored: %s", err)
        if on_round is not None:
            on_round(reports)

    return run
