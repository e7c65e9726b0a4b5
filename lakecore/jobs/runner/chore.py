"""This module has the parts that maintenance jobs share: their report, their safety settings, and how they
begin and end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from lakecore.clock import Clock, SystemClock
from lakecore.commit.author import Author
from lakecore.commit.publication_notes import publication_notes
from lakecore.display import facts_of, html_table, one_line
from lakecore.errors import CorruptDataError, NotFoundError, without_secrets
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.definitions.table_job import DAY_MS, Safety
from lakecore.jobs.runner.counts import Change, Counts, counts_of
from lakecore.jobs.runner.forecast import forecast_of, remember
from lakecore.jobs.runner.lake import Lake, target_of
from lakecore.jobs.runner.metered import peak_memory
from lakecore.maintain.deletion.latest import check_latest
from lakecore.maintain.deletion.quarantine import purge_quietly
from lakecore.maintain.deletion.runs import Removal, RunStore
from lakecore.maintain.deletion.sweep import Sweeper, SweepResult, do_nothing
from lakecore.maintain.forecast.plan import Forecast, Work
from lakecore.maintain.holds.gate import HoldGate, refusal
from lakecore.maintain.holds.place import hold_on_damage
from lakecore.maintain.holds.plan import HoldEffect
from lakecore.maintain.holds.record import Hold
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import leased
from lakecore.maintain.target import Target
from lakecore.metadata.callbacks import callback_warnings
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.paths import MAIN_BRANCH
from lakecore.table import Table

__all__ = [
    "DAY_MS",
    "Chore",
    "Lake",
    "Report",
    "Safety",
    "begin",
    "parameters",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a maintenance job, or for `dry_run` what it would do."""

    table: str
    job: str
    dry_run: bool = False
    run: str | None = None
    """This is the run's id, for `undo`."""
    quarantined: bool = False
    """It tells whether the files were moved to the quarantine."""
    files: int = 0
    """This is the number of files that were removed or moved to the quarantine, snapshots and tags
    included.
    """
    bytes: int = 0
    """This is their size, as far as it is recorded."""
    spared: int = 0
    """This is the number of planned files that became referenced again before their removal."""
    snapshots: tuple[int, ...] = ()
    """These are the ids of the expired snapshots."""
    names: tuple[str, ...] = ()
    """These are the tags, branches, partitions, consumers or files that the report is about."""
    snapshot: int | None = None
    """This is the snapshot that the job committed or chose."""
    blocker: str = ""
    """Why the job cannot do more."""
    notes: tuple[str, ...] = ()
    """These are the notes for users, for example that another writer replaced the snapshot of the job, and
    that the job committed it again.
    """
    resumed: int = 0
    """The interrupted runs that were finished first."""
    seconds: float = 0.0
    estimated_seconds: float | None = None
    """This is the estimated time; only a dry run has it."""
    forecast: Forecast | None = None
    """What the run takes; only for a dry run."""
    before: Counts | None = None
    """This is what the table has; only a dry run reports it."""
    after: Counts | None = None
    """What the table would have; only for a dry run."""
    nothing_to_do: bool = False
    skipped: str = ""
    """Why nothing was done, where that is no error."""
    held: str = ""
    """Why nothing was removed: the table is on hold."""
    error: str | None = None
    error_class: str | None = None
    """It names the type of `error`, one of `lakecore.errors`."""

    def __repr__(self) -> str:
        """Return on one line what differs from an empty report; a collection is shown by its length."""
        return one_line("Report", self.table, facts_of(self, without=("table",)))

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Report", self.table, facts_of(self, without=("table",)))

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain values."""
        lists = {name: list(getattr(self, name)) for name in ("snapshots", "names", "notes")}
        return asdict(self) | lists | {"forecast": self.forecast and self.forecast.to_json()}

    def planned(self, removal: Removal) -> Report:
        """Return the report with the figures of what would be removed."""
        return replace(self, files=len(removal), bytes=removal.size)

    def swept(self, swept: SweepResult) -> Report:
        """Return the report with the figures of what was removed."""
        files = swept.roots + swept.files
        return replace(self, run=swept.run, files=files, bytes=swept.size, spared=len(swept.still_referenced))


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
    """A job whose (`commit_user`, `commit_identifier`) names its run, so that a repeated one is
    recognised.
    """

    @property
    def commit_user(self) -> str: ...

    @property
    def commit_identifier(self) -> int | None: ...


@dataclass
class Chore:
    """This is a running job on one table. `report` starts with what is known already.

    For dry runs a job may set `before`, when it has counted more than the manifest lists tell, and `after`,
    the counts that the run would leave. By default nothing of the latest snapshot changes.
    """

    table: Table
    target: Target
    sweeper: Sweeper
    quarantine: bool
    report: Report
    started: float
    before: Counts | None = None
    after: Callable[[Counts], Counts] = Change().of
    work: Work | None = None
    """This is the work that determines the time, where that is not the removed files: it is the same for a
    dry run as for a run.
    """
    result: Report | None = None
    holds: tuple[Hold, ...] = ()
    """This determines the time, where that is not the removed files: it is the same for a dry run as for a
    run.
    """
    landings: list[str] = field(default_factory=list)
    """These are the holds that the table had when the chore began."""

    def timed(self, report: Report) -> Report:
        """Return the report with the seconds since the beginning; a dry run also gets its forecast."""
        report = replace(report, seconds=round(self.target.clock.monotonic() - self.started, 3))
        if report.dry_run and self.sweeper.gate.effect is HoldEffect.REFUSED:
            report = replace(report, held=self.held())
        if not report.nothing_to_do:
            report = replace(report, notes=report.notes + callback_warnings(self.target.schema.options))
        report = replace(report, notes=report.notes + tuple(dict.fromkeys(self.landings)))
        if report.dry_run and not report.nothing_to_do:
            found = forecast_of(self.target, report.job, self._work(report), self.sweeper.executor.name)
            before = self.before or counts_of(self.target)
            report = replace(report, forecast=found, estimated_seconds=found.seconds)
            report = replace(report, before=before, after=self.after(before))
        self.result = report
        return report

    def held(self) -> str:
        """Return why nothing may be removed; the text is empty when the table is not on hold."""
        return str(refusal(self.report.table, self.report.job, self.holds)) if self.holds else ""

    def remember(self, started_ms: int) -> None:
        """Add the figures of the run to the history of its job."""
        report = self.result
        if report is None or report.dry_run or report.nothing_to_do:
            return
        figures = {"files": report.files, "bytes": report.bytes, "spared": report.spared}
        took = {"seconds": report.seconds, "memory": peak_memory(), "snapshots": len(report.snapshots)}
        remember(
            self.target,
            report.job,
            self._work(report),
            self.sweeper.executor.name,
            started_ms=started_ms,
            outcome=figures | took,
            run=report.run,
        )

    def estimate_manifest_work(self, snapshot: Snapshot, files: int = 0) -> None:
        """Set `work` to the entries of the snapshot's manifests and the `files` that change. This reads two
        manifest lists.
        """
        named = self.target.manifests.data_manifests(snapshot)
        self.work = Work(
            files=files, entries=sum(one.num_added_files + one.num_deleted_files for one in named)
        )

    def _work(self, report: Report) -> Work:
        return self.work or Work(files=report.files, bytes=report.bytes)

    def settle_hint(self) -> None:
        """Correct the hint when nothing was left to do, because an earlier attempt may have been killed
        between its commit and LATEST.
        """
        if self.result is not None and self.result.nothing_to_do:
            self.target.snapshots.catch_up_latest()

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
        found = author.landed((target or self.target).snapshots, kind)
        if found is None:
            return None
        notes = (f"an earlier attempt of this run committed snapshot {found.id}",)
        return replace(self.report, snapshot=found.id, notes=notes, nothing_to_do=True)

    def main(self) -> Target:
        """Return the table's main branch."""
        return self.target.at_branch(MAIN_BRANCH)


