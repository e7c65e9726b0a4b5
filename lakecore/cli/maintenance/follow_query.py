"""This module runs `compact --follow --checkpoint`: a compactor that is a query of Structured Streaming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakecore.cli.engine import EngineOptions
from lakecore.cli.maintenance.following import Following, RoundReports
from lakecore.cli.session import Session
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnavailableError, UnsupportedError

if TYPE_CHECKING:
    import threading

    from pyspark.sql.streaming import StreamingQuery

    from lakecore.executor import Executor
    from lakecore.jobs.compact import Report

__all__ = ["FollowJob", "follow_as_query"]

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class FollowJob:
    """It is what a command follows: names of tables, and their compaction."""

    names: Callable[[], Sequence[str]]
    compact: Callable[[Sequence[str], Executor], Sequence[Report]]
    job: str
    """This text is another one for another job."""


def follow_as_query(
    session: Session,
    following: Following,
    engine: EngineOptions,
    job: FollowJob,
    show: Callable[[Sequence[Any]], None],
) -> None:
    """Compact the tables in a streaming query until a signal comes, or for one round.

    The first signal stops the query, whose round is ended first; a second one ends the process at once. It
    ends with exit code 1 when the last try of a table failed. Raises InvalidInputError where the engine is
    not Spark, UnsupportedError for Spark Connect and for a Spark that is too old, UnavailableError when the
    query has failed.
    """
    from lakecore.spark.connect.executor import ConnectExecutor
    from lakecore.spark.executor import SparkExecutor
    from lakecore.spark.follow_query import FollowRequest, start_following

    output = RoundReports(session, show)
    request = FollowRequest(
        lake=session.catalog,
        names=job.names,
        compact=job.compact,
        job=job.job,
        checkpoint=following.checkpoint or "",
        on_round=output.print_round,
    )
    interval = f"{round(following.interval * 1000)} milliseconds"
    trigger = {"processingTime": interval} if following.rounds is None else {"availableNow": True}
    with stopped_by_signals() as stop, engine.executor(soon=True) as workers:
        if isinstance(workers, ConnectExecutor):
            raise UnsupportedError(
                "--checkpoint starts a query of Spark whose rounds run in this process, and with Spark "
                "Connect they would run on the server; leave --checkpoint out, or name another master"
            )
        if not isinstance(workers, SparkExecutor):
            raise InvalidInputError(
                "--checkpoint starts a query of Spark, and the engine is local; use --engine spark, or leave "
                "--checkpoint out"
            )
        query = start_following(workers.session(), request, trigger)
        problem = _wait(query, stop, workers)
    if problem:
        raise UnavailableError(f"the streaming query has ended with an error: {problem}")
    output.end()


def _wait(query: StreamingQuery, stop: threading.Event, workers: Executor) -> str:
    """Wait for the end of the query, and stop it when it is time; return the error that ended it.

    Raises UnavailableError when the session has ended.
    """
    try:
        while query.isActive and not stop.wait(_LOOK_SECONDS):
            pass
        query.stop()
        error = query.exception()
    except Exception:
        workers.check()  # py4j raises several types when nobody answers
        raise
    return "" if error is None else str(error).strip().split("\n", 1)[0]
