"""The Hive catalog: names, columns and options are in a Hive metastore, files where the metastore says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar

from lakecore.catalog.catalog import Database
from lakecore.catalog.catalog_options import WAREHOUSE_KEYS, check_catalog_options
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.hive.connection import MetastoreConnection
from lakecore.catalog.hive.databases import DatabaseRecords
from lakecore.catalog.hive.entries import EntryRules, is_external, is_paimon_table
from lakecore.catalog.hive.external_place import external_place
from lakecore.catalog.hive.format_entries import check_format_columns, new_format_entry
from lakecore.catalog.hive.format_tables import FormatTables
from lakecore.catalog.hive.hive_partitions import HivePartitions
from lakecore.catalog.hive.locations import (
    database_location,
    set_location,
    table_location,
    with_scheme_of,
)
from lakecore.catalog.hive.lock import HiveLock
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.names import check_hive_name
from lakecore.catalog.hive.options import OPTIONS, HiveOptions
from lakecore.catalog.hive.partition_list import PartitionLists
from lakecore.catalog.hive.partition_options import check_partition_options
from lakecore.catalog.hive.places import checked_place
from lakecore.catalog.hive.site_file import WAREHOUSE_DIR
from lakecore.catalog.names import SYSTEM_DATABASE, TableName, check_data_table, check_name
from lakecore.catalog.objects.external_tables import (
    PATH,
    check_directory,
    check_parents,
    new_external_schema,
    publish_external,
)
from lakecore.catalog.objects.file_tables import new_file_table
from lakecore.catalog.objects.new_file_tables import file_table_schema, format_defaults, new_external_objects
from lakecore.catalog.objects.table_filter import TableFilter
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.warehouse.opened_warehouse import opened_warehouse
from lakecore.catalog.warehouse.table_defaults import with_table_defaults
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.fs.confined import confine
from lakecore.fs.stores.registry import is_object_store
from lakecore.fs.table_rights import TableRights
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.maintain.holds.user import this_user
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_lock import TableLock
from lakecore.store.table_stores import TableStores
from lakecore.system.object_table import OBJECT_TABLE
from lakecore.table import Table

__all__ = ["HiveCatalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class HiveCatalog(WarehouseCatalog):
    """It finds databases and tables in a Hive metastore, and keeps their entries in step with the schemas.
    It can be pickled when its storage can.

    A table needs a database that was created. Files without an entry are no table until `repair_table`; an
    entry without files can be dropped. Every look at a name is a call.
    """

    _has_object_tables: ClassVar[bool] = True

    connection: MetastoreConnection = field(kw_only=True)
    """It calls the metastore."""
    hive_options: HiveOptions = field(kw_only=True)
    """These are the options that decide what entries contain, and how the lock is used."""

    def __repr__(self) -> str:
        """Return warehouse and addresses on one line; reads nothing."""
        metastore = ", ".join(map(str, self.connection.addresses))
        return one_line("HiveCatalog", self.warehouse, {"metastore": metastore})

    @classmethod
    def option_keys(cls) -> frozenset[str]:
        """Return the keys of options that this kind of catalog has, beside those of storage."""
        return WAREHOUSE_KEYS | frozenset(key for option in OPTIONS for key in option.keys)

    @classmethod
    def open(cls, config: CatalogConfig, *, create: bool = False) -> HiveCatalog:
        """Open a catalog. Without a warehouse it takes that of hive-site.xml, else that of the metastore.

        Raises InvalidOptionError and UnsupportedError for options that are missing or not obeyed,
        UnavailableError when the metastore does not answer, and the errors of opening the warehouse.
        """
        check_catalog_options(config.options, "hive", cls.option_keys())
        options = HiveOptions.from_options(config.options)
        connection = MetastoreConnection(
            options.addresses,
            this_user().partition("@")[0],
            options.timeout_ms,
            options.pool_size,
            SystemClock(),
        )
        metastore = HiveMetastore(connection)
        warehouse = config.warehouse or options.warehouse or metastore.configured(WAREHOUSE_DIR)
        if not warehouse:
            raise InvalidOptionError("catalog option warehouse is missing, and the metastore names none")
        fields = opened_warehouse(replace(config, warehouse=warehouse), create=create)
        metastore.databases()  # an address that is wrong is told at once
        return cls(**fields, connection=connection, hive_options=options)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    @cached_property
    def _metastore(self) -> HiveMetastore:
        return HiveMetastore(self.connection)

    @cached_property
    def _rules(self) -> EntryRules:
        return EntryRules(self.hive_options.in_properties, self.hive_options.sync_properties)

    def list_databases(self) -> list[str]:
        """List the database names in order."""
        return sorted(self._metastore.databases())

    @cached_property
    def _databases(self) -> DatabaseRecords:
        return DatabaseRecords(self._metastore, self.hive_options.in_properties, self.allowed_paths)

    @cached_property
    def _formats(self) -> FormatTables:
        return FormatTables(self._metastore, self.hive_options.format_tables)

    def _find_database(self, name: str) -> Database | None:
        return self._databases.find(name)

    def _make_database(self, name: str, properties: Mapping[str, str]) -> bool:
        return self._databases.create(name, properties, super()._database_path(name), self._storage)

    def _change_database(self, name: str, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        self._databases.change(name, self._database(name), changed, removed)

    def _check_droppable(self, name: str, *, cascade: bool) -> None:
        self._databases.check_drop(name)

    def _remove_database(self, name: str) -> None:
        path = self._database_path(name)
        self._metastore.drop_database(name)
        if any(not one.is_dir or self.file_io.list(one.path) for one in self.file_io.list(path)):
            logger.info("the files at %s stay: they are those of external tables, or of no table", path)
        else:
            self._remove_empty_directory(path)

    def _check_stray(self, database: str, path: str) -> None:
        """Allow files of no table: external tables leave theirs when they are dropped."""

    def _database(self, name: str) -> Any:
        record = self._metastore.database(name)
        if record is None:
            raise self._no_database(name)
        return record

    def _table_names(self, database: str) -> list[str]:
        return [record.tableName for record in self._metastore.tables(database) if is_paimon_table(record)]

    def list_tables(
        self, database: str, *, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """List the tables of Paimon as other catalogs do. Only with the type `format-table` the tables are
        those that Hive made of files, unless the option `format-table.enabled` is false.
        """
        if table_type != FORMAT_TABLE or database == SYSTEM_DATABASE:
            return super().list_tables(database, pattern=pattern, table_type=table_type)
        names = TableFilter.of(pattern, table_type)
        self._database(check_name(database, "database"))
        return self._formats.names(database, names)

    def table_kinds(self, database: str) -> dict[str, str]:
        """Return what the tables and views of a database are, by name: `Paimon`, `format table of csv files`,
        `view`, `table of Iceberg`, and so on. It costs a call for 300 of them.
        """
        if database == SYSTEM_DATABASE:
            return super().table_kinds(database)
        self._database(check_name(database, "database"))
        return self._formats.kinds(database)

    def _load(
        self, parsed: TableName, options: Mapping[str, str] | None = None, rights: TableRights | None = None
    ) -> Table:
        """Load a table of Paimon, or a format table. A NotFoundError says what else has the name."""
        try:
            return super()._load(parsed, options, rights)
        except NotFoundError:
            of_files = self._formats.find(replace(parsed, branch="main", system=None))
            if of_files is None:
                raise
        record, schema = of_files
        path = self._place_of(record, parsed)
        files = confine(self.file_io, self.allowed_paths.of_table(path, {}, rights))
        table = new_file_table(str(parsed), path, schema, files, branch=parsed.branch != "main")
        assert table is not None  # the schema says that it is a format table
        return table.with_options(options) if options else table

    def _entry(self, name: TableName) -> Any | None:
        """Return the entry of a Paimon table, None without one."""
        record = self._metastore.table(name)
        return record if record is not None and is_paimon_table(record) else None

    def _has_table(self, name: TableName) -> bool:
        return self._entry(name) is not None

    def _is_listed(self, name: TableName) -> bool:
        return self._has_table(name)

    def _is_entered(self, name: TableName) -> bool:
        return self._has_table(name)

    def _check_database(self, name: TableName) -> None:
        self._database(name.database)

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
            raise AlreadyExistsError(
                f"table {str(name)!r}: {self._table_path(name)} has files of a table that is not entered in "
                f"the metastore; enter it with `lakecore repair {name}`, or move the files away"
            )

    def _check_schema(self, name: TableName, schema: TableSchema) -> None:
        check_partition_options(str(name), schema)
        self._new_entry(name, schema, "/")

    def _database_path(self, database: str) -> str:
        location = self._databases.location(check_name(database, "database"))
        if location is None:
            return super()._database_path(database)
        return self._checked_place(location, f"database {database!r}")

    def _table_path(self, name: TableName) -> str:
        return self._place_of(self._entry(name), name)

    def _place_of(self, entry: Any | None, name: TableName) -> str:
        location = None if entry is None else table_location(entry, self.hive_options.in_properties)
        if location is None:
            return f"{self._database_path(name.database)}/{name.table}"
        path = self._checked_place(location, f"table {str(name)!r}")
        if path in (self.warehouse, *(self.external_roots or ())):
            raise CorruptDataError(path, f"is the location of table {name} in the metastore, and a root")
        return path

    def _checked_place(self, location: str, what: str) -> str:
        return checked_place(location, what, self.allowed_paths)

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
        self._formats.check_creation(str(name), in_properties=self.hive_options.in_properties)
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
        if schema is None or self._entry(name) is not None:
            return
        parent = database_location(self._database(name.database), self.hive_options.in_properties)
        location = with_scheme_of(self._table_path(name), parent)
        self._metastore.create_table(self._new_entry(name, schema, location))

    def _strike_table(self, name: TableName) -> None:
        self._metastore.drop_table(name)

    def _renamed_path(self, name: TableName, new: TableName) -> str:
        entry = self._entry(name)
        external = entry is not None and is_external(entry)
        return self._table_path(name if external else new)

    @contextmanager
    def _renaming(self, name: TableName, new: TableName) -> Iterator[None]:
        with super()._renaming(name, new):
            yield
            self._try_partitions(new)

    def _rename_entry(self, name: TableName, new: TableName, path: str) -> None:
        """Change the name and the location at once, so that the metastore itself moves no files."""
        entry = self._entry(name)
        if entry is None:
            raise self._no_table(name)
        location = table_location(entry, self.hive_options.in_properties)
        entry.dbName, entry.tableName = new.database, new.table
        entry.sd.location = with_scheme_of(path, entry.sd.location)
        set_location(entry, with_scheme_of(path, location), self.hive_options.in_properties)
        self._metastore.rename_table(name, entry)

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table; of an external one only the entry, as Java does. Raises UnsupportedError for the
        purge of an external table, and as the method of other catalogs.
        """
        parsed = TableName.parse(name)
        entry = self._entry(parsed) if purge else None
        if entry is not None and is_external(entry):
            raise UnsupportedError(
                f"table {name!r} is external: its files at {self._table_path(parsed)} stay when it is "
                "dropped; drop it without purge"
            )
        return super().drop_table(name, if_exists=if_exists, purge=purge)

    def _drop_table(self, name: str, *, if_exists: bool, purge: bool) -> DroppedTable | None:
        parsed = check_data_table(name, "dropped")
        entry = self._entry(parsed)
        if entry is None or not is_external(entry):
            return super()._drop_table(name, if_exists=if_exists, purge=purge)
        with self._removal.exclusive(name, "drop-table"), self._lock_of(parsed):
            self._strike_table(parsed)
        if self.privileges is not None:
            self.privileges.object_dropped(name)
        logger.info("dropped the external table %s", name)
        return None

    @contextmanager
    def _altering(self, name: TableName) -> Iterator[Callable[[TableSchema, TableSchema], None]]:
        """Ask the metastore before a schema is published: what it refuses changes nothing."""
        schemas: list[TableSchema] = []

        def ask(old: TableSchema, new: TableSchema) -> None:
            check_partition_options(str(name), new, old)
            schemas.append(new)
            self._change_entry(name, new, old)

        try:
            yield ask
        except BaseException:
            if schemas:
                self._set_right(name)
            raise

    def _change_entry(self, name: TableName, schema: TableSchema, previous: TableSchema | None) -> None:
        entry = self._entry(name)
        if entry is None:
            raise self._no_table(name)
        options = self.hive_options
        self._metastore.alter_table(
            self._rules.changed_entry(entry, schema, previous),
            cascade=options.cascade,
            skip_statistics=options.skip_statistics,
        )

    def _set_right(self, name: TableName) -> None:
        """Bring the entry in step with the newest schema, after a change that failed."""
        try:
            schema = self._latest_schema(name)
            if schema is not None:
                self._change_entry(name, schema, None)
        except LakeError as err:
            logger.warning(
                "the entry of %s may be out of step with its schema: %s; run `lakecore repair %s`",
                name, err, name,
            )  # fmt: skip

    def _table_lock(self, name: TableName) -> TableLock | None:
        """Return the lock of Java's commits, None where it is off."""
        options = self.hive_options
        enabled = options.lock_enabled
        if not (is_object_store(self.warehouse) if enabled is None else enabled):
            return None
        table = replace(name, branch="main", system=None)
        return HiveLock(self.connection, table, options.lock_timeout_ms, options.lock_sleep_ms, self.clock)

    def repair_table(self, name: str) -> None:
        """Add a table whose files exist, and its database, to the metastore, or correct its columns and
        options there, and its partitions (Java's `repairTable` leaves those that have no files any more). It
        can be repeated, and completes a rename that was interrupted. Raises NotFoundError when there are no
        files, AlreadyExistsError when something else has the name.
        """
        parsed = check_data_table(name, "repaired")
        self._check(Privilege.CREATE_TABLE, parsed.database)
        check_hive_name(parsed.table, "table")
        parsed = self._after_interrupted_rename(parsed)
        schema = self._latest_schema(parsed)
        if schema is None:
            raise NotFoundError(f"table {str(parsed)!r} has no files at {self._table_path(parsed)}")
        self._make_database(parsed.database, {})
        if self._entry(parsed) is None and self._metastore.table(parsed) is not None:
            raise AlreadyExistsError(
                f"table {name!r}: a view, or a table that is not Paimon's, has this name in the metastore"
            )
        if self._entry(parsed) is None:
            self._enter(parsed)
        else:
            self._change_entry(parsed, schema, None)
        self._put_partitions_right(parsed)

    @property
    def partitions(self) -> HivePartitions:
        """Return the partitions of tables: by their files, and those that the metastore has."""
        return HivePartitions(self._file_partitions(), self._lists.of_table, self.warehouse, self.clock)

    @cached_property
    def _lists(self) -> PartitionLists:
        return PartitionLists(self.connection, self.hive_options.in_properties, self.clock)

    def _with_partition_list(self, name: TableName, stores: TableStores) -> TableStores:
        return self._lists.in_stores(name, stores)

    def _put_partitions_right(self, name: TableName) -> None:
        """Bring the partitions of the metastore in step with the files, also their locations. It costs a read
        of the schema where the metastore has none.
        """
        self._lists.repair(self._load(name), self.warehouse)

    def _try_partitions(self, name: TableName) -> None:
        """Bring the partitions in step after a change that has succeeded, whatever becomes of them."""
        try:
            self._put_partitions_right(name)
        except LakeError as err:
            logger.warning(
                "the partitions of %s in the metastore may be out of step with its files: %s; run "
                "`lakecore repair %s`",
                name, err, name,
            )  # fmt: skip
