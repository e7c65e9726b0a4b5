"""This module has the protocol of catalogs: what finds, creates and drops databases and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import pyarrow as pa

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.objects.function import Functions
from lakecore.catalog.objects.table_page import NamePage, TablePage
from lakecore.catalog.objects.view import Views
from lakecore.catalog.partitions.partition import Partitions
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.file_io import FileIO
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.metadata.schema_change import SchemaChange
from lakecore.table import Table

__all__ = ["Catalog", "Database"]


@dataclass(frozen=True, slots=True)
class Database:
    """This is a database with its properties, where the catalog stores any."""

    name: str
    """It is the name without the suffix of the directory."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """These are the properties; a filesystem catalog stores none."""


class Catalog(Protocol):
    """This is a catalog. Names of tables are `db.t`; methods raise NotFoundError for what does not exist.

    Semantics are those of Java's `Catalog` (1.4 and 2.0), except that a dropped table is kept and can be
    restored, and that a table on hold is neither dropped nor renamed.
    """

    @property
    def file_io(self) -> FileIO:
        """Return the unrestricted storage of the warehouse."""

    @property
    def warehouse(self) -> str:
        """Return the root directory, as a plain path or an address."""

    @property
    def clock(self) -> Clock:
        """Return what tells times and makes ids."""

    @property
    def allowed_paths(self) -> AllowedPaths:
        """Return the paths that the catalog itself may change."""

    @property
    def views(self) -> Views:
        """Return the views. Raises UnsupportedError for a kind of catalog without any."""

    @property
    def functions(self) -> Functions:
        """Return the functions. Raises UnsupportedError for a kind of catalog without any."""

    @property
    def partitions(self) -> Partitions:
        """Return the partitions of tables."""

    def close(self) -> None:
        """Close connections. The catalog is not used afterwards."""

    def list_databases(self) -> list[str]:
        """List the database names in order."""

    def list_databases_page(
        self, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` databases, those whose names are like `pattern` (`ods_%`). `token`
        is the `next_token` of the page before, None for the first page.
        """

    def get_database(self, name: str) -> Database:
        """Return a database with its properties."""

    def create_database(
        self, name: str, *, if_not_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database. Raises AlreadyExistsError unless `if_not_exists`."""

    def alter_database(
        self,
        name: str,
        changed: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
        *,
        if_exists: bool = False,
    ) -> None:
        """Set and remove properties of a database."""

    def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False, purge: bool = False
    ) -> None:
        """Drop a database, with `cascade` its tables too. Raises InvalidInputError when it is not empty."""

    def list_tables(
        self, database: str, *, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """List the tables of one database, in order: those whose names are like `pattern` (`ods_%`) and whose
        option `type` is `table_type` (`table`, `format-table`, …).
        """

    def list_tables_page(
        self,
        database: str,
        *,
        limit: int,
        token: str | None = None,
        pattern: str | None = None,
        table_type: str | None = None,
    ) -> TablePage:
        """List one page of at most `limit` of these tables. `token` is the `next_token` of the page before,
        None for the first page.
        """

    def table_kinds(self, database: str) -> dict[str, str]:
        """Return what each table of a database is, by name: `Paimon`, or what else the catalog names."""

    def table_exists(self, name: str) -> bool:
        """Return whether `load_table` would find the table."""

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load a table, a branch of one, or a system table."""

    def create_table(
        self,
        name: str,
        definition: TableDefinition | pa.Schema | Mapping[str, Any],
        *,
        primary_keys: tuple[str, ...] = (),
        partition_keys: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table. Raises AlreadyExistsError unless `if_not_exists`."""

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Publish the next schema, with all changes or none."""

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Give a table another name. Raises AlreadyExistsError when that is taken."""

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table; it is kept and can be restored, unless `purge`."""

    def dropped_tables(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """List the tables that were dropped and are kept, oldest first."""

    def restore_table(self, name: str, drop_id: str | None = None) -> Table:
        """Restore a dropped table: the last one of that name, or the one of that id."""
