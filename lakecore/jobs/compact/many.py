"""Compaction of many tables at once: each has a thread that plans, proves and commits; all share one
executor.

A table with nothing to do costs 4 ms of CPU (its schema, snapshot, manifest lists and manifests are read;
nothing is written, no lease is taken), so 10,000 of them cost 40 s. Memory: the plans that are held at once,
within `Limits.plan_bytes`, and 1 kB a report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakecore.clock import Clock
from lakecore.compact.engine.outcome import Progress
from lakecore.compact.pool.pool import PlanBudget, TableExecutor, UnitPool
from lakecore.errors import BusyError
from lakecore.executor import Executor
from lakecore.jobs.compact.report import Report
from lakecore.jobs.compact.task import CompactTask
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.limits import Limits
from lakecore.jobs.runner.many import SerialCallbacks, for_each_table, unexpected_error_text
from lakecore.maintain.lease.heartbeat import Heartbeat

__all__ = ["Limits", "reports_of"]

logger = logging.getLogger(__name__)


def reports_of(
    jobs: Sequence[Job],
    lake: Lake,
    engine: Executor,
    clock: Clock,
    limits: Limits,
    on_progress: Callable[[Job, Progress], None] | None,
    on_done: Callable[[Report], None] | None,
) -> list[Report]:
    """Return a report per job, in order. An interruption stops the running units and leaves no files of
    theirs.
    """
    with UnitPool(engine) as pool, Heartbeat() as heartbeat:
        budget = PlanBudget(limits.plan_bytes) if len(jobs) > 1 else None
        many = _Many(lake, pool, budget, heartbeat, clock, on_progress, on_done)
        return for_each_table(jobs, many.report, limits.tables, many.stop)


@dataclass
class _Many:
    """The state that the threads of the tables share."""

    lake: Lake
    pool: UnitPool
    budget: PlanBudget | None
    heartbeat: Heartbeat
    clock: Clock
    on_progress: Callable[[Job, Progress], None] | None
    on_done: Callable[[Report], None] | None
    stopped: bool = False
    """Whether no further table is started."""

    def __post_init__(self) -> None:
        self._tell = SerialCallbacks()

    def stop(self) -> None:
        self.stopped = True
        self.pool.cancel()

    def report(self, job: Job) -> Report:
        """Compact one table and return its report."""
        report = self._tried(job)
        self._tell(self.on_done, report)
        return report

    def _tried(self, job: Job) -> Report:
        report = Report(
            table=job.table, strategy=job.strategy, engine=self.pool.engine.name, dry_run=job.dry_run
        )
        if self.stopped:
            return replace(report, skipped="it was not compacted: the job was stopped first")
        if job.until_ms is not None and self.clock.now_ms() >= job.until_ms:
            return replace(report, skipped="it was not compacted: the time of the job ended first")
        try:
            return self._compacted(job)
        except Exception as err:  # the border of one table: it must not stop the others
            logger.exception("%s", job.table)
            return replace(report.failed(err), error=unexpected_error_text(err))

    def _compacted(self, job: Job) -> Report:
        def tell(progress: Progress) -> None:
            self._tell(self.on_progress, job, progress)

        task = CompactTask(job, TableExecutor(self.pool), self.clock, tell, self.heartbeat, self.budget)
        report, error = task.of(self.lake)
        if isinstance(error, BusyError) and not job.wait_ms:
            return replace(report, error=None, error_class=None, skipped=str(error))
        if error is not None:
            logger.error("compaction of %s failed: %s", job.table, error)
        return report
