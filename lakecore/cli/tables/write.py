"""This module has `write`, which writes the rows of a file into a table and then compacts and expires,
unless the table is write-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.engine import Engine, executor, key_values
from lakecore.cli.output import end_on_errors, print_json
from lakecore.cli.session import Session, session_of
from lakecore.cli.tables.formats import InputFormat
from lakecore.data_class import dataclass
from lakecore.types.counted import counted

if TYPE_CHECKING:  # help needs no tables
    import pyarrow as pa

    from lakecore.commit.request import CommitResult
    from lakecore.jobs.table_services import ServiceReports
    from lakecore.table import Commit, Table

__all__ = ["write"]

_ALL, _DYNAMIC = "all", "dynamic"


@dataclass(frozen=True)
class InputOptions:
    """These options say how the file is read and what its rows replace."""

    form: Annotated[
        InputFormat | None,
        typer.Option(
            "--format",
            help="Use this format; by default it follows from the extension, and standard input is jsonl.",
        ),
    ] = None
    overwrite: Annotated[
        str | None,
        typer.Option(
            help="Replace rows: 'all', 'dynamic' (partitions with new rows), or partitions 'dt=a,hh=b;dt=c'."
        ),
    ] = None
    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None


@dataclass(frozen=True)
class CommitName:
    """It names the commit, and says what its snapshot records."""

    commit_user: Annotated[
        str | None, typer.Option(help="Commit as this user; with --identifier the commit is made only once.")
    ] = None
    identifier: Annotated[
        int, typer.Option(help="Use this number for the commit; it is unique for its user.")
    ] = 1
    watermark: Annotated[
        int | None, typer.Option(help="Give the snapshot this watermark, in milliseconds since 1970.")
    ] = None
    watermark_column: Annotated[
        str | None,
        typer.Option(help="The watermark is the latest time of a column, less a delay: 'ts - 5 s'."),
    ] = None
    property_: Annotated[
        list[str] | None, typer.Option("--property", help="Set a property of the snapshot: key=value.")
    ] = None


@dataclass(frozen=True)
class CompactionAfter:
    """These options belong to the compaction that follows the write."""

    no_compact: Annotated[bool, typer.Option("--no-compact", help="Leave compaction to another job.")] = False
    engine: Annotated[Engine, typer.Option(help="Run the compaction here.")] = Engine.LOCAL
    master: Annotated[str | None, typer.Option(help="Run the compaction on this Spark master.")] = None


def write(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Read this file; '-' is standard input.")],
    input_options: InputOptions,
    name: CommitName,
    after: CompactionAfter,
) -> None:
    """Append rows, or upsert them when the table has a primary key (`_kind`: +I, -U, +U, -D)."""
    from lakecore.cli.tables.input_files import read_input
    from lakecore.table import Commit
    from lakecore.write.rows.event_time import WATERMARK_COLUMN

    session = session_of(context)
    options = key_values(input_options.option or [], "--option")
    if name.watermark_column is not None:
        options[WATERMARK_COLUMN.key] = name.watermark_column
    loaded = session.catalog.load_table(table, options)
    commit = Commit(
        user=name.commit_user,
        identifier=name.identifier,
        watermark=name.watermark,
        properties=key_values(name.property_ or [], "--property"),
    )
    with session.counting(f"writing {table}") as count:
        counter = _Counter(read_input(file, input_options.form, loaded.schema.row_type), count)
        result = _write(loaded, counter, input_options.overwrite, commit)
    reports = _services(session, loaded, result, after)
    _print(session, loaded, counter.rows, result, reports)
    session.warn(loaded.name, (*loaded.warnings, *result.notes))
    if reports is not None:
        compacted = () if reports.compaction is None else (reports.compaction,)
        end_on_errors(session, [*compacted, *reports.expiries])


class _Counter:
    """A counter of the batches that are written to the table."""

    def __init__(self, batches: Iterator[pa.RecordBatch], count: Callable[[int], None]) -> None:
        self._batches = batches
        self._count = count
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            self._count(batch.num_rows)
            yield batch


def _write(table: Table, rows: _Counter, overwrite: str | None, commit: Commit) -> CommitResult:
    if overwrite is None:
        return table._add(rows, commit)
    if overwrite in (_ALL, _DYNAMIC):
        return table._replace(rows, table._overwrite(None, overwrite == _DYNAMIC), commit)
    return table._replace(rows, table._overwrite(overwrite, None), commit)


def _services(
    session: Session, table: Table, result: CommitResult, options: CompactionAfter
) -> ServiceReports | None:
    """Run the services that follow the write; None if there is nothing that they follow."""
    if table.options.write_only or result.duplicate or not result.snapshot_ids:
        return None
    from lakecore.jobs.table_services import TableServices  # a write alone does not pay for it

    with executor(options.engine, options.master, {}) as workers:
        services = TableServices(table, session.catalog, executor=workers)
        return services.run(result.snapshot_ids[0], ends_input=True, compacts=not options.no_compact)


def _print(
    session: Session, table: Table, rows: int, result: CommitResult, after: ServiceReports | None
) -> None:
    """Print the result, and what the services did that followed."""
    report = None if after is None else after.compaction
    expiries = () if after is None else after.expiries
    expired = None if after is None else after.expiry
    if session.json:
        answer = {
            "table": table.name,
            "rows": rows,
            "snapshots": list(result.snapshot_ids),
            "duplicate": result.duplicate,
            "notes": list(result.notes),
            "compaction": None if report is None else report.to_json(),
            "expiry": None if expired is None else expired.to_json(),
            "services": [one.to_json() for one in expiries if one is not expired],
        }
        print_json(session.out, answer)
        return
    if result.duplicate:
        text = "nothing written: this commit user and identifier had committed before"
    elif not result.snapshot_ids:
        text = "nothing to write"
    else:
        text = f"{counted(rows, 'row')} in snapshot {result.snapshot_ids[-1]}"
    session.out.print(f"{table.name}: {text}", markup=False)
    if report is not None:
        session.out.print(f"{table.name}: {_after_text(report)}", markup=False)
    for one in expiries:
        text = _expiry_text(one) if one is expired else _service_text(one)
        if text:
            session.out.print(f"{table.name}: {text}", markup=False)


def _expiry_text(expired: Any) -> str:
    if expired.error is not None:
        return f"the rows are committed, but snapshots did not expire: {expired.error}"
    if expired.snapshots:
        first, last = expired.snapshots[0], expired.snapshots[-1]
        one = first == last
        return f"snapshot {first} has expired" if one else f"snapshots {first} to {last} have expired"
    return str(expired.on_hold or "")


def _service_text(report: Any) -> str:
    if report.error is not None:
        return f"the rows are committed, but {report.job} failed: {report.error}"
    return "" if report.nothing_to_do or report.skipped else f"{report.job} was run"


def _after_text(report: Any) -> str:
    if report.error is not None:
        return f"the rows are committed, but their compaction failed: {report.error}"
    if report.nothing_to_do:
        return "nothing to compact"
    return (
        f"compacted {counted(report.files_in, 'file')} into {report.files_out} (snapshot {report.snapshot})"
    )
