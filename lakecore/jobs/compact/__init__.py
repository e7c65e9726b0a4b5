"""This package defines the compaction job: one table, one request, one report; or many tables at once."""

from __future__ import annotations

from collections.abc import Callable

from lakecore.clock import Clock, SystemClock
from lakecore.compact.engine.work import Strategy
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.compact.many import Callbacks, Limits, run_many
from lakecore.jobs.compact.report import Report
from lakecore.jobs.compact.task import CompactTask
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.runner.lake import Lake
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.metadata.manifest.shape import Shape
from lakecore.progress import Progress
from lakecore.row.sort_rule import OrderStrategy
from lakecore.verify.digest.shape import ProofMode

__all__ = [
    "Callbacks",
    "Job",
    "Limits",
    "OrderStrategy",
    "Progress",
    "ProofMode",
    "Report",
    "Shape",
    "Strategy",
    "run",
    "run_many",
]


def run(
    job: Job,
    catalog: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Compact one table.

    Raises NotFoundError, InvalidInputError, UnsupportedError, BusyError before anything is touched. When
    units of some picks fail, the others are committed first; then the first failure is raised.
    """
    with Heartbeat() as heartbeat:
        task = CompactTask(job, executor or SerialExecutor(), clock or SystemClock(), on_progress, heartbeat)
        return task.run(catalog).or_raise()
