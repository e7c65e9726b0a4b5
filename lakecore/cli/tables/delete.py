"""This module has `delete`, which deletes the rows that a condition finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import session_of
from lakecore.data_class import dataclass
from lakecore.types.counted import counted

if TYPE_CHECKING:
    from lakecore.table import Commit

__all__ = ["delete"]


@dataclass(frozen=True)
class CommitOptions:
    """These options name the commit, and change options of the table for it."""

    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None
    commit_user: Annotated[
        str | None, typer.Option(help="Commit as this user; with --identifier the commit is made only once.")
    ] = None
    identifier: Annotated[
        int, typer.Option(help="Use this number for the commit; it is unique for its user.")
    ] = 1
    property_: Annotated[
        list[str] | None, typer.Option("--property", help="Set a property of the snapshot: key=value.")
    ] = None

    def commit(self) -> Commit:
        """Return the name of the commit. Raises InvalidInputError for a property that is no pair."""
        from lakecore.table import Commit  # help needs no tables

        return Commit(
            user=self.commit_user,
            identifier=self.identifier,
            properties=key_values(self.property_ or [], "--property"),
        )


def delete(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    where: Annotated[
        str, typer.Option(metavar="EXPR", help="Delete rows for which this is true: a = 1 and b > 2.")
    ],
    commit_options: CommitOptions,
) -> None:
    """Delete rows: by deletion vectors, or by writing deletes when the table has a primary key."""
    from lakecore.cli.tables.changed_rows import ChangedRows  # help needs no tables

    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(commit_options.option or [], "--option"))
    deleted = loaded.delete(where, commit_options.commit())
    ChangedRows(
        table=loaded,
        rows=deleted.rows,
        commit=deleted.commit,
        verb="deleted",
        message=f"{counted(deleted.rows, 'row')} deleted",
        nothing="no such rows",
    ).print(session)
