"""This module runs `compact --follow --checkpoint`: a compactor that is a query of Structured Streaming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakecore.cli.engine import EngineOptions
from lakecore.cli.maintenance.following import Following, RoundReports
from lakecore.cli.session import Session
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.data_class import dataclass

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.compact import Report

__all__ = ["FollowJob", "follow_as_query"]


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
    ends with exit code 1 when the last try of a table failed. Raises the errors of `follow_until`.
    """
    from lakecore.spark.follow_query import FollowRequest, follow_until

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
        follow_until(stop, workers, request, trigger)
    output.end()
