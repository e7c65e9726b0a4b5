"""This module has a chore on one table: how it begins, what it works with, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Protocol

from lakecore.clock import Clock, SystemClock
from lakecore.commit.author import Author
from lakecore.commit.publication_notes import publication_notes
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError, without_secrets
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.definitions.table_job import DAY_MS, Safety
from lakecore.jobs.engines.forecast_choice import forecast_on
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.counts import Change, Counts, counts_of
from lakecore.jobs.runner.forecast import PastRun, remember
from lakecore.jobs.runner.lake import Lake, target_of
from lakecore.jobs.runner.metered import peak_memory
from lakecore.jobs.runner.report import Report
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.deletion.latest import check_latest
from lakecore.maintain.deletion.quarantine import try_purge
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.deletion.sweep import Sweeper, do_nothing
from lakecore.maintain.forecast.plan import Forecast, Work
from lakecore.maintain.holds.gate import HoldGate, refusal
from lakecore.maintain.holds.place import hold_on_damage
from lakecore.maintain.holds.plan import HoldEffect
from lakecore.maintain.holds.record import Hold
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import Lease, LeaseTimes, leased
from lakecore.maintain.partitions.in_step import list_tags
from lakecore.maintain.target import Target
from lakecore.metadata.callbacks import callback_warnings
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.paths import MAIN_BRANCH
from lakecore.table import Table

__all__ = [
    "DAY_MS",
    "Chore",
    "ChoreKind",
    "ChoreResult",
    "Lake",
    "Report",
    "Safety",
    "parameters",
    "run_on_table",
]


_CLOCK_AHEAD_MS = 10 * 60_000
"""The clock of this machine may be ahead of that of storage by so much."""


class ChoreJob(Protocol):
    """These are the fields that every maintenance job has."""

    @property
    def table(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str]: ...

    @property
    def dry_run(self) -> bool: ...

    @property
    def safety(self) -> Safety: ...


class CommittingJob(Protocol):
    """This is a job whose (`commit_user`, `commit_identifier`) names its run, so that a repeated one is
    recognised.
    """

    @property
    def commit_user(self) -> str: ...

    @property
    def commit_identifier(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ChoreKind:
    """This is a kind of chore: its name in reports, in the ledger and in holds, and how it treats a table."""

    name: str
    quarantine: bool = False
    """It tells whether removed files go to the quarantine, where the job does not say."""
    resume: bool = True
    """It tells whether it first finishes what an interrupted run left."""
    units: bool = False
    """It tells whether all of its work is units for the executor, however little there is."""
    by_age: bool = False
    """It tells whether it removes what is old by the clock of this machine."""


@dataclass(frozen=True, kw_only=True)
class Chore:
    """This is an opened table with what a chore needs to work on it."""

    table: Table
    target: Target
    kind: ChoreKind
    sweeper: Sweeper
    quarantine: bool
    """It tells whether removed files go to the quarantine."""
    report: Report
    """This is the report as far as it is known before the work."""
    holds: tuple[Hold, ...] = ()
    """These are the holds of the table when the chore began."""

    def hold_text(self) -> str:
        """Return why nothing may be removed; the text is empty when the table is not on hold."""
        return str(refusal(self.report.table, self.report.job, self.holds)) if self.holds else ""

    def manifest_work(self, snapshot: Snapshot, files: int = 0) -> Work:
        """Return as work the entries of the snapshot's manifests and the `files` that change. This reads two
        manifest lists.
        """
        manifests = self.target.manifests.data_manifests(snapshot)
        entries = sum(one.num_added_files + one.num_deleted_files for one in manifests)
        return Work(files=files, entries=entries)

    def author(self, job: CommittingJob) -> Author:
        """Return the commit identity of the job, or a fresh one when it names no user."""
        if job.commit_user:
            return Author(job.commit_user, job.commit_identifier)
        return Author(f"lakecore-{self.report.job}-{self.target.clock.fresh_id()}")

    def committed_earlier(
        self, author: Author, kind: CommitKind, target: Target | None = None
    ) -> Report | None:
        """Return the report of a run whose commit an earlier try has made; None without such a commit.
        `target` None means the chore's own.
        """
        snapshot = author.landed((target or self.target).snapshots, kind)
        if snapshot is None:
            return None
        notes = (f"an earlier attempt of this run committed snapshot {snapshot.id}",)
        return replace(self.report, snapshot=snapshot.id, notes=notes, nothing_to_do=True)

    def main(self) -> Target:
        """Return the table's main branch."""
        return self.target.at_branch(MAIN_BRANCH)


