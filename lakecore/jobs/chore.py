"""What the maintenance jobs share: their report, their safety settings, and how they begin and end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

from lakecore.clock import Clock, SystemClock
from lakecore.errors import InvalidInputError, LakeError
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.lake import Lake
from lakecore.maintain.lease import leased
from lakecore.maintain.quarantine import purge_quietly
from lakecore.maintain.runs import Removal, RunState, RunStore
from lakecore.maintain.sweep import Sweeper, Swept, nothing
from lakecore.maintain.target import Target
from lakecore.store.paths import MAIN_BRANCH
from lakecore.table import Table

__all__ = [
    "DAY_MS",
    "Chore",
    "Lake",
    "Report",
    "Safety",
    "begin",
    "estimated_seconds",
    "job_from_json",
    "job_to_json",
    "parameters",
    "run_many",
]

logger = logging.getLogger(__name__)

J = TypeVar("J")

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """How careful a job is. `quarantine`: move files aside instead of deleting them; None: as the job does
    by itself.

    `quarantine_ttl_ms`, `quarantine_cap`: older runs, and the oldest beyond so many bytes, are deleted for
    good. `lease_ms`: how long a lease outlives its process; 0 takes none. `owner`: who holds it; the same
    owner takes its own lease over at once.
    """

    quarantine: bool | None = None
    quarantine_ttl_ms: int = 7 * DAY_MS
    quarantine_cap: int | None = 100 << 30
    lease_ms: int = 60_000
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a maintenance job did, or with `dry_run` would do.

    `files`, `bytes`: removed, or moved to the quarantine (`quarantined`), snapshots and tags included;
    bytes as far as they are recorded. `snapshots`: ids that went. `names`: of the tags, branches,
    partitions, consumers or files it is about. `snapshot`: the one that the job committed or chose.
    `blocker`: what stops it from doing more. `spared`: planned, but needed again meanwhile. `run`: for
    `undo`. `resumed`: interrupted runs that were finished first. `estimated_seconds`: from earlier runs of
    this job here; None without any.
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
    nothing_to_do: bool = False
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {name: list(getattr(self, name)) for name in ("snapshots", "names", "notes")}

    def planned(self, removal: Removal) -> Report:
        """With the figures of what would be removed."""
        return replace(self, files=len(removal), bytes=removal.size)

    def swept(self, swept: Swept) -> Report:
        """With the figures of what was removed."""
        files = swept.roots + swept.files
        return replace(self, run=swept.run, files=files, bytes=swept.size, spared=len(swept.spared))


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


@dataclass
class Chore:
    """A job at work on one table. `report` starts with what is known already."""

    table: Table
    target: Target
    sweeper: Sweeper
    keeps: bool
    report: Report
    started: float

    def timed(self, report: Report) -> Report:
        """With the seconds since the beginning."""
        return replace(report, seconds=round(self.target.clock.monotonic() - self.started, 3))

    def main(self) -> Target:
        """The table's main branch."""
        return replace(self.target, paths=self.target.paths.with_branch(MAIN_BRANCH))


@contextmanager
def begin(
    name: str,
    job: ChoreJob,
    lake: Lake,
    *,
    keeps: bool,
    executor: Executor | None,
    clock: Clock | None,
    resume: bool = True,
) -> Iterator[Chore]:
    """Open the table, take its lease and finish what an interrupted run left. `keeps`: the job's own default.

    With `dry_run` nothing is written: no lease, nothing finished.
    """
    clock = clock or SystemClock()
    opened = lake.load_table(job.table, job.options)
    target = Target(opened.name, lake.warehouse, opened.file_io, opened.paths, opened.schema, clock)
    runs = RunStore(lake.file_io, lake.warehouse, clock)
    safety, dry_run = job.safety, job.dry_run
    keeps = keeps if safety.quarantine is None else safety.quarantine
    started = clock.monotonic()
    report = Report(table=job.table, job=name, dry_run=dry_run, quarantined=keeps)
    with ExitStack() as ends:
        alive: Callable[[], None] = nothing
        if safety.lease_ms and not dry_run:
            owner = safety.owner or f"{name} {clock.fresh_id()[:8]}"
            held = leased(lake.file_io, lake.warehouse, job.table, owner, clock, safety.lease_ms)
            alive = ends.enter_context(held).renew
        sweeper = Sweeper(target, runs, executor or SerialExecutor(), alive)
        if resume and not dry_run:
            report = replace(report, resumed=len(sweeper.resume()))
        yield Chore(opened, target, sweeper, keeps, report, started)
        if keeps and not dry_run:
            purge_quietly(runs, job.table, ttl_ms=safety.quarantine_ttl_ms, cap=safety.quarantine_cap)


def run_many(jobs: Iterable[J], run: Callable[[J], Report]) -> list[Report]:
    """One report per job, in order. A failed one does not stop the rest: its report has an `error`."""
    reports = []
    for job in jobs:
        try:
            reports.append(run(job))
        except LakeError as err:
            table, name = str(getattr(job, "table", "")), type(job).__name__
            logger.error("%s of %s failed: %s", name, table, err)
            reports.append(Report(table=table, job=name, error=str(err)))
    return reports


def estimated_seconds(chore: Chore, files: int) -> float | None:
    """From the rate of earlier runs of the job on any table."""
    done = [r for r in chore.sweeper.runs.list(chore.target.name) if r.job == chore.report.job]
    timed = [r for r in done if r.finished_ms and r.state is not RunState.PLANNED and r.outcome.get("files")]
    removed = sum(int(r.outcome["files"]) for r in timed)
    spent = sum(((r.finished_ms or 0) - r.started_ms) / 1000 for r in timed)
    return round(spent / removed * files, 3) if removed else None


def parameters(job: Any) -> dict[str, Any]:
    """What the ledger remembers of a job."""
    return {name: value for name, value in asdict(job).items() if name != "safety"}


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
