"""This module has the commands on configured catalogs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.output import print_rows
from lakecore.cli.session import session_of
from lakecore.errors import without_secrets

__all__ = ["catalogs", "create_catalog", "drop_catalog"]

CatalogName = Annotated[str, typer.Argument(metavar="CATALOG", help="Name the catalog.")]


def catalogs(context: typer.Context) -> None:
    """List the configured catalogs: of `create-catalog`, lakecore.toml and LAKECORE_CATALOG__ variables.

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


def create_catalog(
    context: typer.Context,
    catalog: CatalogName,
    location: Annotated[
        str,
        typer.Option(
            "--location", help="Name the warehouse: a directory, s3://bucket/path, or a server's name."
        ),
    ],
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set an option; may be repeated.")
    ] = None,
    option_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VARIABLE", help="Take the value from a variable whenever the catalog is opened."
        ),
    ] = None,
    option_file: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=PATH", help="Take the value from a file whenever the catalog is opened."),
    ] = None,
) -> None:
    """Store a catalog under a name, after it could be opened.

    The file is in LAKECORE_CATALOG_STORE, by default ~/.config/lakecore/catalogs, and only its owner can read
    it. Secrets are not stored: name the variable or the file that has them.
    """
    from lakecore.catalog.configured.catalogs import Catalogs  # help needs no tables
    from lakecore.catalog.configured.references import ConfiguredValue, Reference

    session_of(context)
    options: dict[str, ConfiguredValue] = {"warehouse": location, **key_values(option or [], "--option")}
    for kind, pairs in (("env", option_env), ("file", option_file)):
        references = key_values(pairs or [], f"--option-{kind}")
        options |= {key: Reference(kind, name) for key, name in references.items()}
    Catalogs().create(catalog, options)


def drop_catalog(context: typer.Context, catalog: CatalogName) -> None:
    """Remove a catalog that `create-catalog` stored; its databases and tables stay."""
    from lakecore.catalog.configured.catalogs import Catalogs  # help needs no tables

    session_of(context)
    Catalogs().drop(catalog)