@dataclass(frozen=True, slots=True)
class ChoreResult:
    """This is what the work of a chore returns: its report, and what a forecast needs beside it."""

    report: Report
    before: Counts | None = None
    """These are the counts of the table, when the work has counted more than the manifest lists tell."""
    after: Callable[[Counts], Counts] = Change().of
    """These are the counts that the run would leave; by default nothing of the latest snapshot changes."""
    work: Work | None = None
    """This is what determines the time, where that is not the removed files: the same for a dry run as for
    a run.
    """

    @property
    def measure(self) -> Work:
        """Return what determines the time of the run."""
        return self.work or Work(files=self.report.files, bytes=self.report.bytes)


def run_on_table(
    kind: ChoreKind,
    job: ChoreJob,
    lake: Lake,
    work: Callable[[Chore], ChoreResult | Report],
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Open the table, take its lease, finish what an interrupted run left, do the work and return its report
    with the time and, for a dry run, the forecast.

    With `dry_run` nothing is written: no lease is taken, no run is finished, no hold is placed. A
    CorruptDataError or ProofError of the job puts the table on hold. Raises OnHoldError for a job that
    removes, while the table is on hold; other jobs then leave unfinished what an interrupted run was to
    remove.
    """
    clock = clock or SystemClock()
    with recorded(lake, job.table, kind.name, clock, enabled=not job.dry_run) as end:
        result, end.forecast = _run_on_table(
            kind, job, lake, work, end.metered(executor or SerialExecutor()), clock
        )
        end.report = result
        return result


def _run_on_table(
    kind: ChoreKind,
    job: ChoreJob,
    lake: Lake,
    work: Callable[[Chore], ChoreResult | Report],
    executor: Executor,
    clock: Clock,
) -> tuple[Report, Forecast | None]:
    safety, wet = job.safety, not job.dry_run
    holds = HoldStore(lake.file_io, lake.warehouse, clock)
    with hold_on_damage(holds, job.table, kind.name, safety.owner, enabled=wet):
        opened = lake.load_table(job.table, job.options)
    if wet:
        opened._check_insert()
    runs = RunStore(lake.file_io, lake.warehouse, clock)
    quarantine = kind.quarantine if safety.quarantine is None else safety.quarantine
    started = clock.monotonic()
    report = Report(table=job.table, job=kind.name, dry_run=job.dry_run, quarantined=quarantine)
    with ExitStack() as ends:
        lease = ends.enter_context(_kept_lease(kind, job, lake, clock))
        if lease is not None and lease.waited:  # its schema and options may be others by now
            opened = lake.load_table(job.table, job.options)
        target = target_of(opened, lake, clock)
        is_replaced = partial(target.stores.schemas.is_replaced, opened.schema)
        ends.enter_context(
            hold_on_damage(holds, job.table, kind.name, safety.owner, enabled=wet, is_replaced=is_replaced)
        )
        gate = HoldGate(holds, job.table, kind.name)
        on_hold = gate.holds()
        if on_hold and gate.effect is HoldEffect.REFUSED and wet:
            raise refusal(job.table, kind.name, on_hold)
        is_clock_right = lease is None or _check_clock(kind, quarantine, lease)
        alive = do_nothing if lease is None else lease.renew
        sweeper = Sweeper(target, runs, executor, gate, alive)
        if kind.resume and wet and not on_hold:
            report = replace(report, resumed=len(sweeper.resume()))
        started_ms = clock.now_ms()
        landings = ends.enter_context(publication_notes())
        chore = Chore(
            table=opened,
            target=target,
            kind=kind,
            sweeper=sweeper,
            quarantine=quarantine,
            report=report,
            holds=on_hold,
        )
        with _telling_damage(target, gate.effect, enabled=wet):
            result = work(chore)
            result = result if isinstance(result, ChoreResult) else ChoreResult(result)
            if wet:
                notes = (*result.report.notes, *list_tags(target))
                result = replace(result, report=replace(result.report, notes=notes))
            result = replace(result, report=_complete(result, chore, started, landings))
        expected = _settle(result, chore, started_ms) if wet else None
        if quarantine and wet and safety.purges and is_clock_right:
            ttl, cap = safety.quarantine_ttl_ms, safety.quarantine_cap
            try_purge(runs, job.table, grants_of(lake).may_change, ttl_ms=ttl, cap=cap)
    return result.report, expected


@contextmanager
def _kept_lease(kind: ChoreKind, job: ChoreJob, lake: Lake, clock: Clock) -> Iterator[Lease | None]:
    """Take the lease of the table and keep it; None for a dry run, and where the job wants no lease. Raises
    BusyError for a table that another chore holds.
    """
    safety = job.safety
    if not safety.lease_ms or job.dry_run:
        yield None
        return
    owner = safety.owner or f"{kind.name} {clock.fresh_id()[:8]}"
    table_lease = leased(
        lake.file_io, lake.warehouse, job.table, owner, clock, LeaseTimes(safety.lease_ms, safety.wait_ms)
    )
    with table_lease as lease, Heartbeat() as heartbeat, heartbeat.keeping(lease):
        yield lease


def _check_clock(kind: ChoreKind, quarantine: bool, lease: Lease) -> bool:
    """Return whether the ages of files can be told: whether the clock of this machine is not ahead of that
    of storage, which gives files their times. Raises InvalidInputError for a chore that removes what is old.

    It costs a stat where the chore, or its quarantine, removes by age.
    """
    if not (kind.by_age or quarantine):
        return True
    ahead_ms = lease.clock_ahead_ms()
    if ahead_ms > _CLOCK_AHEAD_MS and kind.by_age:
        raise InvalidInputError(
            f"the clock of this machine is {ahead_ms // 60_000} minutes ahead of that of storage, by which "
            f"files have their times, so {kind.name} would take young files for old ones, and removes "
            "nothing; set the wrong one of both clocks right and run again"
        )
    return ahead_ms <= _CLOCK_AHEAD_MS


def _complete(result: ChoreResult, chore: Chore, started: float, landings: Sequence[str]) -> Report:
    """Return the report with the seconds since `started`, with the notes on commits (`landings`: what
    happened to snapshots that other writers replaced), and for a dry run with its forecast.
    """
    target, sweeper = chore.target, chore.sweeper
    report = replace(result.report, seconds=round(target.clock.monotonic() - started, 3))
    if report.dry_run and sweeper.gate.effect is HoldEffect.REFUSED:
        report = replace(report, on_hold=chore.hold_text())
    if not report.nothing_to_do:
        report = replace(report, notes=report.notes + callback_warnings(target.schema.options))
    report = replace(report, notes=report.notes + tuple(dict.fromkeys(landings)))
    if not report.dry_run or report.nothing_to_do:
        return report
    measure = replace(result, report=report).measure
    units = chore.kind.units or sweeper.needs_engine(report.files)
    estimate, choice = forecast_on(sweeper.executor, target, report.job, measure, units=units)
    if choice is not None and chore.kind.units:
        report = replace(report, notes=(*report.notes, f"engine {choice.engine}: {choice.reason}"))
    before = result.before or counts_of(target)
    report = replace(report, forecast=estimate, estimated_seconds=estimate.seconds)
    return replace(report, before=before, after=result.after(before))


def _settle(result: ChoreResult, chore: Chore, started_ms: int) -> Forecast | None:
    """Add the figures of a run to the history of its job, and return what it was expected to take. When
    nothing was left to do, correct the hint instead, because an earlier attempt may have been killed between
    its commit and LATEST.
    """
    report = result.report
    if report.nothing_to_do:
        chore.target.snapshots.catch_up_latest()
    if report.nothing_to_do or report.dry_run:
        return None
    figures = {"files": report.files, "bytes": report.bytes, "spared": report.spared}
    took = {"seconds": report.seconds, "memory": peak_memory(), "snapshots": len(report.snapshots)}
    past = PastRun(
        job=report.job,
        work=result.measure,
        engine=chore.sweeper.executor.name,
        started_ms=started_ms,
        outcome=figures | took,
        run=report.run,
    )
    return remember(chore.target, past)


@contextmanager
def _telling_damage(target: Target, effect: HoldEffect, *, enabled: bool) -> Iterator[None]:
    """Check, when a file is missing that a removing chore needs, whether the latest snapshot lacks it.

    Raises CorruptDataError then, instead of NotFoundError.
    """
    try:
        yield
    except NotFoundError as err:
        if enabled and effect is HoldEffect.REFUSED:
            try:
                check_latest(target)
            except CorruptDataError as damage:
                raise damage from err
        raise


def parameters(job: Any) -> dict[str, Any]:
    """Return what the ledger records of a job; it contains no secrets."""
    return {name: without_secrets(value) for name, value in asdict(job).items() if name != "safety"}
