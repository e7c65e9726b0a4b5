"""Compaction of many tables at once: each has a thread that plans, proves and commits; all share one
executor.

A table with nothing to do costs 4 ms of CPU (its schema, snapshot, manifest lists and manifests are read;
nothing is written, no lease is taken), so 10,000 of them cost 40 s. A table that is left for another time
costs one write, into the ledger of attempts. Memory: the plans that are held at once,
within `Limits.plan_bytes`, and 1 kB a report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from lakecore.clock import Clock, SystemClock
from lakecore.compact.pool.pool import PlanBudget
from lakecore.data_class import dataclass
from lakecore.errors import BusyError
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.compact.report import Report
from lakecore.jobs.compact.task import CompactTask
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.engines.engine_choice import Engines
from lakecore.jobs.engines.engine_pools import EnginePools
from lakecore.jobs.runner.attempt import record_left
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.limits import Limits
from lakecore.jobs.runner.many import SerialCallbacks, report_each
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.progress import Progress

__all__ = ["TIME_IS_OVER", "Callbacks", "Limits", "run_many"]

logger = logging.getLogger(__name__)

_NOT_COMPACTED = "it was not compacted"
_TIME_ENDED = "the time of the job ended first"
TIME_IS_OVER = f"{_NOT_COMPACTED}: {_TIME_ENDED}"
"""A report says so of a table that the end of the job's time has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """A caller receives this of compactions of many tables. Several threads call, one at a time."""

    on_tables: Callable[[int], None] | None = None
    """It is called with the number of tables, before the first."""
    on_progress: Callable[[Job, Progress], None] | None = None
    on_done: Callable[[Report], None] | None = None
    """It is called with the report of each table."""
    reason_to_stop: Callable[[], str] | None = None
    """It is called before each table. It returns why that table is left for another time, or an empty text;
    an error that it raises is that of the table.
    """


def run_many(
    jobs: Iterable[Job],
    catalog: Lake,
    executor: Executor | Engines | None = None,
    clock: Clock | None = None,
    callbacks: Callbacks | None = None,
    limits: Limits | None = None,
) -> list[Report]:
    """Return a report per job, in order. A failed job does not stop the rest: its report has an `error`. The
    tables are compacted at once, within `limits`, on one executor, or each on one of the engines. An
    interruption stops the running units and leaves no files of theirs.
    """
    work, clock = list(jobs), clock or SystemClock()
    limits, callbacks = limits or Limits(), callbacks or Callbacks()
    with ExitStack() as ends, Heartbeat() as heartbeat:
        pools = EnginePools(executor or SerialExecutor(), ends)
        budget = PlanBudget(limits.plan_bytes) if len(work) > 1 else None
        many = _Many(catalog, pools, budget, heartbeat, clock, callbacks)
        return report_each(
            work,
            many.compact,
            many.blank,
            tables=limits.tables,
            on_done=callbacks.on_done,
            on_stop=many.stop,
        )


@dataclass
class _Many:
    """The state that the threads of the tables share."""

    lake: Lake
    pools: EnginePools
    budget: PlanBudget | None
    heartbeat: Heartbeat
    clock: Clock
    callbacks: Callbacks
    stopped: bool = False
    """It tells whether no further table is started."""

    def __post_init__(self) -> None:
        self._call = SerialCallbacks()

    def stop(self) -> None:
        self.stopped = True
        self.pools.cancel()

    def blank(self, job: Job) -> Report:
        """Return the report of a table before anything is known of it."""
        return Report(table=job.table, strategy=job.strategy, engine=self.pools.name, dry_run=job.dry_run)

    def compact(self, job: Job) -> Report:
        """Compact one table, unless the job was stopped or its time is over, and return its report."""
        if self.stopped:
            return replace(self.blank(job), skipped=f"{_NOT_COMPACTED}: the job was stopped first")
        if reason := self._reason_to_leave(job):
            if not job.dry_run:
                record_left(self.lake, job.table, "compact", self.clock, reason)
            return replace(self.blank(job), skipped=f"{_NOT_COMPACTED}: {reason}")
        tell = partial(self._call, self.callbacks.on_progress, job)
        task = CompactTask(job, self.pools.for_table(), self.clock, tell, self.heartbeat, self.budget)
        result = task.run(self.lake)
        if isinstance(result.error, BusyError) and not job.wait_ms:
            return replace(result.report, error=None, error_class=None, skipped=str(result.error))
        if result.error is not None:
            logger.error("compaction of %s failed: %s", job.table, result.error)
        return result.report

    def _reason_to_leave(self, job: Job) -> str:
        """Return why the table is left for another time; the text is empty if it is not."""
        if self.callbacks.reason_to_stop is not None and (reason := self.callbacks.reason_to_stop()):
            return reason
        if job.until_ms is not None and self.clock.now_ms() >= job.until_ms:
            return _TIME_ENDED
        return ""
