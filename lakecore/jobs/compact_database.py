"""The job that compacts a whole database or catalog: its tables by pattern, many at once.

Listing costs a listing of storage a database and one a table, so 10,000 tables about 1 s of CPU; what it
costs to look at a table and how much memory is taken: see `compact_many`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from lakecore.clock import Clock, SystemClock
from lakecore.compact.engine.outcome import Progress
from lakecore.compact.engine.work import Strategy
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.executor import Executor
from lakecore.jobs import compact
from lakecore.jobs.compact.many import Limits
from lakecore.jobs.runner.lake import Lake
from lakecore.verify.digest.shape import ProofMode

__all__ = ["Job", "Report", "run", "tables_of"]

LEASE_MS = 60_000


class ListedLake(Lake, Protocol):
    """A lake that can be listed."""

    def list_databases(self) -> list[str]: ...

    def list_tables(self, database: str) -> list[str]:
        """Raises NotFoundError."""
        ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request to compact many tables.

    `including_databases`: a regular expression for whole names of databases; `including_tables` and
    `excluding_tables`: for `database.table`. `until_ms`: since the epoch; no table is begun after it, and
    those at work end as in `compact.Job`. `lease_ms`: a table that another chore holds is passed over; 0
    takes no leases. `wait_ms`: wait for it; then one that is held for longer counts as failed.
    `max_concurrent_tables`, `max_plan_bytes`: see `Limits`. `skip_unsupported`: tables that this release
    cannot compact count as skipped, not as failed. The rest as in `compact.Job`.
    """

    including_databases: str = ".*"
    including_tables: str = ".*"
    excluding_tables: str | None = None
    strategy: Strategy = Strategy.UNIVERSAL
    partition_idle_ms: int | None = None
    zone: str = "UTC"
    options: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    until_ms: int | None = None
    commit_user: str = ""
    commit_identifier: int = 1
    proof: ProofMode = ProofMode.SAMPLED
    lease_ms: int = LEASE_MS
    wait_ms: int = 0
    max_concurrent_tables: int = Limits().tables
    max_plan_bytes: int = Limits().plan_bytes
    skip_unsupported: bool = False

    @property
    def limits(self) -> Limits:
        """Raises InvalidInputError for limits that let nothing through."""
        if self.max_concurrent_tables < 1:
            raise InvalidInputError(f"max-concurrent-tables={self.max_concurrent_tables}: use 1 or more")
        return Limits(tables=self.max_concurrent_tables, plan_bytes=self.max_plan_bytes)

    def of_table(self, name: str) -> compact.Job:
        """What is asked for one table."""
        shared = {f.name for f in fields(self)} & {f.name for f in fields(compact.Job)}
        return compact.Job(table=name, **{key: getattr(self, key) for key in shared})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        raw = {f.name: getattr(self, f.name) for f in fields(self)}
        return raw | {
            "options": dict(self.options),
            "strategy": self.strategy.value,
            "proof": self.proof.value,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Job:
        """Raises InvalidInputError for unknown keys and values."""
        try:
            kinds = {"strategy": Strategy, "proof": ProofMode}
            return cls(**{**raw, **{name: kind(raw[name]) for name, kind in kinds.items() if name in raw}})
        except (TypeError, ValueError) as err:
            raise InvalidInputError(f"not a job to compact a database: {err}") from err


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of each table, in the order of names."""

    tables: tuple[compact.Report, ...] = ()
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[compact.Report, ...]:
        """Tables with an error, whether or not a part of them was compacted."""
        return tuple(report for report in self.tables if report.error is not None)

    @property
    def skipped(self) -> tuple[compact.Report, ...]:
        """Tables that were not looked at, or that another chore holds; each says why."""
        return tuple(report for report in self.tables if report.skipped)

    @property
    def changed(self) -> tuple[compact.Report, ...]:
        """Tables with a new snapshot; of a dry run, with something to do."""
        return tuple(report for report in self.tables if report.snapshots or report.planned)

    def counts(self) -> dict[str, int]:
        """How many tables: each is one of these, but failed ones may be changed, too."""
        return {
            "tables": len(self.tables),
            "changed": len(self.changed),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
            "nothing_to_do": sum(report.nothing_to_do for report in self.tables),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values; tables with nothing to do are counted only."""
        told = (report for report in self.tables if not report.nothing_to_do)
        return self.counts() | {"seconds": self.seconds, "reports": [report.to_json() for report in told]}


def tables_of(job: Job, lake: ListedLake) -> list[str]:
    """Names of the tables that the job's patterns want, in order. Raises InvalidInputError."""
    databases = _pattern(job.including_databases, "including-databases")
    wanted = _pattern(job.including_tables, "including-tables")
    unwanted = _pattern(job.excluding_tables, "excluding-tables") if job.excluding_tables else None
    names = [
        f"{database}.{table}"
        for database in lake.list_databases()
        if databases.fullmatch(database)
        for table in _tables(lake, database)
    ]
    return [
        name
        for name in names
        if wanted.fullmatch(name) and not (unwanted is not None and unwanted.fullmatch(name))
    ]


def run(
    job: Job,
    catalog: ListedLake,
    executor: Executor | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[compact.Job, Progress], None] | None = None,
    on_done: Callable[[compact.Report], None] | None = None,
    on_tables: Callable[[int], None] | None = None,
) -> Report:
    """Compact every table that the patterns want. A table that fails does not stop the others.

    `on_tables` is told how many there are. Raises InvalidInputError for patterns and limits; what goes wrong
    with a table is in its report.
    """
    clock = clock or SystemClock()
    started = clock.monotonic()
    limits = job.limits
    work = [job.of_table(name) for name in tables_of(job, catalog)]
    if on_tables is not None:
        on_tables(len(work))
    reports = compact.run_many(work, catalog, executor, clock, on_progress, on_done, limits)
    if job.skip_unsupported:
        reports = [_skipped_if_unsupported(report) for report in reports]
    return Report(tables=tuple(reports), seconds=round(clock.monotonic() - started, 3))


def _tables(lake: ListedLake, database: str) -> list[str]:
    try:
        return lake.list_tables(database)
    except NotFoundError:
        return []  # dropped since it was listed


def _pattern(text: str, name: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as err:
        raise InvalidInputError(f"--{name} {text!r} is not a regular expression: {err}") from err


def _skipped_if_unsupported(report: compact.Report) -> compact.Report:
    if report.error_class != "UnsupportedError" or report.snapshots:
        return report
    return replace(report, error=None, error_class=None, skipped=report.error or "")