@contextmanager
def begin(
    name: str,
    job: ChoreJob,
    lake: Lake,
    *,
    quarantine: bool,
    executor: Executor | None,
    clock: Clock | None,
    resume: bool = True,
) -> Iterator[Chore]:
    """Open the table, take its lease and finish what an interrupted run left. `quarantine` is the job's
    default.

    With `dry_run` nothing is written: no lease is taken, no run is finished, no hold is placed. A
    CorruptDataError or ProofError of the job puts the table on hold. Raises OnHoldError for a job that
    removes, while the table is on hold; other jobs then leave unfinished what an interrupted run was to
    remove.
    """
    clock = clock or SystemClock()
    safety, dry_run = job.safety, job.dry_run
    holds = HoldStore(lake.file_io, lake.warehouse, clock)
    with hold_on_damage(holds, job.table, name, safety.owner, enabled=not dry_run):
        opened = lake.load_table(job.table, job.options)
    target = target_of(opened, lake, clock)
    runs = RunStore(lake.file_io, lake.warehouse, clock)
    quarantine = quarantine if safety.quarantine is None else safety.quarantine
    started = clock.monotonic()
    report = Report(table=job.table, job=name, dry_run=dry_run, quarantined=quarantine)
    with ExitStack() as ends:
        alive: Callable[[], None] = do_nothing
        if safety.lease_ms and not dry_run:
            owner = safety.owner or f"{name} {clock.fresh_id()[:8]}"
            held = leased(
                lake.file_io,
                lake.warehouse,
                job.table,
                owner,
                clock,
                safety.lease_ms,
                wait_ms=safety.wait_ms,
            )
            lease = ends.enter_context(held)
            alive = lease.renew
            if lease.waited:  # its schema and options may be others by now
                opened = lake.load_table(job.table, job.options)
                target = target_of(opened, lake, clock)
            ends.enter_context(ends.enter_context(Heartbeat()).keeping(lease))
        ends.enter_context(hold_on_damage(holds, job.table, name, safety.owner, enabled=not dry_run))
        gate = HoldGate(holds, job.table, name)
        on_hold = gate.holds()
        if on_hold and gate.effect is HoldEffect.REFUSED and not dry_run:
            raise refusal(job.table, name, on_hold)
        sweeper = Sweeper(target, runs, executor or SerialExecutor(), gate, alive)
        if resume and not dry_run and not on_hold:
            report = replace(report, resumed=len(sweeper.resume()))
        started_ms = clock.now_ms()
        chore = Chore(
            opened,
            target,
            sweeper,
            quarantine,
            report,
            started,
            holds=on_hold,
            landings=ends.enter_context(publication_notes()),
        )
        with _telling_damage(target, gate.effect, enabled=not dry_run):
            yield chore
        if not dry_run:
            chore.remember(started_ms)
            chore.settle_hint()
        if quarantine and not dry_run and safety.purges:
            purge_quietly(runs, job.table, ttl_ms=safety.quarantine_ttl_ms, cap=safety.quarantine_cap)


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
