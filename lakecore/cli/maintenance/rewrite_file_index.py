"""This module has `rewrite-file-index`, which makes the file indexes that files lack and shows how far
indexes reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from lakecore.cli.engine import EngineOptions
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, forecast_text, tables_of
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.jobs.definitions.compaction import RewriteFileIndex
from lakecore.types.counted import counted

if TYPE_CHECKING:
    from lakecore.jobs import rewrite_file_index as jobs

__all__ = ["rewrite_file_index"]


def rewrite_file_index(
    context: typer.Context,
    table: Tables,
    options: JobOptions[RewriteFileIndex],
    engine: EngineOptions,
    concurrency: Concurrency,
) -> None:
    """Make the file indexes that the options ask for and files lack; data files are not written again."""
    from lakecore.jobs import rewrite_file_index as jobs

    session = session_of(context)
    work = options.jobs(tables_of(context, table))
    with engine.executors(soon=False) as engines:
        reports = jobs.run_many(work, session.catalog, engines, limits=concurrency.limits())
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        _print(session, reports)
    end_on_errors(session, reports)


def _print(session: Session, reports: Sequence[jobs.Report]) -> None:
    columns = ["table", "result", "files", "rows read", "size", "seconds", "snapshot"]
    session.out.print(table_of(columns, [_row(report) for report in reports], whole=2))
    rows = [row for report in reports for row in _coverage(report)]
    if rows:
        columns = ["table", "index", "type", "files", "lacking", "rows", "lacking", "size", "in options"]
        session.out.print(table_of(columns, rows, whole=3))
    for report in reports:
        for line in _remarks(report):
            session.out.print(f"{report.table}: {line}", markup=False)


def _row(report: jobs.Report) -> list[Any]:
    files, rows = (report.planned, report.rows_planned) if report.dry_run else (report.files, report.rows)
    size = None if report.dry_run else size_text(report.bytes)
    return [report.table, _result(report), files, rows, size, f"{report.seconds:.1f}", report.snapshot]


def _result(report: jobs.Report) -> str:
    if report.error is not None:
        return "failed in part" if report.snapshots else "failed"
    if report.nothing_to_do:
        return "nothing to do"
    if report.dry_run:
        return "planned"
    return "in part" if report.files_left else "rewritten"


def _coverage(report: jobs.Report) -> Iterator[list[Any]]:
    for coverage in report.coverage:
        yield [
            report.table,
            coverage.index,
            coverage.type,
            coverage.files,
            coverage.files_lacking,
            coverage.rows,
            coverage.rows_lacking,
            size_text(coverage.bytes),
            "yes" if coverage.in_options else "no",
        ]


def _remarks(report: jobs.Report) -> Iterator[str]:
    if report.error is not None:
        yield f"error: {' '.join(report.error.split())}"
    yield from (f"warning: {warning}" for warning in report.warnings)
    yield from forecast_text(report)
    if report.engine_reason and not report.nothing_to_do:
        yield f"engine {report.engine}: {report.engine_reason}"
    if report.dropped:
        yield f"{counted(len(report.dropped), 'file')} got no index: another commit replaced them first"
