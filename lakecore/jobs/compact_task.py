"""One compaction job on its way to a report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from lakecore.clock import Clock
from lakecore.compact.cluster.apply import ClusterRun
from lakecore.compact.lake.pool import PlanBudget
from lakecore.compact.lake.weight import plan_bytes
from lakecore.compact.outcome import Progress
from lakecore.compact.planning import CompactTarget
from lakecore.compact.rounds import CompactRequest, CompactRun
from lakecore.compact.work import WorkPick
from lakecore.errors import InvalidInputError, LakeError
from lakecore.executor import Executor
from lakecore.jobs.compact_job import Job
from lakecore.jobs.compact_report import Report, Shape, with_run
from lakecore.jobs.lake import Lake
from lakecore.maintain.heartbeat import Heartbeat
from lakecore.row.partition_path import parse_partitions
from lakecore.row.sort_rule import OrderStrategy
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table

__all__ = ["CompactTask", "partitions_of"]

logger = logging.getLogger(__name__)

Work = CompactRun | ClusterRun


class CompactTask:
    """One job on its way to a report.

    `heartbeat` keeps the lease, of this table and maybe of others; `budget`: for plans of several at once.
    """

    def __init__(
        self,
        job: Job,
        executor: Executor,
        clock: Clock,
        on_progress: Callable[[Progress], None] | None,
        heartbeat: Heartbeat,
        budget: PlanBudget | None = None,
    ) -> None:
        self._job = job
        self._executor = executor
        self._clock = clock
        self._on_progress = on_progress
        self._heartbeat = heartbeat
        self._budget = budget
        self._user = job.commit_user or f"lakecore-compact-{clock.fresh_id()}"
        self._report = Report(
            table=job.table, strategy=job.strategy, engine=executor.name, dry_run=job.dry_run
        )

    def of(self, lake: Lake) -> tuple[Report, LakeError | None]:
        """The report, and the error that ended the job early if one did."""
        try:
            table = lake.load_table(self._job.table).with_options(self._job.options)
            where = partitions_of(table, self._job.where)
            with ExitStack() as ends:
                if self._budget is not None:
                    ends.enter_context(self._budget.holding(plan_bytes(table.read_context(), table.scanner)))
                run = self._compact_run(table, where, lake, ends)
                self._report = replace(self._report, warnings=table.warnings)
                return self._run(run, table, where)
        except LakeError as err:
            return self._report.failed(err), err

    def _run(self, run: Work, table: Table, where: ScanFilter) -> tuple[Report, LakeError | None]:
        started = self._clock.monotonic() - self._executor.startup_seconds
        planned: tuple[WorkPick, ...] = ()
        error: LakeError | None = None
        try:
            if self._job.dry_run:
                planned = run.plan().picks
            else:
                run.run(self._executor)
        except LakeError as err:
            error = err
        if run.outcome.snapshots:
            table.tag_after_commit(wrote=False)
        seconds = round(max(0, self._clock.monotonic() - started - self._executor.startup_seconds), 6)
        report = replace(self._report.failed(error), seconds=seconds)
        return self._shaped(with_run(report, run, planned), run, table, where), error

    def _compact_run(self, table: Table, where: ScanFilter, lake: Lake, ends: ExitStack) -> Work:
        """`ends` releases what the run will hold."""
        job = self._job
        if job.order_strategy is OrderStrategy.NONE and job.order_by:
            raise InvalidInputError(
                f"columns to order by ({', '.join(job.order_by)}) need order, zorder or hilbert as strategy"
            )
        target = CompactTarget(
            reading=table.read_context(),
            scanner=table.scanner,
            committer=table.committer(),
            clock=self._clock,
        )
        request = CompactRequest(
            strategy=job.strategy,
            commit_user=self._user,
            identifier=job.commit_identifier,
            where=where,
            proof=job.proof,
            until_ms=job.until_ms,
            repeatable=bool(job.commit_user),
        )

        def begin() -> None:
            from lakecore.maintain.lease import leased  # a table with nothing to do takes none

            owner = self._user.replace(" ", "_")
            held = leased(lake.file_io, lake.warehouse, job.table, owner, self._clock, job.lease_ms)
            ends.enter_context(self._heartbeat.keeping(ends.enter_context(held)))

        on_begin = begin if job.lease_ms and not job.dry_run else None
        if job.order_strategy is OrderStrategy.NONE:
            return CompactRun(target, request, self._on_progress, on_begin)
        if on_begin is not None:
            on_begin()
        return ClusterRun(target, request, (job.order_strategy, job.order_by), self._on_progress)

    def _shaped(self, report: Report, run: Work, table: Table, where: ScanFilter) -> Report:
        """With the table before and after; after an error, after is what could still be read."""
        keyed = bool(table.schema.primary_keys)
        before = after = Shape.of(run.before, keyed=keyed)
        try:
            latest = table.snapshots.latest() if run.outcome.snapshots else None
            if latest is not None:
                after = Shape.of(table.scanner.live_entries(latest, where), keyed=keyed)
        except LakeError as err:
            logger.warning("%s: its new shape could not be read: %s", table.name, err)
        return replace(report, before=before, after=after)


def partitions_of(table: Table, where: str | None) -> ScanFilter:
    """Raises InvalidInputError for text that names no partitions of the table."""
    if where is None:
        return EVERYTHING
    kind = table.schema.partition_type
    return ScanFilter(partitions=parse_partitions(where, kind, table.options.partition_default_name))
