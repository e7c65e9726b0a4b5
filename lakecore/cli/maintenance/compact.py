"""This module has the command `compact`: compaction jobs for one table or many, and their reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from lakecore.cli.engine import EngineOptions
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, tables_of
from lakecore.cli.maintenance.follow_query import FollowJob, follow_as_query
from lakecore.cli.maintenance.following import Following, check_following, follow_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_bars import table_bars
from lakecore.clock import SystemClock
from lakecore.jobs.definitions.compaction import Compact
from lakecore.types.counted import counted

if TYPE_CHECKING:  # the commands import them while Spark starts
    from lakecore.executor import Executor
    from lakecore.jobs import compact as jobs

__all__ = ["compact", "print_reports"]


def compact(
    context: typer.Context,
    table: Tables,
    options: JobOptions[Compact],
    engine: EngineOptions,
    concurrency: Concurrency,
    following: Following,
) -> None:
    """Compact tables, several at once; one that fails does not stop the rest."""
    session = session_of(context)
    limits = concurrency.limits()
    soon = not options.values["dry_run"]
    check_following(context, following, dry_run=not soon)
    if following.follow:
        _follow(session, table, options, engine, limits, following)
        return
    with engine.executors(soon=soon) as engines, table_bars(session) as bars:
        from lakecore.jobs import compact as jobs

        work = options.jobs(tables_of(context, table))
        bars.tables(len(work))
        callbacks = jobs.Callbacks(on_progress=bars.progress, on_done=bars.finish)
        reports = jobs.run_many(work, session.catalog, engines, SystemClock(), callbacks, limits)
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        print_reports(session, reports)
    end_on_errors(session, reports)


def _follow(
    session: Session,
    patterns: Sequence[str],
    options: JobOptions[Compact],
    engine: EngineOptions,
    limits: jobs.Limits,
    following: Following,
) -> None:
    """Compact the tables round after round, in this process or as a streaming query."""
    from lakecore.cli.table_names import TableNames  # help needs no tables

    names = TableNames(session.catalog, tuple(patterns))

    def run(tables: Sequence[str], workers: Executor) -> Sequence[jobs.Report]:
        from lakecore.jobs import compact as jobs

        work = [replace(job, commit_user="", commit_identifier=1) for job in options.jobs(tables)]
        return jobs.run_many(work, session.catalog, workers, SystemClock(), None, limits)

    show = partial(print_reports, session)
    if following.checkpoint is not None:
        job = FollowJob(names, run, repr(sorted(options.values.items())))
        follow_as_query(session, following, engine, job, show)
        return
    with engine.executor(soon=True) as workers:
        from lakecore.jobs.compact.follow import CompactionFollower

        follower = CompactionFollower(session.catalog, names, lambda tables: run(tables, workers))
        follow_tables(session, following, follower, workers, show)


def print_reports(session: Session, reports: Sequence[jobs.Report]) -> None:
    columns = ["table", "result", "files", "runs", "size", "rows", "seconds", "snapshot"]
    session.out.print(table_of(columns, [_report_row(report) for report in reports], whole=2))
    lines = [f"{report.table}: {line}" for report in reports for line in _remarks(report)]
    if lines:
        session.out.print("\n".join(lines), markup=False)


def _report_row(report: jobs.Report) -> list[Any]:
    before, after = report.before, report.after
    if report.skipped or (report.error is not None and not report.snapshots):
        result = "skipped" if report.skipped else "failed"
        return [report.table, result, *[None] * 4, f"{report.seconds:.1f}", None]
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
    if report.skipped:
        yield f"skipped: {report.skipped}"
    yield from (f"warning: {warning}" for warning in report.warnings)
    if report.in_order:
        yield f"{counted(report.in_order, 'partition')} had this order already; --force sorts again"
    if report.dropped:
        yield f"not compacted, as another commit changed the files: {', '.join(report.dropped)}; run again"
    if report.picks_left and not report.dry_run:
        refused = report.error_class == "ProofError"
        yield f"{counted(report.picks_left, 'pick')} left to do" + ("" if refused else "; run again")
    for pick in report.planned if report.dry_run else ():
        yield f"would do {pick}"
    if report.forecast is not None:
        yield str(report.forecast)
    if report.engine_reason and not report.nothing_to_do:
        yield f"engine {report.engine}: {report.engine_reason}"
    if report.proof and not report.dry_run and not report.nothing_to_do:
        yield f"proven on {report.engine}: {report.proof}"
