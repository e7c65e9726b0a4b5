"""This module creates the tables of a Hive catalog: in the warehouse, external ones and format tables."""

from __future__ import annotations

from typing import Any, ClassVar

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.hive.external_place import external_place
from lakecore.catalog.hive.formats.format_entries import check_format_columns, new_format_entry
from lakecore.catalog.hive.locations import database_location, with_scheme_of
from lakecore.catalog.hive.metastore_tables import MetastoreTables
from lakecore.catalog.hive.names import check_hive_name
from lakecore.catalog.hive.partition_options import check_partition_options
from lakecore.catalog.names import TableName
from lakecore.catalog.objects.external_tables import (
    PATH,
    check_directory,
    check_parents,
    new_external_schema,
    publish_external,
)
from lakecore.catalog.objects.new_file_tables import file_table_schema, format_defaults, new_external_objects
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.warehouse.table_defaults import with_table_defaults
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError
from lakecore.fs.confined import confine
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.system.object_table import OBJECT_TABLE
from lakecore.table import Table

__all__ = ["NewHiveTables"]


@dataclass(frozen=True, repr=False)
class NewHiveTables(MetastoreTables):
    """This has the creation of tables and of their entries."""

    _has_object_tables: ClassVar[bool] = True

    def _check_name_free(self, name: TableName) -> None:
        """Raise AlreadyExistsError for the name of something else, or of files that are no table of this
        catalog, InvalidInputError for a name that the metastore does not store.
        """
        check_hive_name(name.table, "table")
        if self._metastore.table(name) is not None:
            raise AlreadyExistsError(
                f"table {str(name)!r}: a view, or a table that is not Paimon's, has this name; choose another"
            )
        if self._latest_schema(name) is not None:
            raise self._files_without_entry(name, "the metastore")

    def _check_schema(self, name: TableName, schema: TableSchema) -> None:
        check_partition_options(str(name), schema)
        self._new_entry(name, schema, "/")

    def _new_entry(
        self, name: TableName, schema: TableSchema, location: str, *, external: bool = False
    ) -> Any:
        return self._rules.new_entry(
            name,
            schema,
            location,
            external=external or self.hive_options.external,
            owner=self.connection.user,
            now_ms=self.clock.now_ms(),
        )

    def _create_external(
        self, name: TableName, definition: TableDefinition, *, if_not_exists: bool
    ) -> Table | None:
        """Create a table at the option `path`, below `external-roots`. A table that lies there already is
        entered if the definition agrees with it, or has no columns; where users have privileges, that needs
        ADMIN. Raises InvalidOptionError for a path that does not do.
        """
        self._check(Privilege.CREATE_TABLE, name.database)
        self._check(Privilege.ADMIN)
        self._check_database(name)
        with self._lock_of(name):
            if self._entry(name) is None:
                self._enter_external(name, definition)
            elif not if_not_exists:
                raise AlreadyExistsError(
                    f"table {str(name)!r} exists in {self.warehouse}; drop it or choose another name"
                )
        return self.load_table(str(name))

    def _enter_external(self, name: TableName, definition: TableDefinition) -> None:
        self._removal.check_not_half_dropped(str(name), self._table_path(name))
        self._check_name_free(name)
        location = definition.options[PATH]
        objects = definition.options.get("type", "").strip().lower() == OBJECT_TABLE
        path = self._new_place(location, may_have_files=objects)
        storage = confine(self.file_io, self.allowed_paths.of_table(path, {}))
        schema = publish_external(
            new_external_objects(str(name), definition, self.clock.now_ms())
            if objects
            else new_external_schema(str(name), definition, self.table_defaults, self.clock),
            SchemaStore(storage, TablePaths(path), self.clock),
            lambda one: self._check_schema(name, one),
        )
        entry = self._new_entry(name, schema, with_scheme_of(path, location), external=True)
        self._metastore.create_table(entry)
        self._try_partitions(name)

    def _new_place(self, location: str, *, may_have_files: bool) -> str:
        """Return the plain path of a new external table."""
        databases = {one: self._database_path(one) for one in self.list_databases()}
        in_properties = self.hive_options.in_properties
        path, root = external_place(location, self.allowed_paths, databases, self._metastore, in_properties)
        check = check_parents if may_have_files else check_directory
        check(self.file_io, path, root)
        return path

    def _create_format_table(
        self, name: TableName, definition: TableDefinition, *, if_not_exists: bool
    ) -> Table | None:
        """Create a format table, whose columns and options are in the metastore alone. With the option `path`
        it is external, needs ADMIN where users have privileges, and may have files already.
        """
        self._check(Privilege.CREATE_TABLE, name.database)
        if PATH in definition.options:
            self._check(Privilege.ADMIN)
        self._formats.check_change(str(name), "create", in_properties=self.hive_options.in_properties)
        self._check_database(name)
        with_defaults = with_table_defaults(definition, format_defaults(self.table_defaults))
        schema = file_table_schema(str(name), with_defaults, self.clock.now_ms())
        assert schema is not None  # the definition says that it is a format table
        check_format_columns(name, schema)
        with self._lock_of(name):
            if self._metastore.table(name) is None:
                self._enter_format_table(name, schema)
            elif not if_not_exists:
                raise AlreadyExistsError(
                    f"table {str(name)!r} exists in {self.warehouse}; drop it or choose another name"
                )
        return self.load_table(str(name))

    def _enter_format_table(self, name: TableName, schema: TableSchema) -> None:
        self._removal.check_not_half_dropped(str(name), self._table_path(name))
        self._check_name_free(name)
        location = schema.options.get(PATH)
        path = self._table_path(name) if location is None else self._new_place(location, may_have_files=True)
        if location is None and self.file_io.list(path):
            raise AlreadyExistsError(
                f"table {str(name)!r}: {path} has files already, which would be rows of the new table; move "
                f"them away, or name the directory by the option {PATH}, so that they are"
            )
        parent = database_location(self._database(name.database), in_properties=False)
        entry = new_format_entry(
            name,
            schema,
            with_scheme_of(path, location or parent),
            external=location is not None or self.hive_options.external,
            owner=self.connection.user,
            now_ms=self.clock.now_ms(),
        )
        self._metastore.create_table(entry)

    def _enter_table(self, name: TableName) -> None:
        self._enter(name)
        self._try_partitions(name)

    def _enter(self, name: TableName) -> None:
        schema = self._latest_schema(name)
        if schema is None or self._paimon_entry(name) is not None:
            return
        parent = database_location(self._database(name.database), self.hive_options.in_properties)
        location = with_scheme_of(self._table_path(name), parent)
        self._metastore.create_table(self._new_entry(name, schema, location))
