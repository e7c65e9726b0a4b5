"""This module has the commands that change rows by a condition or by a source: `update` and `merge-into`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, TypeVar

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import session_of
from lakecore.cli.tables.delete import CommitOptions
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.types.counted import counted
from lakecore.write.row_level.clauses import (
    MatchedRows,
    MergeRules,
    UnmatchedRows,
    WhenMatched,
    WhenNotMatched,
)

__all__ = ["merge_into", "update"]

_IF = re.compile(r"\s+if\s+", re.IGNORECASE)


def update(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="COLUMN=VALUE", help="Give the column this value; empty is null; repeatable."
        ),
    ],
    commit_options: CommitOptions,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Update rows for which this is true: a = 1 and b > 2.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Update all rows.")] = False,
) -> None:
    """Set columns of the rows that meet a condition; without a primary key they are replaced."""
    from lakecore.cli.tables.changed_rows import ChangedRows  # help needs no tables
    from lakecore.cli.tables.input_files import typed_values

    if (where is None) is not all_rows:
        raise InvalidInputError("give either --where or --all")
    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(commit_options.option or [], "--option"))
    values = typed_values(key_values(set_, "--set"), loaded.schema.row_type)
    updated = loaded.update(values, where, commit_options.commit())
    ChangedRows(
        table=loaded,
        rows=updated.rows,
        commit=updated.commit,
        verb="updated",
        message=f"{counted(updated.rows, 'row')} updated",
        nothing="no such rows",
    ).print(session)


@dataclass(frozen=True)
class MergeClauses:
    """These options say what becomes of rows."""

    matched: Annotated[
        MatchedRows, typer.Option(help="Do this with a row of the table that a row of the source matches.")
    ] = MatchedRows.UPDATE
    not_matched: Annotated[
        UnmatchedRows, typer.Option(help="Do this with a row of the source that matches none.")
    ] = UnmatchedRows.INSERT
    delete_not_matched_by_source: Annotated[
        bool, typer.Option("--delete-not-matched-by-source", help="Delete rows of the table without a match.")
    ] = False
    when_matched: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION[ IF EXPR]",
            help="Do this with a row that matches: 'update', 'delete if `source.n` = 0'; the first that is "
            "true applies; repeatable.",
        ),
    ] = None
    when_not_matched: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION[ IF EXPR]",
            help="Do this with a row of the source that matches none: 'insert if `source.n` > 0'; "
            "repeatable.",
        ),
    ] = None

    def rules(self) -> MergeRules:
        """Return the clauses of the merge. Raises InvalidInputError for an action that is none."""
        matched = [
            WhenMatched(action=action, condition=condition)
            for action, condition in _clauses(self.when_matched, "--when-matched", MatchedRows)
        ]
        not_matched = [
            WhenNotMatched(action=action, condition=condition)
            for action, condition in _clauses(self.when_not_matched, "--when-not-matched", UnmatchedRows)
        ]
        return MergeRules(
            matched=self.matched,
            not_matched=self.not_matched,
            delete_not_matched_by_source=self.delete_not_matched_by_source,
            clauses=(*matched, *not_matched),
        )


_Action = TypeVar("_Action", MatchedRows, UnmatchedRows)


def _clauses(
    texts: list[str] | None, option: str, actions: type[_Action]
) -> Iterator[tuple[_Action, str | None]]:
    for text in texts or ():
        word, condition = _IF.split(text.strip(), 1) if _IF.search(text) else (text.strip(), None)
        if word.lower() not in [one.value for one in actions]:
            words = ", ".join(one.value for one in actions)
            raise InvalidInputError(
                f"{option} {text!r}: begin with one of {words}, then 'if' and a condition"
            )
        yield actions(word.lower()), condition


def merge_into(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The source; '-' is standard input.")],
    on: Annotated[list[str], typer.Option(metavar="COLUMN", help="Merge by this column; may be repeated.")],
    clauses: MergeClauses,
    commit_options: CommitOptions,
) -> None:
    """Merge the rows of a file into the table: rows that match are updated, others are inserted.

    The columns that the file has are set. The file is held in memory.
    """
    import pyarrow as pa  # help needs no tables

    from lakecore.cli.tables.changed_rows import ChangedRows
    from lakecore.cli.tables.input_files import read_input

    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(commit_options.option or [], "--option"))
    source = list(read_input(file, None, loaded.schema.row_type))
    if not source:
        raise InvalidInputError(f"{file} has no rows; nothing was merged")
    merged = loaded.merge(pa.Table.from_batches(source), on, clauses.rules(), commit_options.commit())
    counts = {"updated": merged.updated, "deleted": merged.deleted, "inserted": merged.inserted}
    ChangedRows(
        table=loaded,
        rows=sum(counts.values()),
        commit=merged.commit,
        verb="merged",
        message=", ".join(f"{counted(number, 'row')} {name}" for name, number in counts.items()),
        nothing="nothing to merge",
        more=counts,
    ).print(session)
