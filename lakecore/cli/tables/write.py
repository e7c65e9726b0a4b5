"""This module has `write`, which writes the rows of a file into a table and then compacts and expires,
unless the table is write-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.engine import Engine, executor, key_values
from lakecore.cli.maintenance.compact import compact_one, report_problem
from lakecore.cli.output import end_on_errors, print_json
from lakecore.cli.session import Session, session_of
from lakecore.cli.tables.formats import InputFormat
from lakecore.errors import LakeError
from lakecore.types.counted import counted

if TYPE_CHECKING:  # help needs no tables
    import pyarrow as pa

    from lakecore.commit.request import CommitResult
    from lakecore.table import Commit, Table

__all__ = ["write"]

_ALL, _DYNAMIC = "all", "dynamic"


@dataclass(frozen=True)
class InputOptions:
    """These options say how the file is read and what its rows replace."""

    form: Annotated[
        InputFormat | None, typer.Option("--format", help="Default: by the extension; jsonl for '-'.")
    ] = None
    overwrite: Annotated[
        str | None,
        typer.Option(
            help="Replace rows: 'all', 'dynamic' (partitions with new rows), or partitions 'dt=a,hh=b;dt=c'."
        ),
    ] = None
    option: Annotated[list[str] | None, typer.Option(help="Table option for this run: key=value.")] = None


@dataclass(frozen=True)
class CommitName:
    """It names the commit, and says what its snapshot records."""

    commit_user: Annotated[str | None, typer.Option(help="Who commits; with --identifier, once only.")] = None
    identifier: Annotated[int, typer.Option(help="Number of this commit of that user.")] = 1
    watermark: Annotated[int | None, typer.Option(help="Milliseconds since 1970.")] = None
    property_: Annotated[
        list[str] | None, typer.Option("--property", help="Property of the snapshot: key=value.")
    ] = None


@dataclass(frozen=True)
class CompactionAfter:
    """These options belong to the compaction that follows the write."""

    no_compact: Annotated[bool, typer.Option("--no-compact", help="Leave compaction to another job.")] = False
    engine: Annotated[Engine, typer.Option(help="Where the compaction runs.")] = Engine.LOCAL
    master: Annotated[str | None, typer.Option(help="Spark master of the compaction.")] = None


def write(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="'-' is standard input.")],
    input_options: InputOptions,
    name: CommitName,
    after: CompactionAfter,
) -> None:
    """Append rows, or upsert them when the table has a primary key (`_kind`: +I, -U, +U, -D)."""
    from lakecore.cli.tables.input_files import read_input
    from lakecore.table import Commit

    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(input_options.option or [], "--option"))
    commit = Commit(
        user=name.commit_user,
        identifier=name.identifier,
        watermark=name.watermark,
        properties=key_values(name.property_ or [], "--property"),
    )
    with session.counting(f"writing {table}") as count:
        counter = _Counter(read_input(file, input_options.form, loaded.schema.row_type), count)
        result = _write(loaded, counter, input_options.overwrite, commit)
    report = None
    if result.snapshot_ids and not result.duplicate and not after.no_compact and _compacts(loaded):
        report = _compact_after(session, loaded, result, after.engine, after.master)
    expired = None
    if result.snapshot_ids and not result.duplicate:
        from lakecore.jobs.after_write import expire_after_write  # a write alone does not pay for it

        expired = expire_after_write(loaded, session.catalog)
    _print(session, loaded, counter.rows, result, (report, expired))
    session.warn(loaded.name, (*loaded.warnings, *result.notes))
    end_on_errors(session, [one for one in (report, expired) if one is not None])


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
        return table.write(rows, commit)
    if overwrite in (_ALL, _DYNAMIC):
        return table.overwrite(rows, dynamic=overwrite == _DYNAMIC, commit=commit)
    return table.overwrite(rows, overwrite, commit=commit)


def _compacts(table: Table) -> bool:
    """Return whether writers compact the table. Rule of the format: they leave the clustering of tables
    without buckets to compactions.
    """
    from lakecore.compact.kinds.sort.plan import clusters
    from lakecore.metadata.options import BucketMode

    if table.options.write_only:
        return False
    return table.options.bucket_mode is not BucketMode.BUCKET_UNAWARE or not clusters(table.schema)


def _compact_after(
    session: Session, table: Table, result: CommitResult, engine: Engine, master: str | None
) -> Any:
    """Compact the table and return the report. The rows are committed by now, which every error must say."""
    try:
        with executor(engine, master, {}) as workers:
            return compact_one(session, table, workers)
    except LakeError as err:
        raise type(err)(
            *err.args[:-1],
            f"{err.args[-1]} (the rows are committed in snapshot {result.snapshot_ids[-1]}; "
            "only the compaction after it failed: run compact, or write with --no-compact)",
        ) from err


def _print(session: Session, table: Table, rows: int, result: CommitResult, after: tuple[Any, Any]) -> None:
    """Print the result. `after` are the reports of the compaction and of the expiry that followed, if they
    did.
    """
    report, expired = after
    if session.json:
        answer = {
            "table": table.name,
            "rows": rows,
            "snapshots": list(result.snapshot_ids),
            "duplicate": result.duplicate,
            "notes": list(result.notes),
            "compaction": None if report is None else report.to_json(),
            "expiry": None if expired is None else expired.to_json(),
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
    if expired is not None and (text := _expiry_text(expired)):
        session.out.print(f"{table.name}: {text}", markup=False)


def _expiry_text(expired: Any) -> str:
    if expired.error is not None:
        return f"the rows are committed, but snapshots did not expire: {expired.error}"
    if expired.snapshots:
        first, last = expired.snapshots[0], expired.snapshots[-1]
        one = first == last
        return f"snapshot {first} has expired" if one else f"snapshots {first} to {last} have expired"
    return str(expired.held or "")


def _after_text(report: Any) -> str:
    problem = report_problem(report)
    if problem is not None:
        return f"compaction failed: {problem}"
    if report.nothing_to_do:
        return "nothing to compact"
    return (
        f"compacted {counted(report.files_in, 'file')} into {report.files_out} (snapshot {report.snapshot})"
    )
