"""This module runs the services of a table that follow a commit, unless the table is write-only: compaction,
and the expiry of consumers, partitions, changelogs and snapshots.

There is one path for the command `write`, for `Table.new_batch_write` and `Table.new_stream_write`, and so
for the sinks of Spark. Rules of the format: a writer compacts what its table's options ask for, and expires
after its commits. Paimon's writers compact before the commit of the rows or beside it; here the rows are
committed first, and the services have ended, or have been put into a thread, when the commit returns. So
nothing has to wait for a compaction (`commit.force-compact`), and runs do not pile up before a writer. A
stream may let them run while it continues (`lakecore.jobs.concurrent_services`), and waits for them by
`num-sorted-run.stop-trigger`; for rows that a compaction makes visible `lookup-wait=false` must allow it.

Each service is the job of that name, with its proof, its lease, its holds and its forecast: what a job would
not remove, no writer removes. A service that fails leaves the commit as it is, and the report says what
failed; a table that another chore holds is left to the next commit. A process that is killed loses no
service, because each looks at the table and not at the commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.commit.request import CommitResult
from lakecore.compact.engine.full_due import of_a_writer
from lakecore.compact.engine.strategy import Strategy
from lakecore.compact.kinds.sort.plan import clusters
from lakecore.data_class import dataclass
from lakecore.errors import BusyError, LakeError
from lakecore.executor import Executor
from lakecore.jobs import compact, expire_changelogs, expire_snapshots, partitions
from lakecore.jobs.definitions.versions import ExpireConsumers
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.jobs.runner.report import JobReport, Report
from lakecore.jobs.versions import consumers
from lakecore.maintain.retention_options import (
    CONSUMER_TIME,
    END_CHECK,
    EXPIRE_MODE,
    PARTITION_CHECK,
    PARTITION_TIME,
    SNAPSHOT_MAX,
    SNAPSHOT_MIN,
    ExpireMode,
)
from lakecore.metadata.options import BucketMode
from lakecore.scan.time_travel import FULL_COMPACTION_COMMITS
from lakecore.table import Table

__all__ = ["ServiceReports", "TableServices"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceReports:
    """These are the reports of the services that ran; None and empty for those with nothing to look at."""

    compaction: compact.Report | None = None
    expiries: tuple[Report, ...] = ()
    """They are in the order of the services; an expiry in a thread has none."""

    @property
    def expiry(self) -> Report | None:
        """Return the report on snapshots."""
        return next((one for one in self.expiries if one.job == expire_snapshots.NAME), None)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what failed, in sentences for the user; the rows are committed whatever they say."""
        reports: list[tuple[str, JobReport]] = [(one.job, one) for one in self.expiries]
        if self.compaction is not None:
            reports.insert(0, ("compact", self.compaction))
        return tuple(
            f"the rows are committed, but {name} failed after it: {one.error}"
            for name, one in reports
            if one.error
        )


