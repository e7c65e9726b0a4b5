"""The JDBC catalog: names and properties are in a relational database, files at
`<warehouse>/<database>.db/<table>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar

from lakecore.catalog.catalog import Database
from lakecore.catalog.catalog_options import WAREHOUSE_KEYS, check_catalog_options
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.hive.places import checked_place
from lakecore.catalog.jdbc.connection import JdbcConnection
from lakecore.catalog.jdbc.jdbc_views import JdbcViews
from lakecore.catalog.jdbc.lock import JdbcLock
from lakecore.catalog.jdbc.mysql import check_characters
from lakecore.catalog.jdbc.names import JdbcNames
from lakecore.catalog.jdbc.options import OPTIONS, JdbcOptions
from lakecore.catalog.jdbc.properties import EXISTS, LOCATION, check_properties, properties_of_table
from lakecore.catalog.names import TableName, check_data_table
from lakecore.catalog.objects.external_tables import PATH
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.warehouse.opened_warehouse import opened_warehouse
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.stores.registry import is_object_store
from lakecore.metadata.schema import TableSchema
from lakecore.store.table_lock import TableLock
from lakecore.system.object_table import OBJECT_TABLE

__all__ = ["JdbcCatalog"]


@dataclass(frozen=True, repr=False)
class JdbcCatalog(WarehouseCatalog):
    """It finds databases and tables in Paimon's own tables of a database. It can be pickled when its storage
    can; the password is pickled with it.

    A table needs a database that was created. Files without an entry are no table until `repair_table`; an
    entry without files can be dropped. Every look at a name is a query.
    """

    _has_object_tables: ClassVar[bool] = True

    connection: JdbcConnection = field(kw_only=True)
    """It connects to the database."""
    jdbc_options: JdbcOptions = field(kw_only=True)
    """These are the key of the catalog, and how its lock is used."""

    def __repr__(self) -> str:
        """Return warehouse, database and key on one line, without user and password; reads nothing."""
        facts = {"database": self.connection.place, "key": self.jdbc_options.key}
        return one_line("JdbcCatalog", self.warehouse, facts)

    @classmethod
    def option_keys(cls) -> frozenset[str]:
        """Return the keys of options that this kind of catalog has, beside those of storage."""
        return WAREHOUSE_KEYS | frozenset(key for option in OPTIONS for key in option.keys)

    @classmethod
    def open(cls, config: CatalogConfig, *, create: bool = False) -> JdbcCatalog:
        """Open a catalog, and create Paimon's tables in the database where they are missing. With `create`
        the warehouse may be missing.

        Raises InvalidOptionError and UnsupportedError for options that are missing or not obeyed,
        UnavailableError when the database does not answer, and the errors of opening the warehouse.
        """
        check_catalog_options(config.options, "jdbc", cls.option_keys())
        fields = opened_warehouse(config, create=create)
        jdbc_options = JdbcOptions.from_options(
            config.options, object_store=is_object_store(fields["warehouse"])
        )
        catalog = cls(
            **fields, connection=JdbcConnection.from_options(config.options), jdbc_options=jdbc_options
        )
        catalog.connection.use_write_ahead_log()
        catalog._names.create_tables(jdbc_options.lock_key_length if jdbc_options.lock_enabled else None)
        return catalog

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    @cached_property
    def _names(self) -> JdbcNames:
        return JdbcNames(self.connection, self.jdbc_options.key)

    def list_databases(self) -> list[str]:
        """List the database names in order."""
        return sorted(self._names.databases())

    def _find_database(self, name: str) -> Database | None:
        if name not in self._names.databases():
            return None
        stored = self._names.properties(name)
        visible = {key: value for key, value in stored.items() if key != EXISTS}
        return Database(name, {LOCATION: self._database_path(name), **visible})

    def _make_database(self, name: str, properties: Mapping[str, str]) -> bool:
        check_properties(properties)
        self._check_characters(name, name, *properties, *properties.values())
        if name in self._names.databases():
            return False
        own = {EXISTS: "true", LOCATION: self._database_path(name)}
        try:
            self._names.add_properties(name, {**own, **properties})
        except AlreadyExistsError:
            return False  # somebody else was faster
        return True

    def _change_database(self, name: str, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        check_properties(changed, removed)
        self._check_characters(name, *changed, *changed.values(), *removed)
        self._names.change_properties(name, changed, removed)

    @property
    def views(self) -> JdbcViews:
        """Return the views, which Java has since Paimon 2.0."""
        return JdbcViews(
            names=self._names,
            lock_of=self._lock_of,
            locks_of=self._renaming,
            check_database=self._check_database,
            check_privilege=self._check,
        )

    def _check_droppable(self, name: str, *, cascade: bool) -> None:
        views = self._names.views(name)
        if views and not cascade:
            raise InvalidInputError(
                f"database {name!r} holds {len(views)} views, such as {views[0]!r}; drop them first, or "
                "drop it with cascade, after which views cannot be restored"
            )

    def _remove_database(self, name: str) -> None:
        self._names.remove_database(name)
        self._remove_empty_directory(self._database_path(name))

    def _table_names(self, database: str) -> list[str]:
        return self._names.tables(database)

    def _has_table(self, name: TableName) -> bool:
        return self._names.has_table(name)

    def _listed_at(self, name: TableName) -> tuple[str, bool]:
        return self._table_path(name), self._names.has_table(name)

    def _is_entered(self, name: TableName) -> bool:
        return self._names.has_table(name)

    def _check_database(self, name: TableName) -> None:
        if name.database not in self._names.databases():
            raise self._no_database(name.database)
        self._check_characters(str(name), name.table)

    def _check_characters(self, name: str, *texts: str) -> None:
        """Raise InvalidInputError for texts that MySQL's columns cannot store, before anything is written."""
        check_characters(self.connection, name, texts)

    def _check_name_free(self, name: TableName) -> None:
        """Raise AlreadyExistsError for the name of a view, or of files that are no table of this catalog."""
        self._check_characters(str(name), name.table)
        if name.table in self._names.views(name.database):
            raise AlreadyExistsError(f"table {str(name)!r}: a view of {self.warehouse} has this name")
        if not self._has_table(name) and self._latest_schema(name) is not None:
            raise self._files_without_entry(name, "the catalog")

    def _enter_table(self, name: TableName) -> None:
        schema = self._latest_schema(name)
        if schema is not None and not self._names.has_table(name):
            self._names.add_table(name, self._properties(schema))

    def _strike_table(self, name: TableName) -> None:
        self._names.remove_table(name)

    def _objects_path(self, name: TableName, path: str, schema: TableSchema) -> str:
        """Return the directory that the schema names, as Java does. Raises InvalidOptionError for one outside
        of the warehouse and of `external-roots`.
        """
        stored = schema.options.get(PATH)
        return path if stored is None else checked_place(stored, f"table {str(name)!r}", self.allowed_paths)

    def _renamed_path(self, name: TableName, new: TableName) -> str:
        """Return where the files are after a rename. Raises UnsupportedError for an object table."""
        schema = self._latest_schema(name)
        if schema is not None and schema.options.get("type") == OBJECT_TABLE:
            raise UnsupportedError(
                f"table {str(name)!r}: an object table of a JDBC catalog cannot be renamed: its schema names "
                "the directory, and Java would list the earlier one; create another table"
            )
        return super()._renamed_path(name, new)

    def _rename_entry(self, name: TableName, new: TableName, path: str) -> None:
        self._names.rename_table(name, new)

    def _after_alteration(self, name: TableName) -> None:
        schema = self._latest_schema(name)
        if schema is not None and self.jdbc_options.sync_properties:
            self._names.set_table_properties(name, self._properties(schema))

    def _properties(self, schema: TableSchema) -> dict[str, str]:
        """Return what is copied of a table's options; MySQL cannot store each of them."""
        copied = properties_of_table(schema) if self.jdbc_options.sync_properties else {}
        return {key: value for key, value in copied.items() if self.connection.can_store(key + value)}

    def _table_lock(self, name: TableName) -> TableLock | None:
        """Return the lock of Java's commits, None where it is off. Its key is CATALOG.DATABASE.TABLE."""
        if not self.jdbc_options.lock_enabled:
            return None
        lock_id = f"{self.jdbc_options.key}.{name.database}.{name.table}"
        return JdbcLock(self.connection, self.jdbc_options, lock_id, self.clock)

    def repair_table(self, name: str) -> None:
        """Add a table whose files exist to the list of names, with its database, and copy its options again
        (Java's `repairTable`). A rename that was interrupted is completed. It can be repeated. Raises
        NotFoundError when there are no files.
        """
        parsed = check_data_table(name, "repaired")
        self._check(Privilege.CREATE_TABLE, parsed.database)
        parsed = self._after_interrupted_rename(parsed)
        schema = self._latest_schema(parsed)
        if schema is None:
            raise NotFoundError(f"table {str(parsed)!r} has no files at {self._table_path(parsed)}")
        if not self._names.properties(parsed.database):
            own = {EXISTS: "true", LOCATION: self._database_path(parsed.database)}
            self._names.add_properties(parsed.database, own)
        self._enter_table(parsed)
        self._after_alteration(parsed)
