"""This module has the commands on databases, `catalogs` and `repair-catalog`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.output import print_rows
from lakecore.cli.session import session_of
from lakecore.errors import UnsupportedError, without_secrets

__all__ = ["alter_database", "catalogs", "create_database", "drop_database", "repair_catalog"]

DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE", help="Name the database.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Set a property; may be repeated.")
]


def catalogs(context: typer.Context) -> None:
    """List the configured catalogs: those of lakecore.toml and of LAKECORE_CATALOG__ variables.

    No catalog is opened. Values of secrets are shown as ****.
    """
    from lakecore.catalog.catalog_options import METASTORE  # help needs no tables
    from lakecore.catalog.config import read_config

    session = session_of(context)
    rows = []
    for name, options in sorted(read_config(os.environ).items()):
        public = without_secrets(options)
        others = {key: value for key, value in public.items() if key not in ("warehouse", METASTORE)}
        rows.append(
            {
                "catalog": name,
                METASTORE: public.get(METASTORE, "filesystem"),
                "warehouse": public.get("warehouse", ""),
                "options": others
                if session.json
                else ", ".join(f"{k}={v}" for k, v in sorted(others.items())),
            }
        )
    print_rows(session, rows, ["catalog", METASTORE, "warehouse", "options"])


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


def repair_catalog(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE", help="Name the table, whose files exist.")],
) -> None:
    """Add a table whose files exist to the catalog's list of names, with its database."""
    from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog  # help needs no tables

    catalog = session_of(context).catalog
    if not isinstance(catalog, JdbcCatalog):
        raise UnsupportedError(
            "repair-catalog: this catalog has no list of names; it finds the files themselves"
        )
    catalog.repair_table(table)
