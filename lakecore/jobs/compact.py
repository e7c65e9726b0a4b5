"""The compaction job: one table, one request, one report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from lakecore.clock import Clock, SystemClock
from lakecore.compact.cluster.apply import ClusterRun
from lakecore.compact.outcome import Progress
from lakecore.compact.planning import CompactTarget
from lakecore.compact.rounds import CompactRequest, CompactRun
from lakecore.compact.work import Strategy, WorkPick
from lakecore.errors import InvalidInputError, LakeError
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.compact_report import Report, Shape, with_run
from lakecore.row.partition_path import parse_partitions
from lakecore.row.sort_rule import OrderStrategy
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from lakecore.verify.shape import ProofMode

__all__ = [
    "Job",
    "OrderStrategy",
    "Progress",
    "ProofMode",
    "Report",
    "Shape",
    "Strategy",
    "Tables",
    "partitions_of",
    "run",
    "run_many",
]

logger = logging.getLogger(__name__)


class Tables(Protocol):
    """What a job needs of a catalog."""

    def load_table(self, name: str) -> Table:
        """Raises NotFoundError."""
        ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request to compact one table.

    `where`: partitions as `dt=a,hh=b;dt=c`, None for all. `options`: table options for this run only.
    `until_ms`: since the epoch; what is proven by then is committed, the rest reported. (`commit_user`,
    `commit_identifier`) names the run, so that a repeated one is recognised; its commits take the
    identifiers from there on (up to 1000). An empty user means a fresh one.
    `order_strategy`, `order_by`: put the rows of an append table without buckets in this order; all of its
    files are rewritten, whatever `strategy` and `proof` say, and all columns compared. No columns: those of
    option `clustering.columns`.
    """

    table: str
    strategy: Strategy = Strategy.UNIVERSAL
    order_strategy: OrderStrategy = OrderStrategy.NONE
    order_by: tuple[str, ...] = ()
    where: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    until_ms: int | None = None
    commit_user: str = ""
    commit_identifier: int = 1
    proof: ProofMode = ProofMode.CHEAP

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        raw = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {"options": dict(self.options), "order_by": list(self.order_by)}
        enums = {name: raw[name].value for name in ("strategy", "proof", "order_strategy")}
        return raw | plain | enums

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Job:
        """Raises InvalidInputError for unknown or missing keys and values."""
        try:
            kinds = {
                "strategy": Strategy,
                "proof": ProofMode,
                "order_strategy": OrderStrategy,
                "order_by": tuple,
            }
            typed = {name: kind(raw[name]) for name, kind in kinds.items() if name in raw}
            return cls(**{**raw, **typed})
        except (TypeError, ValueError) as err:
            raise InvalidInputError(f"not a compaction job: {err}") from err


def run(
    job: Job,
    catalog: Tables,
    executor: Executor | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Compact one table.

    Raises NotFoundError, InvalidInputError, UnsupportedError before anything is touched. When units of some
    picks fail, the others are committed first; then the first failure is raised.
    """
    report, error = _Run(job, executor or SerialExecutor(), clock or SystemClock(), on_progress).of(catalog)
    if error is not None:
        raise error
    return report


def run_many(
    jobs: Iterable[Job],
    catalog: Tables,
    executor: Executor | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[Job, Progress], None] | None = None,
) -> list[Report]:
    """One report per job, in order. A failed job does not stop the rest: its report has an `error`."""
    engine = executor or SerialExecutor()
    reports = []
    for job in jobs:

        def tell(progress: Progress, job: Job = job) -> None:
            if on_progress is not None:
                on_progress(job, progress)

        report, error = _Run(job, engine, clock or SystemClock(), tell).of(catalog)
        if error is not None:
            logger.error("compaction of %s failed: %s", job.table, error)
        reports.append(report)
    return reports


class _Run:
    """One job on its way to a report."""

    def __init__(
        self, job: Job, executor: Executor, clock: Clock, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._job = job
        self._executor = executor
        self._clock = clock
        self._on_progress = on_progress
        self._report = Report(
            table=job.table, strategy=job.strategy, engine=executor.name, dry_run=job.dry_run
        )

    def of(self, catalog: Tables) -> tuple[Report, LakeError | None]:
        """The report, and the error that ended the job early if one did."""
        try:
            table = catalog.load_table(self._job.table).with_options(self._job.options)
            where = partitions_of(table, self._job.where)
            run = self._compact_run(table, where)
            self._report = replace(self._report, warnings=table.warnings)
        except LakeError as err:
            return replace(self._report, error=str(err)), err
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
        seconds = round(self._clock.monotonic() - started - self._executor.startup_seconds, 6)
        report = replace(self._report, seconds=seconds, error=None if error is None else str(error))
        return self._shaped(with_run(report, run, planned), run, table, where), error

    def _compact_run(self, table: Table, where: ScanFilter) -> CompactRun | ClusterRun:
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
            commit_user=job.commit_user or f"lakecore-compact-{self._clock.fresh_id()}",
            identifier=job.commit_identifier,
            where=where,
            proof=job.proof,
            until_ms=job.until_ms,
            repeatable=bool(job.commit_user),
        )
        if job.order_strategy is OrderStrategy.NONE:
            return CompactRun(target, request, self._on_progress)
        return ClusterRun(target, request, (job.order_strategy, job.order_by), self._on_progress)

    def _shaped(
        self, report: Report, run: CompactRun | ClusterRun, table: Table, where: ScanFilter
    ) -> Report:
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
