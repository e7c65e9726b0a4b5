"""This module has `what-if`, which replays maintenance with other options on the history of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import OneTable
from lakecore.cli.output import print_json, size_text, table_of, time_text
from lakecore.cli.session import session_of
from lakecore.jobs.definitions.what_if import WhatIf

if TYPE_CHECKING:
    from lakecore.jobs.what_if import Report
    from lakecore.jobs.what_if.report import (
        CompactionFigures,
        ExpiryFigures,
        PartitionFigures,
        PartitionRun,
    )

__all__ = ["what_if"]

_COMPACTION = (
    "compaction",
    "compactions",
    "picks",
    "certain",
    "read",
    "written",
    "write amplification",
    "average runs",
    "most runs",
    "files",
    "takes s",
)
_MOST_RUNS = 5
_EXPIRY = ("expiry", "snapshots", "files", "size", "average size", "peak size", "removed", "takes s")
_PARTITIONS = (
    "partitions",
    "expired",
    "left",
    "files",
    "size",
    "rows",
    "average size",
    "peak size",
    "removed",
    "removed rows",
    "uncertain",
)


def what_if(context: typer.Context, table: OneTable, options: JobOptions[WhatIf]) -> None:
    """Replay maintenance with other options on the history of a table, and say what they would have cost and
    saved; nothing is changed.
    """
    from lakecore.jobs import what_if as jobs

    session = session_of(context)
    report = jobs.run(options.job(table=table), session.catalog)
    if session.json:
        print_json(session.out, report.to_json())
        return
    if report.expiry:
        session.out.print(table_of(_EXPIRY, map(_expiry_row, report.expiry), whole=1))
    if report.partitions:
        session.out.print(table_of(_PARTITIONS, map(_partition_row, report.partitions), whole=1))
    if report.compaction:
        rows = map(_compaction_row, report.compaction)
        session.out.print(table_of(_COMPACTION, rows, whole=1))
    for line in _remarks(report):
        session.out.print(line, markup=False)


def _expiry_row(one: ExpiryFigures) -> list[Any]:
    return [
        one.variant,
        one.snapshots,
        one.files,
        size_text(one.bytes),
        size_text(one.average_bytes),
        size_text(one.peak_bytes),
        size_text(one.removed_bytes) if one.removed_files else None,
        f"{one.seconds:.1f}" if one.removed_files else None,
    ]


def _partition_row(one: PartitionFigures) -> list[Any]:
    return [
        one.variant,
        one.expired if one.options else None,
        one.partitions,
        one.files,
        size_text(one.bytes),
        one.rows,
        size_text(one.average_bytes),
        size_text(one.peak_bytes),
        size_text(one.removed_bytes) if one.removed_files else None,
        one.removed_rows if one.removed_files else None,
        size_text(one.uncertain_bytes) if one.uncertain_bytes else None,
    ]


def _compaction_row(one: CompactionFigures) -> list[Any]:
    replayed = one.seconds is not None
    return [
        one.variant,
        one.compactions,
        one.picks if replayed else None,
        one.exact_picks if replayed else None,
        size_text(one.read_bytes),
        size_text(one.written_bytes),
        one.write_amplification,
        one.average_runs,
        one.most_runs,
        one.files,
        f"{one.seconds:.1f}" if one.seconds is not None else None,
    ]


def _remarks(report: Report) -> Iterator[str]:
    often = "after each commit" if report.every_ms is None else f"every {report.every_ms / 60_000:g} minutes"
    yield f"from {time_text(report.start_ms)} to {time_text(report.until_ms)}, {often}"
    for one in report.expiry:
        yield from (
            f"{one.variant}: only {holding.name} keeps {size_text(holding.bytes)}" for holding in one.holdings
        )
        yield from (
            f"{one.variant}: {tag} could not have been created, because its snapshot had expired"
            for tag in one.impossible_tags
        )
    for two in report.partitions[-1:]:
        yield from (_run_text(run) for run in two.runs[-_MOST_RUNS:])
    yield from report.notes
    yield from (f"assumed: {sentence}" for sentence in report.assumptions)


def _run_text(run: PartitionRun) -> str:
    names = "; ".join(run.partitions[:_MOST_RUNS])
    more = len(run.partitions) - _MOST_RUNS
    names += f" and {more} more" if more > 0 else ""
    return f"{time_text(run.time_ms)}: {names} would have expired: {run.rows} rows, {size_text(run.bytes)}"
