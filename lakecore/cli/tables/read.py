"""This module has the command `read`, which prints rows of a table at a snapshot, tag, branch or time, or
what changed between two of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import Session, session_of
from lakecore.cli.tables.formats import OutputFormat
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.scan.startup import Incremental, IncrementalMode
from lakecore.types.text import parse_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_names", "millis", "read"]

_TABLE_ROWS = 1000


@dataclass(frozen=True)
class ReadState:
    """It says which state of the table is read, or which interval of changes."""

    snapshot: Annotated[int | None, typer.Option(help="Use the snapshot with this id.")] = None
    tag: Annotated[str | None, typer.Option(help="Use the snapshot of this tag.")] = None
    branch: Annotated[str | None, typer.Option(help="Read this branch.")] = None
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Read the last snapshot up to this time: ms since 1970, or 'YYYY-MM-DD HH:MM:SS' (UTC)."
        ),
    ] = None
    watermark: Annotated[
        int | None, typer.Option(help="Read the first snapshot with at least this watermark (ms).")
    ] = None
    incremental: Annotated[
        str | None,
        typer.Option(
            metavar="START..END", help="Read what changed after START up to END: snapshots, tags or times."
        ),
    ] = None
    mode: Annotated[
        IncrementalMode, typer.Option(help="Choose which changes --incremental reads.", case_sensitive=False)
    ] = IncrementalMode.AUTO
    option: Annotated[
        list[str] | None,
        typer.Option(help="Set an option of the table for this run, such as scan.version=v1."),
    ] = None


@dataclass(frozen=True)
class ReadRows:
    """It says which rows and columns are read."""

    where: Annotated[
        str | None, typer.Option(help="Filter, as in SQL: \"a = 1 and b in ('x', 'y') or m['key'] > 5\".")
    ] = None
    columns: Annotated[str | None, typer.Option(help="Print only these columns: a,b.")] = None
    limit: Annotated[int | None, typer.Option(min=0, help="Read at most so many rows.")] = None


@dataclass(frozen=True)
class ReadOutput:
    """These options say where rows are written."""

    form: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format", help="Print in this format; by default it is a table on a terminal, else jsonl."
        ),
    ] = None
    output: Annotated[str | None, typer.Option(help="Write to this file instead.")] = None


def read(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    state: ReadState,
    rows: ReadRows,
    target: ReadOutput,
) -> None:
    """Print rows.

    With jsonl every line is an object: `_kind` and the columns, or just the columns that --columns names.
    Of changes the kind is always told; other formats have it in a first column, rowkind.
    """
    from lakecore.cli.tables.row_output import RowOutput  # help needs no tables
    from lakecore.read.source.changed_rows import ChangedRows, DiffRows
    from lakecore.read.source.resolve_blobs import without_resolved_blobs
    from lakecore.system.change_log import AuditRows

    session = session_of(context)
    chosen = target.form or _default_format(session, target.output)
    shortened = chosen is OutputFormat.TABLE and target.output is None and rows.limit is None
    scan = session.catalog.load_table(table, key_values(state.option or [], "--option")).scan(
        snapshot=state.snapshot,
        tag=state.tag,
        branch=state.branch,
        timestamp_ms=None if state.timestamp is None else millis(state.timestamp, "--timestamp"),
        watermark=state.watermark,
        incremental=None if state.incremental is None else Incremental.parse(state.incremental, state.mode),
        where=rows.where,
        columns=None if rows.columns is None else column_names(rows.columns),
        limit=_TABLE_ROWS if shortened else rows.limit,
    )
    changes = isinstance(without_resolved_blobs(scan.source), ChangedRows | DiffRows)
    if changes and chosen is not OutputFormat.JSONL:
        scan = replace(scan, source=AuditRows(scan.source), columns=("rowkind", *scan.columns))
    out = RowOutput(session, scan.row_type, target.output)
    needs_kinds = rows.columns is None or changes
    batches = scan.to_batches(kinds=needs_kinds and chosen is OutputFormat.JSONL)
    if target.output is None and sys.stdout.isatty():
        out.write(batches, chosen)
    else:
        with session.counting(f"reading {table}") as count:
            out.write(_count(batches, count), chosen)
    if shortened and out.rows == _TABLE_ROWS:
        session.note(f"only the first {_TABLE_ROWS} rows; say --limit, or --format jsonl for all")


def _count(batches: Iterator[pa.RecordBatch], count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        count(batch.num_rows)
        yield batch


def _default_format(session: Session, output: str | None) -> OutputFormat:
    if output is not None:
        suffix = output.rpartition(".")[2].lower()
        if suffix in {form.value for form in OutputFormat}:
            return OutputFormat(suffix)
    return OutputFormat.TABLE if sys.stdout.isatty() and not session.json else OutputFormat.JSONL


def column_names(text: str) -> list[str]:
    """Parse `a, b` as a list of names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def millis(text: str, option: str) -> int:
    """Parse milliseconds since the epoch, or a time. Raises InvalidInputError naming `option`."""
    if re.fullmatch(r"\s*\d{1,15}\s*", text):
        return int(text)
    try:
        return parse_timestamp(text.strip()) // 1_000_000
    except ValueError as err:
        raise InvalidInputError(
            f"{option} {text!r}: {err}, or milliseconds since 1970; times are UTC"
        ) from err
