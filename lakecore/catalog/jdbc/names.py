"""This module reads and changes the names and properties of one catalog in the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lakecore.catalog.jdbc.connection import JdbcConnection
from lakecore.catalog.jdbc.mysql import CHARACTER_SET, check_characters, check_collations
from lakecore.catalog.jdbc.properties import EXISTS
from lakecore.catalog.jdbc.statements import CREATE, CREATE_LOCKS, CREATE_VIEWS, OF_VIEW, VIEWS
from lakecore.catalog.names import TableName
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["JdbcNames"]

_OF_DATABASE = "catalog_key = :key AND database_name = :database"
_OF_TABLE = f"{_OF_DATABASE} AND table_name = :table"


@dataclass(frozen=True, slots=True)
class JdbcNames:
    """These are the rows of one catalog (`catalog-key`). Each method is one transaction."""

    connection: JdbcConnection
    key: str

    def create_tables(self, lock_key_length: int | None) -> None:
        """Create Paimon's tables where they are missing; those of locks if a length of keys is given. In
        MySQL that of views is created, too, because Java would give it another collation.

        Raises UnsupportedError for tables of MySQL that do not compare names exactly.
        """
        mysql = self.connection.kind == "mysql"
        locks = () if lock_key_length is None else (CREATE_LOCKS.format(length=lock_key_length),)
        views = (CREATE_VIEWS,) if mysql else ()
        with self.transaction("open the catalog") as run:
            for statement in (*CREATE, *views, *locks):
                run(self._creation(statement))
        if mysql:
            check_collations(self.connection)

    def databases(self) -> set[str]:
        """Return the databases: those with properties, tables or views."""
        sources = ["paimon_tables", "paimon_database_properties"]
        sources += [VIEWS] if self.has_views() else []
        union = " UNION ".join(f"SELECT database_name FROM {one} WHERE catalog_key = :key" for one in sources)
        with self.transaction("list the databases") as run:
            return {row[0] for row in run(union)}

    def properties(self, database: str) -> dict[str, str]:
        """Return the properties of a database as they are stored."""
        with self.transaction(f"read database {database}") as run:
            rows = run(
                f"SELECT property_key, property_value FROM paimon_database_properties WHERE {_OF_DATABASE}",
                database=database,
            )
            return {row[0]: row[1] for row in rows}

    def add_properties(self, database: str, properties: Mapping[str, str]) -> None:
        """Insert properties. Raises AlreadyExistsError when one is there."""
        with self.transaction(f"create database {database}") as run:
            _insert_properties(run, database, properties)

    def change_properties(self, database: str, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        """Set and remove properties, all or none."""
        with self.transaction(f"alter database {database}") as run:
            for key in (*changed, *removed):
                run(
                    f"DELETE FROM paimon_database_properties WHERE {_OF_DATABASE} AND property_key = :name",
                    database=database,
                    name=key,
                )
            _insert_properties(run, database, changed)

    def remove_database(self, database: str) -> None:
        """Delete all rows of a database, also those of its views."""
        tables = ["paimon_tables", "paimon_table_properties", "paimon_database_properties"]
        tables += [VIEWS] if self.has_views() else []
        with self.transaction(f"drop database {database}") as run:
            for table in tables:
                run(f"DELETE FROM {table} WHERE {_OF_DATABASE}", database=database)

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database."""
        with self.transaction(f"list the tables of {database}") as run:
            rows = run(f"SELECT table_name FROM paimon_tables WHERE {_OF_DATABASE}", database=database)
            return [row[0] for row in rows]

    def views(self, database: str) -> list[str]:
        """Return the views of a database; none where Paimon 1.4 made the tables."""
        if not self.has_views():
            return []
        with self.transaction(f"list the views of {database}") as run:
            rows = run(f"SELECT view_name FROM {VIEWS} WHERE {_OF_DATABASE}", database=database)
            return [row[0] for row in rows]

    def has_table(self, name: TableName) -> bool:
        """Return whether the table is entered."""
        with self.transaction(f"look for table {name}") as run:
            return bool(list(run(f"SELECT 1 FROM paimon_tables WHERE {_OF_TABLE}", **_values_of(name))))

    def add_table(self, name: TableName, properties: Mapping[str, str]) -> None:
        """Add a table with its properties. Raises AlreadyExistsError when it is entered, and for the name of
        a view.
        """
        has_views = self.has_views()
        with self.transaction(f"create table {name}") as run:
            self._hold_database(run, name)
            view = f"SELECT 1 FROM {VIEWS} WHERE {OF_VIEW}"
            if has_views and list(run(view, database=name.database, view=name.table)):
                raise AlreadyExistsError(f"table {str(name)!r}: a view of the catalog has this name")
            run("INSERT INTO paimon_tables VALUES (:key, :database, :table)", **_values_of(name))
            _insert_table_properties(run, name, properties)

    def add_view(self, name: TableName, schema: str) -> None:
        """Add a view. Raises AlreadyExistsError when it is entered, and for the name of a table."""
        with self.transaction(f"create view {name}") as run:
            self._hold_database(run, name)
            if list(run(f"SELECT 1 FROM paimon_tables WHERE {_OF_TABLE}", **_values_of(name))):
                raise AlreadyExistsError(f"view {str(name)!r}: a table of the catalog has this name")
            run(
                f"INSERT INTO {VIEWS} (catalog_key, database_name, view_name, view_schema) "
                "VALUES (:key, :database, :view, :schema)",
                database=name.database,
                view=name.table,
                schema=schema,
            )

    def _hold_database(self, run: Any, name: TableName) -> None:
        """Hold the row of a database until the end of the transaction. Tables and views have lists of their
        own: so only one of two that get one name at the same time is added. SQLite has one writer, who begins
        with a change.
        """
        row = f"{_OF_DATABASE} AND property_key = :property"
        statement = f"SELECT 1 FROM paimon_database_properties WHERE {row} FOR UPDATE"
        if self.connection.kind == "sqlite":
            statement = f"UPDATE paimon_database_properties SET property_key = property_key WHERE {row}"
        run(statement, database=name.database, property=EXISTS)

    def set_table_properties(self, name: TableName, properties: Mapping[str, str]) -> None:
        """Replace the properties of a table."""
        with self.transaction(f"alter table {name}") as run:
            run(f"DELETE FROM paimon_table_properties WHERE {_OF_TABLE}", **_values_of(name))
            _insert_table_properties(run, name, properties)

    def remove_table(self, name: TableName) -> None:
        """Delete the entry of a table, which may be missing, and its properties."""
        with self.transaction(f"drop table {name}") as run:
            for table in ("paimon_tables", "paimon_table_properties"):
                run(f"DELETE FROM {table} WHERE {_OF_TABLE}", **_values_of(name))

    def rename_table(self, name: TableName, new: TableName) -> None:
        """Change the name of a table. Raises AlreadyExistsError when the other name is entered."""
        with self.transaction(f"rename table {name} to {new}") as run:
            for table in ("paimon_tables", "paimon_table_properties"):
                run(
                    f"UPDATE {table} SET database_name = :new_database, table_name = :new_table "
                    f"WHERE {_OF_TABLE}",
                    **_values_of(name),
                    new_database=new.database,
                    new_table=new.table,
                )

    def has_views(self) -> bool:
        """Return whether the database has the table of views, which Paimon 1.4 does not create."""
        from sqlalchemy import inspect

        with self.connection.transaction("look for views") as database:
            return bool(inspect(database).has_table(VIEWS))

    def create_views(self) -> None:
        """Create the table of views where it is missing. Paimon 1.4 does not use it."""
        with suppress(AlreadyExistsError), self.transaction("create the table of views") as run:
            run(self._creation(CREATE_VIEWS))

    def _creation(self, statement: str) -> str:
        mysql = self.connection.kind == "mysql"
        return f"{statement} ENGINE=InnoDB {CHARACTER_SET}" if mysql else statement

    @contextmanager
    def transaction(self, what: str) -> Iterator[Any]:
        """Give a function that executes a statement with parameters by name; `key` is that of the catalog."""
        from sqlalchemy import text

        with self.connection.transaction(what) as database:
            yield _Statements(database, text, self.key, self.connection)


@dataclass(frozen=True, slots=True)
class _Statements:
    """It executes statements of one transaction."""

    database: Connection
    text: Any
    key: str
    connection: JdbcConnection

    def __call__(self, statement: str, **values: str) -> Any:
        if not self.connection.can_store("".join(values.values())):
            if statement.startswith("SELECT"):
                return ()  # no row has such a value, and MariaDB refuses the comparison
            check_characters(self.connection, statement.split()[0], values.values())
        parameters = {"key": self.key, **values} if ":key" in statement else values
        return self.database.execute(self.text(statement), parameters)


def _values_of(name: TableName) -> dict[str, str]:
    return {"database": name.database, "table": name.table}


def _insert_properties(run: Any, database: str, properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        run(
            "INSERT INTO paimon_database_properties VALUES (:key, :database, :property, :value)",
            database=database,
            property=key,
            value=value,
        )


def _insert_table_properties(run: Any, name: TableName, properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        run(
            "INSERT INTO paimon_table_properties VALUES (:key, :database, :table, :property, :value)",
            **_values_of(name),
            property=key,
            value=value,
        )
