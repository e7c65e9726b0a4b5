"""This module has the job that computes the statistics of a table's rows for query planners."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.definitions.rows import Analyze as Job
from lakecore.jobs.engines.forecast_choice import choose_engine
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.counts import Change, counts_of_entries
from lakecore.maintain.analyze.apply import commit_statistics
from lakecore.maintain.analyze.columns import can_analyze
from lakecore.maintain.analyze.statistics import Statistics
from lakecore.maintain.analyze.units import analyze_splits
from lakecore.maintain.deletion.runs import Removal, RunState
from lakecore.maintain.forecast.plan import Work
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.support import check_readable
from lakecore.types.datatypes import DataField

__all__ = ["ALL_COLUMNS", "Job", "run"]

ALL_COLUMNS = "all"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Compute and commit the statistics. Raises NotFoundError, InvalidInputError, UnsupportedError before
    anything is written, CommitConflictError when the schema was changed meanwhile.
    """
    return run_on_table(ChoreKind("analyze", units=True), job, lake, partial(_analyze, job), executor, clock)


def _analyze(job: Job, chore: Chore) -> ChoreResult | Report:
    check_readable(job.table, chore.table.schema, chore.table.options)
    latest = chore.target.snapshots.latest()
    fields, left_out = _fields(job, chore)
    notes = (f"columns whose types have no statistics: {', '.join(left_out)}",) if left_out else ()
    report = replace(chore.report, names=tuple(field.name for field in fields), notes=notes)
    if latest is None:
        return replace(report, nothing_to_do=True)
    author = chore.author(job)
    if (landed := chore.committed_earlier(author, CommitKind.ANALYZE)) is not None:
        return replace(landed, names=report.names)
    live = chore.table._scanner.live_entries(latest)
    report = replace(report, files=len(live), bytes=int(live.file_size.sum()))
    work = Work(files=report.files, bytes=report.bytes, rows=int(live.row_count.sum()))
    if job.dry_run:
        report = replace(report, notes=(*notes, f"would read up to {work.rows} rows of snapshot {latest.id}"))
        return ChoreResult(report, counts_of_entries(chore.target, live), Change(snapshots=1).of, work)
    notes = (*notes, *choose_engine(chore.sweeper.executor, chore.target, "analyze", work))
    runs = chore.sweeper.runs
    record = runs.begin(chore.target.name, "analyze", Removal(), parameters=parameters(job))
    statistics: Statistics | None = None
    try:
        statistics = _statistics(chore, latest, fields, live)
        snapshot = commit_statistics(chore.target, statistics, author)
    finally:
        runs.finish(record, RunState.DONE, {} if statistics is None else {"rows": statistics.rows})
    summary = f"{statistics.rows} rows, about {statistics.size} bytes, of snapshot {latest.id}"
    return ChoreResult(replace(report, run=record.id, snapshot=snapshot, notes=(*notes, summary)), work=work)


def _fields(job: Job, chore: Chore) -> tuple[list[DataField], list[str]]:
    """Return the columns to analyze, and the names of those that cannot have statistics although all were
    asked for.
    """
    schema = chore.table.schema
    if job.columns == (ALL_COLUMNS,):
        chosen = [field for field in schema.fields if can_analyze(field)]
        return chosen, [field.name for field in schema.fields if not can_analyze(field)]
    by_name = {field.name: field for field in schema.fields}
    for name in job.columns:
        if name not in by_name:
            raise InvalidInputError(
                f"{job.table} has no column {name!r}; its columns are: {', '.join(by_name)}"
            )
        if not can_analyze(by_name[name]):
            raise InvalidInputError(
                f"{job.table}: column {name} is of type {by_name[name].type}, which has no statistics"
            )
    return [by_name[name] for name in dict.fromkeys(job.columns)], []


def _statistics(chore: Chore, latest: Snapshot, fields: list[DataField], live: ManifestEntries) -> Statistics:
    """Read the rows of `latest` as a query does, on the executor."""
    table, sweeper = chore.table, chore.sweeper
    reader = SnapshotRows(table._scanner, table._read_context(), latest)
    result = analyze_splits(reader.context, reader.plan(None), fields, sweeper.executor, sweeper.alive)
    size, stored = int(live.file_size.sum()), int(live.row_count.sum())
    return Statistics(
        snapshot_id=latest.id,
        schema_id=table.schema.id,
        rows=result.rows,
        size=size * result.rows // max(stored, 1),
        columns={name: column.to_json() for name, column in result.columns.items()},
    )