class TableServices:
    """They follow the commits of one writer.

    `lake` and `clock` are those of the table by default, and `executor` is this process. `on_reports` gets
    the reports of each run of `after`.
    """

    def __init__(
        self,
        table: Table,
        lake: Lake | None = None,
        clock: Clock | None = None,
        executor: Executor | None = None,
        on_reports: Callable[[ServiceReports], None] | None = None,
    ) -> None:
        self._table = table
        self._lake = lake or OneTableLake(table)
        self._clock = clock or table._stores.clock
        self._executor = executor
        self._on_reports = on_reports

    def after(self, result: CommitResult, *, ends_input: bool) -> CommitResult:
        """Run the services after a commit; returns its result with notes on those that failed. Never fails.

        `ends_input`: the commit is a batch of its own, not one of a stream. It costs what the jobs cost: with
        nothing to do a plan of the compaction and some listings.
        """
        if result.duplicate or not result.snapshot_ids:
            return result
        try:
            reports = self.run(result.snapshot_ids[0], ends_input=ends_input)
            problems = reports.problems
            if self._on_reports is not None:
                self._on_reports(reports)
        except Exception as err:  # the rows are committed: no fault of a service may hide that
            logger.exception("%s: the services after a commit failed", self._table.name)
            problems = (f"the rows are committed, but the services after it failed: {err}",)
        for problem in problems:
            logger.warning("%s: %s", self._table.name, problem)
        return replace(result, notes=(*result.notes, *problems)) if problems else result

    def run(self, snapshot_id: int, *, ends_input: bool, compacts: bool = True) -> ServiceReports:
        """Run the services that follow the commit of a snapshot. Errors are in the reports; raises
        InvalidOptionError.
        """
        if self._table.options.write_only:
            return ServiceReports()
        compaction = self._compact(ends_input=ends_input) if compacts and self._compacts() else None
        work = partial(self._expiries, snapshot_id, ends_input=ends_input)
        if EXPIRE_MODE.read(self._table.schema.options) is ExpireMode.SYNC:
            return ServiceReports(compaction, work())
        # Not a daemon: a process that ends waits for what it began to delete.
        threading.Thread(
            target=self._run_in_background, args=(work,), name=f"expire {self._table.name}"
        ).start()
        return ServiceReports(compaction)

    def _compacts(self) -> bool:
        """Return whether writers compact the table. Rule of the format: they leave the clustering of
        tables without buckets to compactions.
        """
        unaware = self._table.options.bucket_mode is BucketMode.BUCKET_UNAWARE
        return not (unaware and clusters(self._table.schema))

    def _compact(self, *, ends_input: bool) -> compact.Report:
        table = self._table
        strategy = of_a_writer(table.schema, table.options)
        if ends_input and (FULL_COMPACTION_COMMITS.read(table.schema.options) or 0) > 0:
            strategy = Strategy.FULL  # Rule of the format: the option counts commits of streams only.
        job = compact.Job(
            table=table.name,
            strategy=strategy,
            options=dict(table._overrides),
            commit_user=f"lakecore-writer-{self._clock.fresh_id()}",
        )
        failed = compact.Report(table=table.name, strategy=strategy, engine="local")
        try:
            return compact.run(job, self._lake, self._executor, self._clock)
        except LakeError as err:
            return failed.failed(err)

    def _partitions_are_due(self, snapshot_id: int, *, ends_input: bool) -> bool:
        """Return whether it is time to look at the partitions: the snapshot before was committed in another
        interval.

        Rule of the format: a writer looks once in an interval, and always with an interval of 0. Paimon's
        writers count from their start; here writers may be processes of one commit each, so that the table's
        snapshots tell.
        """
        raw = self._table.schema.options
        if PARTITION_TIME.read(raw) is None or not self._table.schema.partition_keys:
            return False
        interval = PARTITION_CHECK.read(raw)
        if interval == 0 or (ends_input and END_CHECK.read(raw)):
            return True
        before = self._table._stores.snapshots.find(snapshot_id - 1)
        return before is None or before.time_millis // interval != self._clock.now_ms() // interval

    def _expiries(self, snapshot_id: int, *, ends_input: bool) -> tuple[Report, ...]:
        """Run the jobs; an error of a look beforehand is that of the job that it was for."""
        expiries: list[Report] = []
        for name, work in self._services(snapshot_id, ends_input=ends_input):
            report = self._expire(name, work)
            if report is not None:
                expiries.append(report)
        return tuple(expiries)

    def _services(
        self, snapshot_id: int, *, ends_input: bool
    ) -> Iterator[tuple[str, Callable[[], Report | None]]]:
        """Yield the services in the order of Paimon's writers; each returns None if it has nothing to look
        at.
        """
        name, lake, clock = self._table.name, self._lake, self._clock
        options = dict(self._table._overrides)
        stores, raw = self._table._stores, self._table.schema.options

        def idle_consumers() -> Report | None:
            job = ExpireConsumers(table=name, options=options)
            return None if CONSUMER_TIME.read(raw) is None else consumers.run(job, lake, None, clock)

        def old_partitions() -> Report | None:
            job = partitions.ExpirePartitions(table=name, options=options)
            due = self._partitions_are_due(snapshot_id, ends_input=ends_input)
            return partitions.run(job, lake, None, clock) if due else None

        def old_snapshots() -> Report | None:
            few = min(SNAPSHOT_MIN.read(raw), SNAPSHOT_MAX.read(raw))
            job = expire_snapshots.Job(table=name, options=options)
            many = len(stores.snapshots.list_ids()) > few
            return expire_snapshots.run(job, lake, None, clock) if many else None

        def old_changelogs() -> Report | None:
            job = expire_changelogs.Job(table=name, options=options)
            return expire_changelogs.run(job, lake, None, clock) if stores.changelogs.list_ids() else None

        yield "expire-consumers", idle_consumers
        yield "expire-partitions", old_partitions
        yield expire_snapshots.NAME, old_snapshots
        yield "expire-changelogs", old_changelogs

    def _expire(self, name: str, work: Callable[[], Report | None]) -> Report | None:
        table = self._table.name
        report = Report(table=table, job=name)
        try:
            return work()
        except BusyError as err:
            logger.info("%s: %s is left to the next commit: %s", table, name, err)
            return replace(report, skipped=str(err))
        except LakeError as err:
            return report.failed(err)

    def _run_in_background(self, work: Callable[[], tuple[Report, ...]]) -> None:
        """Run expiry in a thread, which nobody asks for its result."""
        for problem in ServiceReports(None, work()).problems:
            logger.warning("%s: %s", self._table.name, problem)
