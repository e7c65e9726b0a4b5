"""The job that compacts a whole database or catalog: patterns select its tables, and many are compacted at
once.

Listing costs one listing of storage a database and one a table, so 10,000 tables take about 1 s of CPU. For
the cost of a table and for memory see `lakecore.jobs.compact.many`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.display import html_table, one_line
from lakecore.errors import InvalidInputError, LakeError, NotFoundError
from lakecore.executor import Executor
from lakecore.jobs import compact
from lakecore.jobs.compact.follow import CompactionFollower
from lakecore.jobs.definitions.compaction import CompactDatabase as Job
from lakecore.jobs.engines.engine_choice import Engines
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.table_directories import TableDirectories, TableLister
from lakecore.types.counted import counted

__all__ = [
    "Job",
    "ListedLake",
    "PatternNames",
    "Report",
    "TableLister",
    "TablePatterns",
    "follower",
    "run",
    "run_on",
    "tables_of",
    "without_run",
]

logger = logging.getLogger(__name__)

LEASE_MS = 60_000


class ListedLake(Lake, TableLister, Protocol):
    """This is a lake whose tables can be listed."""


class TablePatterns(Protocol):
    """This is a job whose regular expressions choose tables."""

    @property
    def including_databases(self) -> str: ...

    @property
    def including_tables(self) -> str: ...

    @property
    def excluding_tables(self) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """This is the report of each table, in the order of names."""

    tables: tuple[compact.Report, ...] = ()
    seconds: float = 0.0

    def __repr__(self) -> str:
        """Return on one line what differs from an empty report; a collection is shown by its length."""
        return one_line("Report", counted(len(self.tables), "table"), self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Report", counted(len(self.tables), "table"), self._facts())

    def _facts(self) -> dict[str, object]:
        counts = {name.replace("_", " "): count for name, count in self.counts().items() if count}
        return counts | {"seconds": self.seconds}

    @property
    def failed(self) -> tuple[compact.Report, ...]:
        """Return the tables with an error, whether or not a part of them was compacted."""
        return tuple(report for report in self.tables if report.error is not None)

    @property
    def skipped(self) -> tuple[compact.Report, ...]:
        """Return the tables that were not compacted, or that another chore holds; each report says why."""
        return tuple(report for report in self.tables if report.skipped)

    @property
    def changed(self) -> tuple[compact.Report, ...]:
        """Return the tables with a new snapshot; for a dry run, the tables that need work."""
        return tuple(report for report in self.tables if report.snapshots or report.planned)

    def counts(self) -> dict[str, int]:
        """Count the tables by outcome. Each table counts once, but failed ones may be changed, too."""
        return {
            "tables": len(self.tables),
            "changed": len(self.changed),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
            "nothing_to_do": sum(report.nothing_to_do for report in self.tables),
        }

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain values; tables with nothing to do are only counted, unless an earlier
        attempt of the run has committed.
        """
        reports = (report for report in self.tables if not report.nothing_to_do or report.snapshots)
        return self.counts() | {"seconds": self.seconds, "reports": [report.to_json() for report in reports]}


def tables_of(job: TablePatterns, lake: TableLister) -> list[str]:
    """Return the names of the tables that match the job's patterns, in order. Raises InvalidInputError."""
    databases = _pattern(job.including_databases, "including-databases")
    is_included = _pattern(job.including_tables, "including-tables")
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
        if is_included.fullmatch(name) and not (unwanted is not None and unwanted.fullmatch(name))
    ]


def run(
    job: Job,
    catalog: ListedLake,
    executor: Executor | Engines | None = None,
    clock: Clock | None = None,
    callbacks: compact.Callbacks | None = None,
) -> Report:
    """Compact every table that matches the patterns. A table that fails does not stop the others: its error
    is in its report. A directory that has snapshots, but lost its schema, is such a table. If the job may end
    before all tables had their turn, those that earlier windows left come first, then the least healthy, by
    the newest survey; otherwise the order is that of the names.
    Raises InvalidInputError for patterns and limits.
    """
    clock = clock or SystemClock()
    started = clock.monotonic()
    callbacks = callbacks or compact.Callbacks()
    names = tables_of(job, TableDirectories(catalog))
    if callbacks.on_tables is not None:
        callbacks.on_tables(len(names))
    ends = job.until_ms is not None or callbacks.reason_to_stop is not None
    turns = _by_need(names, job, catalog, clock) if ends else names
    reports = run_on(turns, job, catalog, executor, clock, callbacks)
    reports = [report for _, report in sorted(zip(turns, reports, strict=True), key=lambda one: one[0])]
    return Report(tables=tuple(reports), seconds=round(clock.monotonic() - started, 3))


def _by_need(names: Sequence[str], job: Job, lake: Lake, clock: Clock) -> list[str]:
    """Return the names in the order of need; without a survey that can be read, as they are."""
    from lakecore.jobs.window.order import by_need
    from lakecore.maintain.survey.store import SurveyStore

    try:
        survey = SurveyStore(lake.file_io, lake.warehouse).latest()
    except LakeError as err:
        logger.warning("tables have their turns in the order of names: no survey can be read: %s", err)
        return list(names)
    return by_need(names, survey, clock.now_ms(), job.until_ms)


def run_on(
    names: Sequence[str],
    job: Job,
    lake: Lake,
    executor: Executor | Engines | None = None,
    clock: Clock | None = None,
    callbacks: compact.Callbacks | None = None,
) -> list[compact.Report]:
    """Compact these tables as the job says, whatever its patterns; returns a report for each, in order."""
    work = [job.of_table(name) for name in names]
    reports = compact.run_many(work, lake, executor, clock, callbacks, job.limits)
    return [_skipped_if_unsupported(report) for report in reports] if job.skip_unsupported else reports


def follower(job: Job, lake: ListedLake, executor: Executor) -> CompactionFollower:
    """Return what follows every table that matches the patterns, also those that are created later. Each
    compaction is a run of its own, so the job's name of the run is not used.
    """
    rounds = without_run(job)
    return CompactionFollower(
        lake, PatternNames(rounds, lake), lambda names: run_on(names, rounds, lake, executor)
    )


def without_run(job: Job) -> Job:
    """Return the job without the name of its run, for one round of many. Raises InvalidInputError for what
    belongs to one run.
    """
    if job.dry_run or job.until_ms is not None:
        raise InvalidInputError("dry_run and until_ms belong to one run; leave them out to follow tables")
    return replace(job, commit_user="", commit_identifier=1)


@dataclass(frozen=True, slots=True)
class PatternNames:
    """It lists the tables that match the patterns of a job. It can be pickled where the catalog can."""

    job: TablePatterns
    lake: TableLister

    def __call__(self) -> list[str]:
        return tables_of(self.job, self.lake)


def _tables(lake: TableLister, database: str) -> list[str]:
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
