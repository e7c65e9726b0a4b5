"""`compact`: compaction jobs for one table or many, and their reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from lakecore.cli.engine import Engine, executor, key_values
from lakecore.cli.output import print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_names import expand_tables
from lakecore.clock import SystemClock
from lakecore.executor import Executor
from lakecore.jobs import compact as jobs
from lakecore.jobs.until import parse_until
from lakecore.table import Table

__all__ = ["compact", "compact_one", "report_problem"]

logger = logging.getLogger(__name__)


def compact(
    context: typer.Context,
    table: Annotated[list[str], typer.Argument(metavar="DB.TABLE...", help="Names and globs ('db.*').")],
    strategy: Annotated[
        jobs.Strategy, typer.Option(help="universal: what needs it; full: everything into the top level.")
    ] = jobs.Strategy.UNIVERSAL,
    order_strategy: Annotated[
        jobs.OrderStrategy,
        typer.Option(help="Put the rows of an append table without buckets in order; rewrites all files."),
    ] = jobs.OrderStrategy.NONE,
    order_by: Annotated[str | None, typer.Option(help="Columns to order by: 'a,b'.")] = None,
    where: Annotated[str | None, typer.Option(help="Only these partitions: 'dt=a,hh=b;dt=c'.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and report; change nothing.")] = False,
    engine: Annotated[Engine, typer.Option(help="Where units run.")] = Engine.SPARK,
    master: Annotated[str | None, typer.Option(help="Spark master; default local[*].")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting: key=value.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Stop then (HH:MM or ISO date and time, UTC), commit what is proven, report the rest."
        ),
    ] = None,
    proof: Annotated[
        jobs.ProofMode, typer.Option(help="cheap: keys, sequence numbers, kinds; full: every column.")
    ] = jobs.ProofMode.CHEAP,
    option: Annotated[list[str] | None, typer.Option(help="Table option for this run: key=value.")] = None,
) -> None:
    """Compact tables; one that fails does not stop the rest."""
    session = session_of(context)
    clock = SystemClock()
    until_ms = None if until is None else parse_until(until, clock.now_ms())
    work = [
        jobs.Job(
            table=name,
            strategy=strategy,
            order_strategy=order_strategy,
            order_by=tuple(filter(None, map(str.strip, (order_by or "").split(",")))),
            where=where,
            options=key_values(option or [], "--option"),
            dry_run=dry_run,
            until_ms=until_ms,
            commit_user=f"lakecore-cli-{clock.fresh_id()}",
            commit_identifier=1,
            proof=proof,
        )
        for name in expand_tables(session.catalog, table)
    ]
    with executor(engine, master, key_values(conf or [], "--conf"), soon=not dry_run) as workers:
        reports = _run(session, work, workers)
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        _print_reports(session, reports)
    if any(report_problem(report) is not None for report in reports):
        raise typer.Exit(1)


def compact_one(session: Session, table: Table, workers: Executor) -> jobs.Report:
    """The universal compaction that follows a write of `table`."""
    clock = SystemClock()
    job = jobs.Job(
        table=table.name,
        strategy=jobs.Strategy.UNIVERSAL,
        options=dict(table.overrides),
        commit_user=f"lakecore-cli-{clock.fresh_id()}",
        commit_identifier=1,
    )
    return jobs.run(job, session.catalog, workers, clock)


def report_problem(report: jobs.Report) -> str | None:
    """Why the table is not compacted as asked; None when it is."""
    return report.error


def _run(session: Session, work: Sequence[jobs.Job], workers: Executor) -> list[jobs.Report]:
    with _progress(session, len(work)) as bars:
        return [_run_one(session, job, workers, bars) for job in work]


def _run_one(session: Session, job: jobs.Job, workers: Executor, bars: _Bars) -> jobs.Report:
    update = bars.begin(job.table)
    try:
        (report,) = jobs.run_many([job], session.catalog, workers, on_progress=lambda _, done: update(done))
    except Exception as err:
        # The border of one table: whatever went wrong with it must not stop the others.
        logger.exception("%s", job.table)
        problem = f"unexpected {type(err).__name__}: {err} (--verbose shows where; please report it)"
        return jobs.Report(
            table=job.table, strategy=job.strategy, engine=workers.name, dry_run=job.dry_run, error=problem
        )
    finally:
        bars.end()
    return report


class _Bars:
    """A bar of input rows for the table at work and, for several, one of tables."""

    def __init__(self, bars: Progress, tables: int) -> None:
        self._bars = bars
        self._all = bars.add_task("tables", total=tables) if tables > 1 else None
        self._current: TaskID | None = None

    def begin(self, table: str) -> Callable[[jobs.Progress], None]:
        """The callback of the table's job."""
        bar = self._current = self._bars.add_task(table, total=None)
        return lambda done: self._bars.update(bar, completed=done.rows_done, total=done.rows)

    def end(self) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        if self._all is not None:
            self._bars.advance(self._all)


@contextmanager
def _progress(session: Session, tables: int) -> Iterator[_Bars]:
    """Bars on standard error, if that is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=session.err, transient=True, disable=not session.err.is_terminal) as bars:
        yield _Bars(bars, tables)


def _print_reports(session: Session, reports: Sequence[jobs.Report]) -> None:
    columns = ["table", "result", "files", "runs", "size", "rows", "seconds", "snapshot"]
    session.out.print(table_of(columns, [_report_row(report) for report in reports], whole=2))
    for report in reports:
        for line in _remarks(report):
            session.out.print(f"{report.table}: {line}", markup=False)


def _report_row(report: jobs.Report) -> list[Any]:
    before, after = report.before, report.after
    if report.error is not None and not report.snapshots:
        return [report.table, "failed", *[None] * 4, f"{report.seconds:.1f}", None]
    return [
        report.table,
        _result(report),
        _change(before.files, after.files),
        _change(before.sorted_runs, after.sorted_runs),
        _change(size_text(before.bytes), size_text(after.bytes)),
        None if report.nothing_to_do or report.dry_run else f"{report.rows_in} -> {report.rows_out}",
        f"{report.seconds:.1f}",
        report.snapshot,
    ]


def _change(before: object, after: object) -> str:
    return f"{before}" if before == after else f"{before} -> {after}"


def _result(report: jobs.Report) -> str:
    if report.error is not None:
        return "failed in part"
    if report.nothing_to_do:
        return "nothing to do"
    if report.dry_run:
        return "planned"
    return "in part" if report.picks_left or report.dropped else "compacted"


def _remarks(report: jobs.Report) -> Iterator[str]:
    if report.error is not None:
        yield f"error: {' '.join(report.error.split())}"
    yield from (f"warning: {warning}" for warning in report.warnings)
    if report.dropped:
        yield f"dropped, changed by another commit: {', '.join(report.dropped)}; run again"
    if report.picks_left and not report.dry_run:
        yield f"{report.picks_left} picks left to do; run again"
    for pick in report.planned if report.dry_run else ():
        yield f"would do {pick}"
    if report.proof and not report.dry_run and not report.nothing_to_do:
        yield f"proven on {report.engine}: {report.proof}"
