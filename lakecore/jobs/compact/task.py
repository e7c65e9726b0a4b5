"""This module runs one compaction job, from the request to the report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.compact.compaction import Compaction
from lakecore.compact.engine.full_due import announces_nothing, full_is_due
from lakecore.compact.engine.outcome import GroupFigures
from lakecore.compact.engine.request import CompactRequest, RunName
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.engine.schedule import COMMIT_PICKS
from lakecore.compact.engine.strategy import Strategy
from lakecore.compact.engine.work import PickOutline
from lakecore.compact.kinds.sort.apply import Clustering
from lakecore.compact.kinds.sort.plan import clusters
from lakecore.compact.pool.pool import PlanBudget
from lakecore.compact.pool.weight import plan_bytes
from lakecore.errors import InvalidInputError, LakeError
from lakecore.executor import Executor
from lakecore.jobs.compact import sort_marks
from lakecore.jobs.compact.report import Report, with_run
from lakecore.jobs.compact.scope import part_of
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.engines.engine_choice import ChosenExecutor
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.counts import snapshots_of
from lakecore.jobs.runner.lake import Lake, rewrite_target, target_of
from lakecore.jobs.runner.metered import peak_memory
from lakecore.jobs.runner.report import JobResult
from lakecore.maintain.forecast.plan import Forecast, Work
from lakecore.maintain.holds.place import place_hold_for
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.manifest.shape import Shape, sum_of
from lakecore.metadata.snapshot import Snapshot
from lakecore.progress import Progress
from lakecore.row.sort_rule import OrderStrategy
from lakecore.scan.filters import ScanFilter
from lakecore.table import Table

__all__ = ["CompactTask"]

logger = logging.getLogger(__name__)


class CompactTask:
    """A compaction job that is run from the request to the report.

    A `ChosenExecutor` gets its engine when the forecast of the table is known. `heartbeat` renews the lease
    of this table, and perhaps those of others. `budget` limits the plans of several tables at once.
    """

    group_files = GROUP_FILES
    """A table of more files is planned and run in groups of partitions of at most some so many."""

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

    def run(self, lake: Lake) -> JobResult[Report]:
        """Run the job, and record the attempt unless it is a dry run."""
        with recorded(lake, self._job.table, "compact", self._clock, enabled=not self._job.dry_run) as end:
            try:
                with ExitStack() as ends:
                    table, run = self._open(lake, ends)
                    started_ms = self._clock.now_ms()
                    executor = end.metered(self._executor)
                    started = self._clock.monotonic() - self._executor.startup_seconds
                    planned: tuple[PickOutline, ...] = ()
                    error: LakeError | None = None
                    try:
                        if self._job.dry_run:
                            planned = run.outline()
                        else:
                            self._choose_engine(run, executor, table, lake)
                            run.run(executor)
                    except LakeError as err:
                        error = err
                        self._hold(err, lake, table)
                    if run.outcome.snapshots:
                        table._tag_after_commit(wrote=False)
                    seconds = self._clock.monotonic() - started - self._executor.startup_seconds
                    report = replace(self._report.failed(error), seconds=round(max(0, seconds), 6))
                    report = self._with_engine(report)
                    report = self._with_shapes(with_run(report, run, planned), run, table)
                    if planned:
                        report = self._forecast(report, run, planned, table, lake)
                    elif report.snapshots or report.dropped:
                        memory = executor.peak or peak_memory()
                        end.forecast = self._remember(report, run, table, lake, started_ms, memory)
                    end.report, end.error = report, error
                    return JobResult(report, error)
            except LakeError as err:
                self._hold(err, lake)
                end.error = err
                return JobResult(self._report.failed(err), err)

    def _choose_engine(self, run: RewriteRun, units: Executor, table: Table, lake: Lake) -> None:
        """Choose the engine of `units`, where it depends on the forecast. The run goes on with this plan."""
        executor = self._executor
        if not isinstance(executor, ChosenExecutor) or not executor.needs_forecast:
            return
        planned = run.plan_first_round(units)
        if planned:
            from lakecore.jobs.engines.session_starts import SessionStarts
            from lakecore.jobs.runner.forecast import expected_seconds

            target = target_of(table, lake, self._clock)
            seconds = expected_seconds(target, run.kind.name, _work(planned), executor.local_parallelism)
            executor.choose(seconds, SessionStarts.of(target))
            logger.info("%s: engine %s: %s", table.name, executor.name, executor.reason)

    def _with_engine(self, report: Report) -> Report:
        """Return the report with the engine that was used, and why, if it was chosen."""
        executor = self._executor
        reason = executor.reason if isinstance(executor, ChosenExecutor) else ""
        return replace(report, engine=executor.name, engine_reason=reason)

    def _open(self, lake: Lake, ends: ExitStack) -> tuple[Table, RewriteRun]:
        """Open the table and build its run; `ends` releases what the run will hold."""
        table = lake.load_table(self._job.table).with_options(self._job.options)
        if not self._job.dry_run:
            table._check_insert()
        if self._budget is not None:
            ends.enter_context(self._budget.holding(plan_bytes(table._scanner)))
        where = part_of(table, self._job, self._clock.now_ms(), self.group_files)
        run = self._compact_run(table, where, lake, ends)
        self._report = replace(self._report, warnings=(*table.warnings, *self._put_off(table)))
        return table, run

    def _hold(self, error: LakeError, lake: Lake, table: Table | None = None) -> None:
        """Put the table on hold after damage, while the lease is held if one was taken. `table`: as it was
        opened, None if it could not be.
        """
        if not self._job.dry_run:
            holds = HoldStore(lake.file_io, lake.warehouse, self._clock)
            is_replaced = None if table is None else partial(table._stores.schemas.is_replaced, table.schema)
            place_hold_for(error, holds, self._job.table, "compact", self._job.owner, is_replaced)

    def _forecast(
        self, report: Report, run: RewriteRun, planned: Sequence[PickOutline], table: Table, lake: Lake
    ) -> Report:
        """Add to the report what the picks would leave and take."""
        from lakecore.jobs.engines.forecast_choice import forecast_on

        work = _work(planned)
        target = target_of(table, lake, self._clock)
        estimate, choice = forecast_on(self._executor, target, run.kind.name, work)
        if choice is not None:
            report = replace(report, engine=choice.engine, engine_reason=choice.reason)
        count = snapshots_of(target)
        assigns = any(pick.place.bucket < 0 for pick in planned)  # a commit of their own
        commits_left = (
            None if assigns else count + sum(-(-group.picks // COMMIT_PICKS) for group in run.groups)
        )
        after = replace(sum_of(group.planned for group in run.groups), snapshots=commits_left)
        return replace(report, before=replace(report.before, snapshots=count), after=after, forecast=estimate)

    def _remember(
        self, report: Report, run: RewriteRun, table: Table, lake: Lake, started_ms: int, memory: int
    ) -> Forecast:
        """Add the figures of the run to the history of the table; return what it was expected to take."""
        from lakecore.jobs.runner import forecast

        past = forecast.PastRun(
            job=run.kind.name,
            work=forecast.Work(
                files=report.files_in + report.moved, bytes=report.bytes_in, rows=report.rows_in
            ),
            engine=self._executor.name,
            started_ms=started_ms,
            outcome={
                "seconds": report.seconds,
                "memory": memory,
                "files_out": report.files_out,
                "bytes_out": report.bytes_out,
                "rows_out": report.rows_out,
                "sorted_runs": [report.before.sorted_runs, report.after.sorted_runs],
                "lost": len(report.dropped),
                "error": report.error_class,
            },
        )
        return forecast.remember(target_of(table, lake, self._clock), past)

    def _compact_run(self, table: Table, where: ScanFilter, lake: Lake, ends: ExitStack) -> RewriteRun:
        """Build the run of the table; `ends` releases what the run will hold."""
        job = self._job
        if job.order_strategy is OrderStrategy.NONE and job.order_by:
            raise InvalidInputError(
                f"columns to order by ({', '.join(job.order_by)}) need order, zorder or hilbert as strategy"
            )
        target = rewrite_target(table, self._clock)
        request = CompactRequest(
            run=RunName(
                commit_user=self._user,
                identifier=job.commit_identifier,
                until_ms=job.until_ms,
                repeatable=bool(job.commit_user),
            ),
            strategy=self._strategy(table),
            where=where,
            proof=job.proof,
            proof_seed=job.proof_seed,
            copy=job.copy,
            group_files=self.group_files,
        )

        def begin() -> None:
            from lakecore.maintain.lease.lease import (  # a table with nothing to do takes none
                LeaseTimes,
                leased,
            )

            identity = f"{self._user}:{job.commit_identifier}"  # the same for a second try
            owner = (job.owner or identity).replace(" ", "_")
            lease = leased(
                lake.file_io,
                lake.warehouse,
                job.table,
                owner,
                self._clock,
                LeaseTimes(job.lease_ms, self._wait_ms()),
            )
            ends.enter_context(self._heartbeat.keeping(ends.enter_context(lease)))

        on_begin = begin if job.lease_ms and not job.dry_run else None
        order = None if job.order_strategy is OrderStrategy.NONE else (job.order_strategy, job.order_by)
        if order is None and not clusters(table.schema):
            return RewriteRun(target, request, Compaction(target, request), self._on_progress, on_begin)
        marks = {} if order is None or job.force else sort_marks.load(lake, table.name)
        remember = partial(sort_marks.add, lake, table.name)
        clustering = Clustering(target, request, order, marks, remember)
        return RewriteRun(target, request, clustering, self._on_progress, on_begin)

    def _put_off(self, table: Table) -> tuple[str, ...]:
        """Return what the requested compaction leaves undone."""
        universal = self._job.strategy is Strategy.UNIVERSAL
        if not universal or not announces_nothing(table.schema, table.options):
            return ()
        return (
            "changelog-producer=full-compaction: only full compactions write the changelog, "
            "and few universal "
            "ones are full; use the strategy full, or set full-compaction.delta-commits",
        )

    def _strategy(self, table: Table) -> Strategy:
        """Return the strategy; a universal compaction becomes a full one when the table's options say that it
        is time.
        """
        strategy = self._job.strategy
        if strategy is not Strategy.UNIVERSAL or not full_is_due(
            table._scanner, table.schema, table.options, self.group_files
        ):
            return strategy
        logger.info("%s: a full compaction is due (full-compaction.delta-commits)", table.name)
        return Strategy.FULL

    def _wait_ms(self) -> int:
        """Return how much of the time to wait the window leaves."""
        job = self._job
        if job.until_ms is None:
            return job.wait_ms
        return max(0, min(job.wait_ms, job.until_ms - self._clock.now_ms()))

    def _with_shapes(self, report: Report, run: RewriteRun, table: Table) -> Report:
        """Add the table before and after the run to the report; after an error, `after` is what could still
        be read.
        """
        run.close()
        before = after = sum_of(group.before for group in run.groups)
        try:
            latest = table._stores.snapshots.latest() if run.outcome.snapshots else None
            if latest is not None:
                after = sum_of(self._shape_now(group, run, table, latest) for group in run.groups)
        except LakeError as err:
            logger.warning("%s: its figures after the compaction could not be read: %s", table.name, err)
        return replace(report, before=before, after=after)

    def _shape_now(self, group: GroupFigures, run: RewriteRun, table: Table, latest: Snapshot) -> Shape:
        """Return the live files of a group after the run; it is read if the run has changed it."""
        if not group.changed and len(run.groups) > 1:
            return group.before
        return Shape.of(table._scanner.live_entries(latest, group.where), keyed=run.kind.has_levels)


def _work(planned: Sequence[PickOutline]) -> Work:
    """Return what the picks read."""
    return Work(
        files=sum(pick.files for pick in planned),
        bytes=sum(pick.size for pick in planned),
        rows=sum(pick.rows for pick in planned),
    )
