"""This module has the command `stream`, which prints the changes of a table, snapshot by snapshot, as JSON
lines.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import session_of
from lakecore.cli.tables.read import column_names, millis
from lakecore.data_class import dataclass
from lakecore.scan.startup import StartupMode

if TYPE_CHECKING:
    from lakecore.read.source.stream import Changes, Stream

__all__ = ["stream"]


@dataclass(frozen=True)
class StreamStart:
    """These options say where the stream starts."""

    from_snapshot: Annotated[int | None, typer.Option(help="Start with the changes of this snapshot.")] = None
    mode: Annotated[
        StartupMode | None, typer.Option(help="Start here; by default with all rows of the table.")
    ] = None
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Start with the first snapshot since: ms since 1970, or 'YYYY-MM-DD HH:MM:SS' (UTC)."
        ),
    ] = None
    next_snapshot: Annotated[
        int | None,
        typer.Option(
            help="Start at this snapshot, which an earlier stream reported; a snapshot that has expired "
            "is an error."
        ),
    ] = None
    branch: Annotated[str | None, typer.Option(help="Read this branch.")] = None


@dataclass(frozen=True)
class StreamReading:
    """These options say how long the stream is read, and under which name."""

    consumer: Annotated[
        str | None,
        typer.Option(help="Resume at the position of this consumer, and store its position in the table."),
    ] = None
    max_snapshots: Annotated[
        int | None, typer.Option(min=1, help="End after the changes of so many snapshots.")
    ] = None
    follow: Annotated[
        float | None, typer.Option(min=0.01, help="Wait for more; look every so many seconds.")
    ] = None


@dataclass(frozen=True)
class StreamRows:
    """It says which rows and columns are read."""

    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None
    where: Annotated[str | None, typer.Option(help="Filter, as in SQL.")] = None
    columns: Annotated[str | None, typer.Option(help="Print only these columns: a,b.")] = None
    update_before: Annotated[
        bool, typer.Option(help="Print rows of kind -U; readers that replace rows by key need none.")
    ] = True


def stream(
    context: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="DB.TABLE", help="Name DB.TABLE, its $audit_log or its $binlog.")
    ],
    start: StreamStart,
    reading: StreamReading,
    rows: StreamRows,
) -> None:
    """Print what changed, as JSON lines: `_snapshot`, `_kind` (+I, -U, +U, -D) and the columns.

    It ends when there is no more, unless told to --follow. With --consumer the position is kept after the
    rows of each snapshot are printed: a reader that was stopped gets the last ones again.
    """
    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(rows.option or [], "--option"))
    opened_stream = loaded.stream(
        snapshot=start.from_snapshot,
        mode=None if start.mode is None else start.mode.value,
        timestamp_ms=None if start.timestamp is None else millis(start.timestamp, "--timestamp"),
        next_snapshot=start.next_snapshot,
        branch=start.branch,
        consumer=reading.consumer,
        where=rows.where,
        columns=None if rows.columns is None else column_names(rows.columns),
        update_before=rows.update_before,
    )
    rest = reading.max_snapshots
    while rest is None or rest > 0:
        changes = opened_stream.poll()
        if changes is None:
            if reading.follow is None or opened_stream.ended:
                break
            opened_stream.wait(reading.follow)
            continue
        _print(changes)
        rest = None if rest is None else rest - 1
        _keep(opened_stream)
    _keep(opened_stream)
    session.note(f"next snapshot: {opened_stream.next_snapshot}")


def _print(changes: Changes) -> None:
    from lakecore.cli.tables.row_output import json_lines  # help needs no tables

    head = f'{{"_snapshot":{changes.snapshot.id},'
    for batch in changes.to_batches():
        lines = json_lines(batch, changes.rows.row_type)
        sys.stdout.buffer.writelines(f"{head}{line[1:]}\n".encode() for line in lines)
    sys.stdout.buffer.flush()


def _keep(stream: Stream) -> None:
    if stream.consumer is not None:
        stream.acknowledge()
