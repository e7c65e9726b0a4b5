"""This module has the commands `drop-table`, `restore-table`, `dropped-tables` and `rename-table`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.output import print_json, print_rows, time_text
from lakecore.cli.session import session_of

__all__ = ["drop_table", "dropped_tables", "rename_table", "restore_table"]

TableName = Annotated[str, typer.Argument(metavar="DB.TABLE")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="A table that does not exist is no error.")]


def drop_table(
    context: typer.Context,
    table: TableName,
    if_exists: IfExists = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete the files for good instead of keeping them.")
    ] = False,
) -> None:
    """Drop a table. Its files are kept until `purge-quarantine`, and `restore-table` takes it back."""
    session = session_of(context)
    record = session.catalog.drop_table(table, if_exists=if_exists, purge=purge)
    if session.json:
        print_json(session.out, {"table": table, "drop": None if record is None or purge else record.id})
    elif record is not None and not purge:
        session.note(f"dropped {table}; `lakecore restore-table {table} --drop {record.id}` restores it")


def restore_table(
    context: typer.Context,
    table: TableName,
    drop: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Restore this drop, as `dropped-tables` names it; by default the last one."
        ),
    ] = None,
) -> None:
    """Restore a table that was dropped and is still kept."""
    session = session_of(context)
    restored = session.catalog.restore_table(table, drop)
    if session.json:
        print_json(session.out, {"table": restored.name, "path": restored.path})
    else:
        session.out.print(f"restored {restored.name} at {restored.path}", markup=False)


def dropped_tables(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(metavar="DB.TABLE", help="List only this table.")] = None,
) -> None:
    """List the tables that were dropped and are still kept."""
    session = session_of(context)
    rows = [
        {
            "table": one.table,
            "drop": one.id,
            "dropped": time_text(one.dropped_ms),
            "by": one.by,
            "state": one.state.value,
        }
        for one in session.catalog.dropped_tables(table)
    ]
    print_rows(session, rows, ["table", "drop", "dropped", "by", "state"])


def rename_table(
    context: typer.Context,
    table: TableName,
    new_name: Annotated[str, typer.Argument(metavar="DB.NEW_NAME")],
    if_exists: IfExists = False,
) -> None:
    """Give a table another name. Stop its writers first."""
    session_of(context).catalog.rename_table(table, new_name, if_exists=if_exists)
