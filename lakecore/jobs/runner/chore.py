"""What the maintenance jobs share: their report, their safety settings, and how they begin and end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

from lakecore.clock import Clock, SystemClock
from lakecore.commit.author import Author
from lakecore.commit.publication_notes import publication_notes
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError, without_secrets
from lakecore.executor import Executor, SerialExecutor
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
    "job_from_json",
    "job_to_json",
    "parameters",
]

logger = logging.getLogger(__name__)

J = TypeVar("J")

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """How careful a job is. `quarantine`: move files aside instead of deleting them; None: as the job does
    by itself.

    `quarantine_ttl_ms`, `quarantine_cap`: older runs, and the oldest beyond so many bytes, are deleted for
    good (`purges`: at the end of this job). `lease_ms`: how long a lease outlives its process where that
    cannot be seen to have ended; 0 takes none. `wait_ms`: how long to wait for the lease of another chore.
    `owner`: who holds it; the same owner takes its own lease over at once.
    """

    quarantine: bool | None = None
    quarantine_ttl_ms: int = 7 * DAY_MS
    quarantine_cap: int | None = 100 << 30
    purges: bool = True
    lease_ms: int = 60_000
    wait_ms: int = 0
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a maintenance job did, or with `dry_run` would do.

    `files`, `bytes`: removed, or moved to the quarantine (`quarantined`), snapshots and tags included;
    bytes as far as they are recorded. `snapshots`: ids that went. `names`: of the tags, branches,
    partitions, consumers or files it is about. `snapshot`: the one that the job committed or chose.
    `blocker`: what stops it from doing more. `spared`: planned, but needed again meanwhile. `run`: for
    `undo`. `resumed`: interrupted runs that were finished first. `forecast`, `before` and `after`: of a dry
    run, what the run takes, what the table has and would have; and its `estimated_seconds`. `error_class`:
    the type of `error`, of `lakecore.errors`. `skipped`: why nothing was done, where that is no error.
    `held`: why nothing was removed: the table is on hold. `notes`: what else a person should know, for
    example that another writer replaced the snapshot of the job, and that it was made again.
    """

    table: str
    job: str
    dry_run: bool = False
    run: str | None = None
    quarantined: bool = False
    files: int = 0
    bytes: int = 0
    spared: int = 0
    snapshots: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    snapshot: int | None = None
    blocker: str = ""
    notes: tuple[str, ...] = ()
    resumed: int = 0
    seconds: float = 0.0
    estimated_seconds: float | None = None
    forecast: Forecast | None = None
    before: Counts | None = None
    after: Counts | None = None
    nothing_to_do: bool = False
    skipped: str = ""
    held: str = ""
    error: str | None = None
    error_class: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        lists = {name: list(getattr(self, name)) for name in ("snapshots", "names", "notes")}
        return asdict(self) | lists | {"forecast": self.forecast and self.forecast.to_json()}

    def planned(self, removal: Removal) -> Report:
        """With the figures of what would be removed."""
        return replace(self, files=len(removal), bytes=removal.size)

    def swept(self, swept: SweepResult) -> Report:
        """With the figures of what was removed."""
        files = swept.roots + swept.files
        return replace(self, run=swept.run, files=files, bytes=swept.size, spared=len(swept.still_referenced))


class ChoreJob(Protocol):
    """What every maintenance job is asked for."""

    @property
    def table(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str]: ...

    @property
    def dry_run(self) -> bool: ...

    @property
    def safety(self) -> Safety: ...


class CommittingJob(Protocol):
    """(`commit_user`, `commit_identifier`) names its run, so that a repeated one is recognised."""

    @property
    def commit_user(self) -> str: ...

    @property
    def commit_identifier(self) -> int | None: ...


@dataclass
class Chore:
    """A job at work on one table. `report` starts with what is known already.

    For dry runs a job may say `before`, where it has counted more than the lists tell, and `after`, what the
    run would make of it; as it is, nothing of the latest snapshot changes.
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
    """What takes the time, where that is not what is removed: the same for a dry run as for a run."""
    result: Report | None = None
    holds: tuple[Hold, ...] = ()
    """Those that were on the table when the chore began."""
    landings: list[str] = field(default_factory=list)
    """What became of its snapshots that other writers replaced."""

    def timed(self, report: Report) -> Report:
        """With the seconds since the beginning; of a dry run, with what the run would take and meet."""
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
        """Why nothing may be removed; empty where the table is not on hold."""
        return str(refusal(self.report.table, self.report.job, self.holds)) if self.holds else ""

    def remember(self, started_ms: int) -> None:
        """Add what the run took to the history of its job."""
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
        """The `work` is the entries of its manifests, and `files` that change. Reads two manifest lists."""
        named = self.target.manifests.data_manifests(snapshot)
        self.work = Work(
            files=files, entries=sum(one.num_added_files + one.num_deleted_files for one in named)
        )

    def _work(self, report: Report) -> Work:
        return self.work or Work(files=report.files, bytes=report.bytes)

    def settle_hint(self) -> None:
        """Where nothing was left to do, an earlier try may have been killed between its commit and LATEST."""
        if self.result is not None and self.result.nothing_to_do:
            self.target.snapshots.catch_up_latest()

    def author(self, job: CommittingJob) -> Author:
        """As the job says; without a user somebody new."""
        if job.commit_user:
            return Author(job.commit_user, job.commit_identifier)
        return Author(f"lakecore-{self.report.job}-{self.target.clock.fresh_id()}")

    def committed_earlier(
        self, author: Author, kind: CommitKind, target: Target | None = None
    ) -> Report | None:
        """The report of a run whose commit is there already, of an earlier try. `target`: None: its own."""
        found = author.landed((target or self.target).snapshots, kind)
        if found is None:
            return None
        notes = (f"an earlier attempt of this run committed snapshot {found.id}",)
        return replace(self.report, snapshot=found.id, notes=notes, nothing_to_do=True)

    def main(self) -> Target:
        """The table's main branch."""
        return replace(self.target, paths=self.target.paths.with_branch(MAIN_BRANCH))


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
    """Open the table, take its lease and finish what an interrupted run left.

    `quarantine`: the job's default.

    With `dry_run` nothing is written: no lease, nothing finished, no hold. A CorruptDataError or ProofError
    of the job puts the table on hold. Raises OnHoldError for a job that removes, while the table is on hold;
    others then leave unfinished what an interrupted run was to remove.
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
    """Something is missing that a removing chore needs to know: is it the latest snapshot that lacks it?

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
    """What the ledger remembers of a job: no secrets."""
    return {name: without_secrets(value) for name, value in asdict(job).items() if name != "safety"}


def job_to_json(job: Any) -> dict[str, Any]:
    """Plain values of a frozen job."""
    return asdict(job)


def job_from_json(kind: type[J], raw: Mapping[str, Any]) -> J:
    """Raises InvalidInputError for unknown or missing keys."""
    try:
        values = dict(raw)
        for one in fields(kind) if is_dataclass(kind) else ():
            if one.name == "safety" and isinstance(values.get("safety"), Mapping):
                values["safety"] = Safety(**values["safety"])
            elif isinstance(values.get(one.name), list):
                values[one.name] = tuple(values[one.name])
        return kind(**values)
    except (TypeError, ValueError) as err:
        raise InvalidInputError(f"not a {kind.__name__}: {err}") from err
