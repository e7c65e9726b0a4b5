"""The job that builds the file indexes which a table's options ask for and files lack, and reports their
coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from lakecore.clock import Clock, SystemClock
from lakecore.commit.publication_notes import publication_notes
from lakecore.compact.engine.request import RunName
from lakecore.compact.kinds.file_index.apply import COMMIT_FILES, IndexRequest, IndexRun
from lakecore.compact.kinds.file_index.plan import Coverage, IndexNeed
from lakecore.compact.pool.pool import PlanBudget
from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.compact.scope import partitions_of
from lakecore.jobs.definitions.compaction import RewriteFileIndex as Job
from lakecore.jobs.engines.engine_choice import Engines
from lakecore.jobs.engines.engine_pools import EnginePools
from lakecore.jobs.engines.forecast_choice import choose_engine, forecast_on, reason_of
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.counts import Change, Counts, counts_of
from lakecore.jobs.runner.forecast import PastRun, remember
from lakecore.jobs.runner.lake import Lake, rewrite_target, target_of
from lakecore.jobs.runner.limits import Limits
from lakecore.jobs.runner.many import report_each, reserved_memory
from lakecore.jobs.runner.metered import peak_memory
from lakecore.jobs.runner.report import JobReport, JobResult
from lakecore.maintain.forecast.plan import Forecast, Work
from lakecore.maintain.holds.place import hold_on_damage, place_hold_for
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.maintain.target import Target
from lakecore.table import Table

__all__ = ["Coverage", "Job", "Report", "run", "run_many"]

_NAME = "rewrite-file-index"


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(JobReport):
    """This is the result that a job returns."""

    engine: str
    engine_reason: str = ""
    """It says why the engine was chosen, where the job left the choice to a forecast."""
    files: int = 0
    """This is the number of data files whose description changed."""
    rows: int = 0
    """This is the number of rows that were read for new indexes."""
    bytes: int = 0
    """This is the size of the new indexes."""
    planned: int = 0
    """This is the number of files to change, at the start."""
    rows_planned: int = 0
    """This is the number of rows to read for them."""
    files_left: int = 0
    """These are the planned files that were not done, because the run was stopped or failed."""
    coverage_before: tuple[Coverage, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    """This is the coverage of the table's indexes at the end."""
    dropped: tuple[str, ...] = ()
    """These are the files that other commits removed."""
    before: Counts | None = None
    """This is what the table has; only a dry run reports it."""
    after: Counts | None = None
    """This is what the table would have; only a dry run reports it."""
    warnings: tuple[str, ...] = ()


