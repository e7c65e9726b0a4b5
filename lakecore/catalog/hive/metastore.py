"""This module has the calls of a metastore that a catalog needs: databases and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakecore.catalog.hive.connection import MetastoreConnection, thrift_types
from lakecore.catalog.names import TableName
from lakecore.catalog.remote.settled import settled
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError

__all__ = ["HiveMetastore"]

_BATCH = 300


@dataclass(frozen=True, slots=True)
class HiveMetastore:
    """These are the databases and tables of one metastore, as records of the thrift client.

    A change whose answer is lost is looked up, and sent again if it had no effect. Names are those that the
    metastore stores, in lower case: an entry is not found under another spelling.
    """

    connection: MetastoreConnection

    def configured(self, key: str) -> str:
        """Return a property of the metastore's own configuration, empty without one."""
        return str(self.connection.read(f"read {key}", "get_config_value", key, ""))

    def databases(self) -> list[str]:
        """Return the names of all databases."""
        return list(self.connection.read("list the databases", "get_all_databases"))

    def database(self, name: str) -> Any | None:
        """Return a database, None if it does not exist."""
        try:
            record = self.connection.read(f"read database {name}", "get_database", name)
        except NotFoundError:
            return None
        return record if record.name == name else None

    def create_database(self, record: Any) -> None:
        """Create a database. Raises AlreadyExistsError."""
        what = f"create database {record.name}"
        self._settle(
            lambda: self.connection.change(what, "create_database", record),
            lambda: self.database(record.name) is not None,
        )

    def alter_database(self, name: str, record: Any) -> None:
        """Replace a database's record."""
        what = f"alter database {name}"
        self._settle(lambda: self.connection.change(what, "alter_database", name, record), lambda: False)

    def drop_database(self, name: str) -> None:
        """Remove a database without tables; its directory stays."""
        what = f"drop database {name}"
        self._settle(
            lambda: self.connection.change(what, "drop_database", name, False, False),
            lambda: self.database(name) is None,
        )

    def table_names(self, database: str) -> list[str]:
        """Return the names of all tables and views; none when the database does not exist."""
        what = f"list the tables of {database}"
        return list(self.connection.read(what, "get_all_tables", database))

    def names_of_type(self, database: str, table_type: str) -> list[str]:
        """Return the names of the entries of one type, such as `VIRTUAL_VIEW`."""
        what = f"list the entries of type {table_type} of {database}"
        return list(self.connection.read(what, "get_tables_by_type", database, "*", table_type))

    def tables(self, database: str) -> Iterator[Any]:
        """Yield the tables and views of a database, 300 a call."""
        yield from self.records(database, self.table_names(database))

    def records(self, database: str, names: Sequence[str]) -> Iterator[Any]:
        """Yield the tables and views of these names that exist, in order of the names of each 300, which are
        one call.
        """
        what = f"list the tables of {database}"
        for start in range(0, len(names), _BATCH):
            batch = list(names[start : start + _BATCH])
            records = self.connection.read(what, "get_table_objects_by_name", database, batch)
            yield from sorted(records, key=lambda one: str(one.tableName))

    def table(self, name: TableName) -> Any | None:
        """Return a table or view, None if it does not exist."""
        try:
            record = self.connection.read(f"read table {name}", "get_table", name.database, name.table)
        except NotFoundError:
            return None
        return record if (record.dbName, record.tableName) == (name.database, name.table) else None

    def create_table(self, record: Any) -> None:
        """Add a table. Raises AlreadyExistsError."""
        name = TableName(record.dbName, record.tableName)
        what = f"enter table {name}"
        self._settle(
            lambda: self.connection.change(what, "create_table", record),
            lambda: self.table(name) is not None,
        )

    def drop_table(self, name: TableName) -> None:
        """Remove the entry of a table, which may be missing; its files stay."""
        what = f"remove table {name}"
        try:
            self._settle(
                lambda: self.connection.change(what, "drop_table", name.database, name.table, False),
                lambda: self.table(name) is None,
            )
        except NotFoundError:
            return

    def alter_table(self, record: Any, *, cascade: bool, skip_statistics: bool) -> None:
        """Replace the entry of a table. `cascade`: those of its partitions, too."""
        context = thrift_types().EnvironmentContext(
            properties={
                "DO_NOT_UPDATE_STATS": str(skip_statistics).lower(),
                **({"CASCADE": "true"} if cascade else {}),
            }
        )
        what, call = f"alter table {record.dbName}.{record.tableName}", "alter_table_with_environment_context"
        self._settle(
            lambda: self.connection.change(what, call, record.dbName, record.tableName, record, context),
            lambda: False,
        )

    def rename_table(self, name: TableName, record: Any) -> None:
        """Replace the entry of `name` by one of another name. Raises InvalidInputError when that is taken."""
        new = TableName(record.dbName, record.tableName)
        self._settle(
            lambda: self.connection.change(
                f"rename table {name}", "alter_table", name.database, name.table, record
            ),
            lambda: self.table(new) is not None and self.table(name) is None,
        )

    def _settle(self, send: Callable[[], Any], is_done: Callable[[], bool]) -> None:
        settled(lambda: send() or True, lambda: is_done() or None, self.connection.clock)
