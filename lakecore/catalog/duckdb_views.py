"""This module shows the tables of a catalog to DuckDB, as views that read their latest snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from lakecore.catalog.catalog import Catalog
from lakecore.errors import UnsupportedError

__all__ = ["duckdb"]


def duckdb(connection: Any, catalog: Catalog, tables: Iterable[str] | None = None) -> tuple[str, ...]:
    """Make a view of each table, `db.t`, in a connection of DuckDB, and return their names.

    Columns and filters of a query are pushed down, and each query reads the latest snapshot, with the columns
    of now.

    `tables` None means all tables, which costs a look at each, and leaves out those that this release cannot
    read. A view of the same name is replaced. Raises NotFoundError, and UnsupportedError for a table of
    `tables` that this release cannot read.
    """
    from lakecore.read.source.dataset import ScanDataset  # brings pandas in

    must_be_readable = tables is not None
    names = (
        list(tables)
        if tables is not None
        else [
            f"{database}.{table}"
            for database in catalog.list_databases()
            for table in catalog.list_tables(database)
        ]
    )
    views = []
    for name in names:
        table = catalog.load_table(name)
        try:
            dataset = ScanDataset(partial(table.scan))
        except UnsupportedError:
            if must_be_readable:
                raise
            continue
        database, _, short = name.partition(".")
        source = f"lakecore {name}"
        connection.register(source, dataset)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_sql_name(database)}")
        view = f"{_sql_name(database)}.{_sql_name(short)}"
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {_sql_name(source)}")
        views.append(name)
    return tuple(views)


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
