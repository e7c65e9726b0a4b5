"""This module lists the tables of a lake for chores that go over many: directories that lost their schema are
among them, so that each fails under its name and is not passed over.
"""

from __future__ import annotations

from typing import Protocol

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.data_class import dataclass

__all__ = ["TableDirectories", "TableLister"]


class TableLister(Protocol):
    """It can list databases and tables by their names."""

    def list_databases(self) -> list[str]: ...

    def list_tables(self, database: str) -> list[str]:
        """List the tables of a database. Raises NotFoundError."""
        ...


@dataclass(frozen=True, slots=True)
class TableDirectories:
    """It lists what a lake lists, and the directories of a filesystem catalog that have snapshots, but no
    schema: one more listing of storage a database.
    """

    lake: TableLister

    def list_databases(self) -> list[str]:
        return self.lake.list_databases()

    def list_tables(self, database: str) -> list[str]:
        """List the tables and these directories, in order. Raises NotFoundError."""
        names = self.lake.list_tables(database)
        if isinstance(self.lake, FilesystemCatalog):
            names = sorted([*names, *self.lake.tables_without_schema(database, names)])
        return names
