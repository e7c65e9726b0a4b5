"""`delete`: rows that a condition finds."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.output import print_json
from lakecore.cli.session import Session, session_of
from lakecore.table import Commit, DeletedRows, Table

__all__ = ["delete"]


def delete(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    where: Annotated[str, typer.Option(metavar="EXPR", help="Rows for which this is true: a = 1 and b > 2.")],
    option: Annotated[list[str] | None, typer.Option(help="Table option for this run: key=value.")] = None,
    commit_user: Annotated[
        str | None, typer.Option(help="Who commits; with --identifier, once only.")
    ] = None,
    identifier: Annotated[int, typer.Option(help="Number of this commit of that user.")] = 1,
    property_: Annotated[
        list[str] | None, typer.Option("--property", help="Property of the snapshot: key=value.")
    ] = None,
) -> None:
    """Delete rows: by deletion vectors, or by writing deletes when the table has a primary key."""
    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(option or [], "--option"))
    commit = Commit(
        user=commit_user,
        identifier=identifier,
        properties=key_values(property_ or [], "--property"),
    )
    _print(session, loaded, loaded.delete(where, commit))


def _print(session: Session, table: Table, deleted: DeletedRows) -> None:
    result = deleted.commit
    if session.json:
        answer = {
            "table": table.name,
            "rows": deleted.rows,
            "snapshots": list(result.snapshot_ids),
            "duplicate": result.duplicate,
        }
        print_json(session.out, answer)
        return
    if result.duplicate:
        text = "nothing deleted: this commit user and identifier had committed before"
    elif not result.snapshot_ids:
        text = "no such rows"
    else:
        text = f"{deleted.rows} rows deleted in snapshot {result.snapshot_ids[-1]}"
    session.out.print(f"{table.name}: {text}", markup=False)
