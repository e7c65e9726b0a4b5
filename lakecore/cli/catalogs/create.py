"""This module has the command `create`, which makes a table from a JSON definition."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lakecore.cli.output import print_json
from lakecore.cli.session import session_of
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError

__all__ = ["create"]


def create(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    schema: Annotated[
        str,
        typer.Option(help="Read it from this JSON file or standard input ('-'), or give the JSON itself."),
    ],
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the table exists.")
    ] = False,
) -> None:
    """Create a table.

    The definition: {"columns": ["k BIGINT NOT NULL", "a ARRAY<INT>", {"name": "s", "type": "STRING"}],
    "primaryKeys": ["k"], "partitionKeys": [], "options": {"bucket": "1"}}
    """
    session = session_of(context)
    definition = _definition(schema)
    catalog = session.catalog_for_create()
    is_new = True
    try:
        created_table = catalog.create_table(table, definition)
    except AlreadyExistsError:
        if not if_not_exists:
            raise
        created_table, is_new = catalog.create_table(table, definition, if_not_exists=True), False
    if session.json:
        print_json(
            session.out,
            {
                "table": created_table.name,
                "path": created_table.path,
                "schema_id": created_table.schema.id,
                "created": is_new,
                "warnings": list(created_table.warnings),
            },
        )
    else:
        verb = "created" if is_new else "nothing to do: there is"
        session.out.print(f"{verb} {created_table.name} at {created_table.path}", markup=False)
    session.warn(created_table.name, created_table.warnings)


def _definition(source: str) -> dict[str, Any]:
    text = source if source.lstrip().startswith("{") else _text_of(source)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise InvalidInputError(f"schema {source[:60]}: not JSON: {err}") from err
    if not isinstance(raw, dict):
        raise InvalidInputError(f'schema {source[:60]}: write an object such as {{"columns": ["k BIGINT"]}}')
    return raw


def _text_of(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except FileNotFoundError as err:
        raise NotFoundError(f"schema file {source} does not exist; check the path") from err
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"schema file {source} cannot be read: {err}") from err
