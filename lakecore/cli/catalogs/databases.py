"""This module has the commands on databases."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import session_of

__all__ = ["alter_database", "create_database", "drop_database"]

DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE", help="Name the database.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Set a property; may be repeated.")
]


def create_database(
    context: typer.Context,
    database: DatabaseName,
    properties: Properties = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A database that exists is no error.")
    ] = False,
) -> None:
    """Create a database."""
    session = session_of(context)
    pairs = key_values(properties or [], "--property")
    session.catalog_for_create().create_database(database, if_not_exists=if_not_exists, properties=pairs)


def alter_database(
    context: typer.Context,
    database: DatabaseName,
    properties: Properties = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Remove a property; may be repeated.")
    ] = None,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A database that does not exist is no error.")
    ] = False,
) -> None:
    """Set and remove properties of a database, where the catalog stores any."""
    pairs = key_values(properties or [], "--property")
    session_of(context).catalog.alter_database(database, pairs, remove or (), if_exists=if_exists)


def drop_database(
    context: typer.Context,
    database: DatabaseName,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables, too.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A database that does not exist is no error.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete the files of its tables for good instead of keeping them.")
    ] = False,
) -> None:
    """Drop a database; with --cascade its tables too, which `restore-table` takes back."""
    session_of(context).catalog.drop_database(database, if_exists=if_exists, cascade=cascade, purge=purge)