def run(job: Job, catalog: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Build the indexes of one table; a dry run only reads.

    Raises NotFoundError, InvalidInputError, UnsupportedError before anything is touched. When units fail, the
    results of the others are committed first; then the first failure is raised.
    """
    return _run(job, catalog, executor or SerialExecutor(), clock or SystemClock()).or_raise()


def run_many(
    jobs: Iterable[Job],
    catalog: Lake,
    executor: Executor | Engines | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
) -> list[Report]:
    """Return one report per job, in order. Several tables are processed at once within `limits`; they share
    `executor`, or each gets one of the engines. A failed job does not stop the rest: its report has an
    `error`.
    """
    work, engine, clock = list(jobs), executor or SerialExecutor(), clock or SystemClock()
    limits = limits or Limits()
    if len(work) < 2:
        alone = engine.for_table() if isinstance(engine, Engines) else engine
        return report_each(
            work, lambda job: _run(job, catalog, alone, clock).report, partial(_blank, alone.name)
        )
    budget = PlanBudget(limits.plan_bytes)
    with ExitStack() as ends:
        pools = EnginePools(engine, ends)

        def one(job: Job) -> Report:
            with reserved_memory(budget, lambda: catalog.load_table(job.table, job.options)):
                return _run(job, catalog, pools.for_table(), clock).report

        blank = partial(_blank, pools.name)
        return report_each(work, one, blank, tables=limits.tables, on_stop=pools.cancel)


def _blank(engine: str, job: Job) -> Report:
    return Report(table=job.table, engine=engine, dry_run=job.dry_run)


def _run(job: Job, catalog: Lake, executor: Executor, clock: Clock) -> JobResult[Report]:
    """Run the job, and record the attempt unless it is a dry run."""
    with recorded(catalog, job.table, _NAME, clock, enabled=not job.dry_run) as end:
        result, end.forecast = _run_once(job, catalog, end.metered(executor), clock)
        end.report, end.error = result.report, result.error
        return result


def _run_once(
    job: Job, catalog: Lake, executor: Executor, clock: Clock
) -> tuple[JobResult[Report], Forecast | None]:
    report = _blank(executor.name, job)
    holds = HoldStore(catalog.file_io, catalog.warehouse, clock)
    by = job.owner
    try:
        table = catalog.load_table(job.table).with_options(job.options)
        if not job.dry_run:
            table._check_insert()
        work = _index_run(job, table, clock)
    except LakeError as err:
        if not job.dry_run:
            place_hold_for(err, holds, job.table, _NAME, by)
        return JobResult(report.failed(err), err), None
    started_ms = clock.now_ms()
    started = clock.monotonic() - executor.startup_seconds
    error: LakeError | None = None
    after: tuple[Coverage, ...] | None = None
    with publication_notes() as notes:
        try:
            if job.dry_run:
                work.plan()
            else:
                is_replaced = partial(table._stores.schemas.is_replaced, table.schema)
                on_damage = hold_on_damage(holds, job.table, _NAME, by, is_replaced=is_replaced)
                with _lease(job, catalog, clock), on_damage:
                    work.run(executor, partial(_choose, work, executor, target_of(table, catalog, clock)))
            after = work.coverage_now() if work.outcome.snapshots else work.coverage
        except LakeError as err:
            error = err
    seconds = round(max(0, clock.monotonic() - started - executor.startup_seconds), 6)
    report = replace(report, seconds=seconds, warnings=tuple(dict.fromkeys(notes)))
    report = replace(report, engine=executor.name, engine_reason=reason_of(executor))
    report_of_run = _with_run(report, work, after or ())
    report_of_run = report_of_run.failed(error)
    target = target_of(table, catalog, clock)
    if job.dry_run and report_of_run.planned:
        return JobResult(_foretold(report_of_run, target, executor), error), None
    expected = None
    if report_of_run.snapshots or report_of_run.dropped:
        amount = Work(files=report_of_run.files, rows=report_of_run.rows)
        took = {"seconds": seconds, "memory": peak_memory(), "lost": len(report_of_run.dropped)}
        past = PastRun(job=_NAME, work=amount, engine=executor.name, started_ms=started_ms, outcome=took)
        expected = remember(target, past)
    return JobResult(report_of_run, error), expected


@contextmanager
def _lease(job: Job, lake: Lake, clock: Clock) -> Iterator[None]:
    """Take the lease. Raises BusyError for a table that another chore holds."""
    if not job.lease_ms:
        yield
        return
    owner = (job.owner or f"{_NAME} {clock.fresh_id()[:8]}").replace(" ", "_")
    with (
        leased(
            lake.file_io, lake.warehouse, job.table, owner, clock, LeaseTimes(job.lease_ms, job.wait_ms)
        ) as lease,
        Heartbeat() as heartbeat,
        heartbeat.keeping(lease),
    ):
        yield


def _choose(work: IndexRun, executor: Executor, target: Target) -> None:
    """Choose the engine for what is planned, where the caller left the choice open."""
    amount = Work(files=len(work.planned), rows=_rows(work.planned))
    choose_engine(executor, target, _NAME, amount)


def _foretold(report: Report, target: Target, executor: Executor) -> Report:
    planned = Work(files=report.planned, rows=report.rows_planned)
    before = counts_of(target)
    after = Change(snapshots=1 if report.planned <= COMMIT_FILES else None).of(before)
    forecast, choice = forecast_on(executor, target, _NAME, planned)
    if choice is not None:
        report = replace(report, engine=choice.engine, engine_reason=choice.reason)
    return replace(report, forecast=forecast, before=before, after=after)


def _index_run(job: Job, table: Table, clock: Clock) -> IndexRun:
    target = rewrite_target(table, clock)
    request = IndexRequest(
        run=RunName(
            commit_user=job.commit_user or f"lakecore-index-{clock.fresh_id()}",
            identifier=job.commit_identifier,
            until_ms=job.until_ms,
            repeatable=bool(job.commit_user),
        ),
        where=partitions_of(table, job.where),
    )
    return IndexRun(target, request)


def _with_run(report: Report, work: IndexRun, after: tuple[Coverage, ...]) -> Report:
    outcome = work.outcome
    snapshots = work.landed.ids + outcome.snapshots
    return replace(
        report,
        files=outcome.files,
        rows=outcome.rows,
        bytes=outcome.bytes,
        planned=len(work.planned),
        rows_planned=_rows(work.planned),
        files_left=0 if report.dry_run else len(work.planned) - outcome.files - len(outcome.dropped),
        coverage_before=work.coverage,
        coverage=after,
        snapshot=snapshots[-1] if snapshots else None,
        snapshots=snapshots,
        dropped=outcome.dropped,
        nothing_to_do=not work.planned,
    )


def _rows(needs: Iterable[IndexNeed]) -> int:
    return sum(need.file.row_count for need in needs if need.missing)
