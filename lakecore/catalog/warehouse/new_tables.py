"""This module creates the tables of a catalog of one warehouse."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.names import TableName, check_data_table
from lakecore.catalog.objects.external_tables import PATH
from lakecore.catalog.objects.new_file_tables import stored_object_schema
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.warehouse.named_tables import NamedTables
from lakecore.catalog.warehouse.table_defaults import with_table_defaults
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, UnavailableError
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from lakecore.maintain.dropped.move import move_back
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.table import Table

__all__ = ["NewTables"]

logger = logging.getLogger(__name__)

_NEW_MS = 60_000
"""The creator of older files is not waited for."""
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True, repr=False)
class NewTables(NamedTables):
    """This has the creation of tables. A kind of catalog decides which kinds of tables it has."""

    _has_object_tables: ClassVar[bool] = False
    """It tells whether Paimon creates object tables in this kind of catalog."""

    def _enter_table(self, name: TableName) -> None:
        """Enter a table that was created or restored into the list of names."""

    def _check_name_free(self, name: TableName) -> None:
        """Raise AlreadyExistsError for a name that something else than a table has."""

    def _check_schema(self, name: TableName, schema: TableSchema) -> None:
        """Raise InvalidInputError or UnsupportedError for a new table that the catalog cannot enter."""

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
        """Create an empty table, all or nothing: `schema-0` is created atomically.

        `definition` is a TableDefinition, its JSON, or an Arrow schema (then keys and options are arguments).
        With `if_not_exists` a table that exists is returned as it is, whatever its definition; one that
        another process creates now is waited for, up to six seconds. Raises AlreadyExistsError,
        InvalidInputError for an invalid definition.
        """
        parsed = check_data_table(name, "created")
        definition = TableDefinition.of(
            definition, primary_keys=primary_keys, partition_keys=partition_keys, options=options
        )
        if definition.options.get("type", "").strip().lower() == FORMAT_TABLE:
            table = self._create_format_table(parsed, definition, if_not_exists=if_not_exists)
            if table is not None:
                return table
        if PATH in definition.options:
            table = self._create_external(parsed, definition, if_not_exists=if_not_exists)
            if table is not None:
                return table
        schema = self._first_schema(parsed, definition)
        self._check(Privilege.CREATE_TABLE, parsed.database)
        self._check_database(parsed)
        self._check_schema(parsed, schema)
        with self._lock_of(parsed):
            self._removal.check_not_half_dropped(name, self._table_path(parsed))
            store = SchemaStore(self._storage, TablePaths(self._table_path(parsed)), self.clock)
            try:
                self._publish_new(parsed, schema, store)
            except AlreadyExistsError:
                if if_not_exists and self._is_created(parsed, store):
                    return self.load_table(name)
                raise
        table = self.load_table(name)
        logger.info("created table %s at %s", name, table.path)
        for warning in table.warnings:
            logger.warning("%s: %s", name, warning)
        return table

    def _publish_new(self, name: TableName, schema: TableSchema, store: SchemaStore) -> None:
        """Publish the first schema of a table, and enter the table. Raises AlreadyExistsError where a table,
        files of one, or something else of this name exists.
        """
        if not self._has_table(name):
            self._check_name_free(name)
            if SnapshotStore(self._storage, store.paths).list_ids() and not store.list_ids():
                raise AlreadyExistsError(
                    f"table {str(name)!r}: {store.paths.root} has snapshots of a table without schemas, "
                    "which the new table would take for its own; move the directory elsewhere"
                )
        if self._has_table(name) or store.list_ids() or not store.publish(schema):
            raise AlreadyExistsError(
                f"table {str(name)!r} exists in {self.warehouse}; drop it or choose another name"
            )
        self._enter_new(name, schema, store)

    def _is_created(self, name: TableName, store: SchemaStore) -> bool:
        """Return whether the table exists. Where its files are new and its name is missing, another process
        may be between both, and is waited for.
        """
        if self._has_table(name):
            return True
        schema = store.latest()
        if schema is None or abs(self.clock.now_ms() - schema.time_millis) > _NEW_MS:
            return False
        for pause in _PAUSES:
            self.clock.sleep(pause)
            if self._has_table(name):
                return True
        return False

    def _enter_new(self, name: TableName, schema: TableSchema, store: SchemaStore) -> None:
        """Enter a table whose first schema was published. The schema is taken back where something else has
        the name; where the list of names does not answer, the error says what completes the creation.
        """
        try:
            self._enter_table(name)
        except AlreadyExistsError:
            if self._has_table(name):
                return  # another process entered these files, for example by a repair
            if store.list_ids() == (schema.id,) and store.is_same(schema):
                self._storage.delete(store.paths.schema(schema.id))
                self._storage.remove_directory(store.paths.schema_dir)
                self._storage.remove_directory(store.paths.root)
            raise
        except UnavailableError as err:
            err.add_note(
                f"the files of the table are at {store.paths.root}: if its name is missing, enter it with "
                f"`lakecore repair {name}`"
            )
            raise

    def _first_schema(self, name: TableName, definition: TableDefinition) -> TableSchema:
        """Return the schema of a new table. In a kind of catalog that has object tables it may be one."""
        schema = None
        if self._has_object_tables:
            path = self._table_path(name)
            schema = stored_object_schema(str(name), definition, path, self.clock.now_ms())
        if schema is not None:
            return schema
        return first_schema(with_table_defaults(definition, self.table_defaults), self.clock.now_ms())

    def _create_format_table(
        self, name: TableName, definition: TableDefinition, *, if_not_exists: bool
    ) -> Table | None:
        """Create a format table; None in a catalog that has none."""
        return None

    def _create_external(
        self, name: TableName, definition: TableDefinition, *, if_not_exists: bool
    ) -> Table | None:
        """Create a table with the option `path`; None in a catalog that has no external tables."""
        return None

    def _check_new_table(self, name: TableName, schema: TableSchema) -> None:
        """Raise AlreadyExistsError for a table whose name or directory is taken, PrivilegeError, and the
        errors of `_check_schema`.
        """
        self._check(Privilege.CREATE_TABLE, name.database)
        self._check_schema(name, schema)
        if self._find_database(name.database) is None:
            return
        if self._has_table(name) or self._is_entered(name) or self.file_io.list(self._table_path(name)):
            raise AlreadyExistsError(
                f"table {str(name)!r} exists in {self.warehouse}, or its directory is not empty; drop it, or "
                "choose another name"
            )
        self._check_name_free(name)

    def _move_in(self, name: TableName, directory: str) -> None:
        """Make a table of the files in `directory`, which is in `.lakecore`: in one step where storage can.
        It can be repeated after a failure. The caller has the lease of the table.
        """
        with self._lock_of(name):
            move_back(self._storage_of(name), directory, self._table_path(name))
            self._enter_table(name)
        logger.info("moved table %s from %s into place", name, directory)

    def _storage_of(self, name: TableName) -> FileIO:
        """Return the storage that changes the directory of a table and `.lakecore` only."""
        return confine(self.file_io, self.allowed_paths.of_table(self._table_path(name), {}))

    def _check_database(self, name: TableName) -> None:
        """Raise NotFoundError where a table needs a database that was created before."""
