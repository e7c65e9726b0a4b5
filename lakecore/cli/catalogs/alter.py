"""This module has the command `alter`, which changes columns and options of a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lakecore.catalog.change_text import (
    changes_from_json,
    parse_add,
    parse_move,
    parse_pair,
    parse_path,
    parse_type_change,
)
from lakecore.cli.output import print_json
from lakecore.cli.session import session_of
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.schema_change import (
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    SetTableComment,
    UnsetOption,
)

__all__ = ["alter"]

_Texts = list[str] | None


@dataclass(frozen=True)
class SchemaChanges:
    """These options have the changes of the schema."""

    changes: Annotated[
        str | None,
        typer.Option(
            help="Read ordered changes from a JSON file or standard input ('-'), or give the JSON itself."
        ),
    ] = None
    set_: Annotated[_Texts, typer.Option("--set", metavar="KEY=VALUE")] = None
    unset: Annotated[_Texts, typer.Option(metavar="KEY")] = None
    drop: Annotated[_Texts, typer.Option(metavar="COLUMN")] = None
    rename: Annotated[_Texts, typer.Option(metavar="OLD=NEW")] = None
    type_: Annotated[_Texts, typer.Option("--type", metavar="'COLUMN TYPE'")] = None
    nullable: Annotated[_Texts, typer.Option(metavar="COLUMN")] = None
    not_null: Annotated[_Texts, typer.Option(metavar="COLUMN")] = None
    add: Annotated[_Texts, typer.Option(metavar="'COLUMN TYPE [first | after X | before X]'")] = None
    move: Annotated[_Texts, typer.Option(metavar="'COLUMN first | last | after X | before X'")] = None
    comment: Annotated[_Texts, typer.Option(metavar="COLUMN=TEXT")] = None
    default: Annotated[_Texts, typer.Option(metavar="COLUMN=VALUE")] = None
    drop_default: Annotated[_Texts, typer.Option(metavar="COLUMN")] = None
    table_comment: Annotated[str | None, typer.Option(metavar="TEXT")] = None


def alter(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(metavar="DB.TABLE", help="Name the table, or a branch of it: 'DB.TABLE$branch_NAME'."),
    ],
    changes: SchemaChanges,
) -> None:
    """Change the schema of a table, all changes or none.

    Options may be repeated. Changes are made in the order of this help; for another order give
    JSON: [{"op": "add", "name": "c", "type": "INT", "after": "a"}, {"op": "drop", "name": "b"}].
    Fields of nested columns are written with dots: a.b, list.element.b, map.value.b.
    """
    session = session_of(context)
    requests: list[SchemaChange] = (
        [] if changes.changes is None else list(changes_from_json(_json(changes.changes)))
    )
    requests += _each(changes.set_, lambda text: SetOption(*parse_pair(text, "--set")))
    requests += _each(changes.unset, UnsetOption)
    requests += _each(changes.drop, lambda text: DropColumn(parse_path(text)))
    requests += _each(changes.rename, _parse_rename)
    requests += _each(changes.type_, parse_type_change)
    requests += _each(changes.nullable, lambda text: ChangeNullability(parse_path(text), True))
    requests += _each(changes.not_null, lambda text: ChangeNullability(parse_path(text), False))
    requests += _each(changes.add, parse_add)
    requests += _each(changes.move, parse_move)
    requests += _each(changes.comment, _parse_comment)
    requests += _each(changes.default, _parse_default)
    requests += _each(changes.drop_default, lambda text: ChangeDefault(parse_path(text), None))
    if changes.table_comment is not None:
        requests.append(SetTableComment(changes.table_comment or None))
    altered = session.catalog.alter_table(table, requests)
    if session.json:
        print_json(session.out, {"table": altered.name, "schema_id": altered.schema.id})
    else:
        session.out.print(f"altered {altered.name}: schema {altered.schema.id}", markup=False)


def _each(texts: Sequence[str] | None, parse: Callable[[str], SchemaChange]) -> Iterator[SchemaChange]:
    return map(parse, texts or ())


def _parse_rename(text: str) -> RenameColumn:
    old, new = parse_pair(text, "--rename")
    return RenameColumn(parse_path(old), new.strip().strip("`"))


def _parse_comment(text: str) -> ChangeComment:
    name, value = parse_pair(text, "--comment")
    return ChangeComment(parse_path(name), value or None)


def _parse_default(text: str) -> ChangeDefault:
    name, value = parse_pair(text, "--default")
    return ChangeDefault(parse_path(name), value)


def _json(source: str) -> Any:
    text = source if source.lstrip().startswith(("{", "[")) else _text_of(source)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise InvalidInputError(f"changes {source[:60]}: not JSON: {err}") from err


def _text_of(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except FileNotFoundError as err:
        raise NotFoundError(f"changes file {source} does not exist; check the path") from err
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"changes file {source} cannot be read: {err}") from err
