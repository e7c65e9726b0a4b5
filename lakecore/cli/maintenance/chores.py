"""This module has the parts that maintenance commands share: common options, running jobs over tables,
printing reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from lakecore.cli.engine import Engine, EngineOptions, executor
from lakecore.cli.job_options import JobOptions
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_bars import table_bars
from lakecore.jobs.definitions.table_job import Definition
from lakecore.types.counted import counted

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.runner.chore import Report
    from lakecore.jobs.runner.counts import Counts
    from lakecore.maintain.forecast.plan import Forecast

__all__ = [
    "OneTable",
    "RunEngine",
    "Tables",
    "forecast_text",
    "run_jobs",
    "run_on_tables",
    "tables_of",
]


class DryRunReport(Protocol):
    """This is the report that a dry run prints."""

    @property
    def forecast(self) -> Forecast | None: ...

    @property
    def before(self) -> Counts | None: ...

    @property
    def after(self) -> Counts | None: ...


Tables = Annotated[
    list[str], typer.Argument(metavar="DB.TABLE...", help="Name tables, or patterns of names ('db.*').")
]
OneTable = Annotated[
    str, typer.Argument(metavar="DB.TABLE", help="Name the table, or a branch of it: db.table$branch_NAME.")
]
RunEngine = Annotated[Engine, typer.Option(help="Delete files, and list many directories, here.")]

_MOST_NAMES = 10
_ON_HOLD = 2
_SEVERAL = Concurrency()


def tables_of(context: typer.Context, patterns: Sequence[str]) -> list[str]:
    """Return the tables that the arguments of a command name."""
    from lakecore.cli.table_names import expand_tables  # help needs no tables

    return expand_tables(session_of(context).catalog, patterns)


def run_on_tables(
    context: typer.Context,
    patterns: Sequence[str],
    options: JobOptions[Any],
    engine: Engine | EngineOptions = Engine.LOCAL,
    concurrency: Concurrency = _SEVERAL,
    *,
    passes_over: bool = True,
) -> None:
    """Run the job of `options` on each table that the arguments of a command name, as `run_jobs` does."""
    work = options.jobs(tables_of(context, patterns))
    run_jobs(context, work, engine, concurrency, passes_over=passes_over)


def run_jobs(
    context: typer.Context,
    work: Sequence[Definition],
    engine: Engine | EngineOptions = Engine.LOCAL,
    concurrency: Concurrency = _SEVERAL,
    *,
    passes_over: bool = True,
) -> None:
    """Run the jobs, several at once, and print their reports. The exit code is 1 when one failed, else 2 when
    a hold stopped one.

    `passes_over`: when there are several tables, one that another chore holds is left to the next run;
    otherwise it fails.
    """
    from lakecore.jobs.runner.chore_many import TABLES_AT_ONCE, run_many
    from lakecore.jobs.runner.dispatch import run_chore

    session = session_of(context)
    catalog = session.catalog
    with _executors_of(engine) as executor_of_table, table_bars(session) as bars:
        bars.tables(len(work))
        reports = run_many(
            work,
            lambda job: run_chore(job, catalog, executor_of_table()),
            catalog,
            limits=concurrency.limits(TABLES_AT_ONCE),
            on_done=bars.finish,
            passes_over=passes_over,
        )
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        _print(session, reports)
    end_on_errors(session, reports)
    if any(report.on_hold for report in reports):
        raise typer.Exit(_ON_HOLD)


@contextmanager
def _executors_of(engine: Engine | EngineOptions) -> Iterator[Callable[[], Executor]]:
    """Open the engine, and yield a function that returns the executor of one table."""
    if isinstance(engine, Engine):
        with executor(engine, None, {}) as workers:
            yield lambda: workers
        return
    from lakecore.jobs.engines.engine_choice import Engines

    with engine.executors(soon=False) as engines:
        yield engines.for_table if isinstance(engines, Engines) else lambda: engines


def _print(session: Session, reports: Sequence[Report]) -> None:
    columns = ["table", "result", "snapshots", "files", "size", "seconds"]
    session.out.print(table_of(columns, [_row(report) for report in reports], whole=2))
    for report in reports:
        for line in _remarks(report):
            session.out.print(f"{report.table}: {line}", markup=False)


def _row(report: Report) -> list[Any]:
    files = report.files or None
    return [
        report.table,
        _result(report),
        len(report.snapshots) or None,
        files,
        size_text(report.bytes) if files else None,
        f"{report.seconds:.1f}",
    ]


def _result(report: Report) -> str:
    if report.error is not None:
        return "failed"
    if report.skipped:
        return "skipped"
    if report.on_hold and (report.nothing_to_do or not report.names):
        return "on hold"
    if report.nothing_to_do:
        return "nothing to do"
    return "planned" if report.dry_run else "done"


def forecast_text(report: DryRunReport) -> Iterator[str]:
    """Return what a dry run says about the run and the table."""
    if report.forecast is not None:
        yield str(report.forecast)
    if report.before is not None and report.after is not None:
        yield f"the table would have: {report.before.towards(report.after)}"


def _range(snapshots: Sequence[int]) -> str:
    first, last = snapshots[0], snapshots[-1]
    return f"snapshot {first}" if first == last else f"snapshots {first}-{last}"


def _remarks(report: Report) -> Iterator[str]:
    if report.error is not None:
        yield f"error: {' '.join(report.error.split())}"
    if report.skipped:
        yield f"skipped: {report.skipped}"
    if report.on_hold:
        yield report.on_hold
    if report.resumed:
        yield f"finished {counted(report.resumed, 'interrupted run')} first"
    if report.snapshots:
        verb = "would be removed" if report.dry_run else "removed"
        yield f"{verb}: {_range(report.snapshots)}"
    if report.names:
        rest = len(report.names) - _MOST_NAMES
        yield ", ".join(report.names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
    if report.blocker:
        yield f"nothing more is done: {report.blocker}"
    if report.spared:
        yield f"{counted(report.spared, 'file')} were kept, because they are referenced again"
    yield from report.notes
    yield from forecast_text(report)
    if report.quarantined and report.run and report.files and not report.dry_run:
        yield f"kept in quarantine; take it back with: lakecore undo {report.run}"
