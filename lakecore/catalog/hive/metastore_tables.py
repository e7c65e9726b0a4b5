"""This module finds the databases and tables of a Hive catalog by their entries in the metastore."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from lakecore.catalog.catalog import Database
from lakecore.catalog.hive.connection import MetastoreConnection
from lakecore.catalog.hive.databases import DatabaseRecords
from lakecore.catalog.hive.entries import EntryRules, is_paimon_table
from lakecore.catalog.hive.formats.format_places import move_partitions
from lakecore.catalog.hive.formats.format_tables import FormatTables
from lakecore.catalog.hive.hive_partitions import HivePartitions
from lakecore.catalog.hive.locations import table_location
from lakecore.catalog.hive.lock import HiveLock
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.options import HiveOptions
from lakecore.catalog.hive.partition_list import PartitionLists
from lakecore.catalog.hive.places import checked_place
from lakecore.catalog.hive.views.hive_views import HiveViews
from lakecore.catalog.hive.views.view_entries import VIEW
from lakecore.catalog.names import SYSTEM_DATABASE, TableName, check_name
from lakecore.catalog.objects.file_tables import file_table_of, new_file_table
from lakecore.catalog.objects.table_filter import TableFilter
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError
from lakecore.fs.confined import confine
from lakecore.fs.table_rights import TableRights
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.store.table_lock import TableLock
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["MetastoreTables"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class MetastoreTables(WarehouseCatalog):
    """This has the databases, tables and partitions that a metastore names, as they are."""

    connection: MetastoreConnection = field(kw_only=True)
    """It calls the metastore."""
    hive_options: HiveOptions = field(kw_only=True)
    """These are the options that decide what entries contain, and how the lock is used."""

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

    @property
    def views(self) -> HiveViews:
        """Return the views of the metastore, whoever made them."""
        return HiveViews(
            metastore=self._metastore,
            lock_of=self._lock_of,
            locks_of=super()._renaming,
            check_database=self._check_database,
            check_privilege=self._check,
        )

    def _check_droppable(self, name: str, *, cascade: bool) -> None:
        self._databases.check_drop(name, self._is_ours, cascade=cascade)

    def _drop_views(self, database: str) -> None:
        for view in self._metastore.names_of_type(database, VIEW):
            self._metastore.drop_table(TableName(database, view))

    def _names_to_drop(self, database: str) -> list[str]:
        return [one.tableName for one in self._metastore.tables(database) if self._is_ours(one)]

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
        return super().list_tables(database, pattern=pattern, table_type=table_type)

    def _likely_tables(self, database: str) -> list[str]:
        return self._metastore.table_names(database)

    def _tables_after(self, database: str, after: str, names: TableFilter) -> Iterator[str]:
        if names.table_type != FORMAT_TABLE or database == SYSTEM_DATABASE:
            return super()._tables_after(database, after, names)
        self._database(check_name(database, "database"))
        likely = self._likely_tables(database)
        chosen = sorted(one for one in likely if one > after and names.has_name(one))
        return self._entered_as(database, chosen, self._formats.has)

    def _existing(self, database: str, names: Sequence[str]) -> Iterator[str]:
        return self._entered_as(database, names, is_paimon_table)

    def _entered_as(
        self, database: str, names: Sequence[str], is_chosen: Callable[[Any], bool]
    ) -> Iterator[str]:
        """Yield the tables whose entries are chosen, in order. It costs a call for 300 names."""
        records = self._metastore.records(database, names)
        return (one.tableName for one in records if is_chosen(one))

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

    def _is_ours(self, record: Any) -> bool:
        """Return whether an entry is that of a Paimon table or of a format table."""
        return is_paimon_table(record) or self._formats.has(record)

    def _entry(self, name: TableName) -> Any | None:
        """Return the entry of a Paimon table or a format table, None without one."""
        record = self._metastore.table(name)
        return record if record is not None and self._is_ours(record) else None

    def _paimon_entry(self, name: TableName) -> Any | None:
        """Return the entry of a Paimon table, None without one."""
        record = self._metastore.table(name)
        return record if record is not None and is_paimon_table(record) else None

    def _has_table(self, name: TableName) -> bool:
        return self._entry(name) is not None

    def _listed_at(self, name: TableName) -> tuple[str, bool]:
        """Ask the metastore once for both."""
        entry = self._entry(name)
        return self._place_of(entry, name), entry is not None and is_paimon_table(entry)

    def _is_entered(self, name: TableName) -> bool:
        return self._has_table(name)

    def _check_database(self, name: TableName) -> None:
        self._database(name.database)

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

    def _table_lock(self, name: TableName) -> TableLock | None:
        """Return the lock of Java's commits, None where it is off."""
        options = self.hive_options
        if not options.lock_enabled:
            return None
        table = replace(name, branch="main", system=None)
        return HiveLock(self.connection, table, options.lock_timeout_ms, options.lock_sleep_ms, self.clock)

    @property
    def partitions(self) -> HivePartitions:
        """Return the partitions of tables: by their files, and those that the metastore has."""
        return HivePartitions(self._file_partitions(), self._lists.of_table, self.warehouse, self.clock)

    @cached_property
    def _lists(self) -> PartitionLists:
        return PartitionLists(self.connection, self.hive_options.in_properties, self.clock)

    def _with_partition_list(self, name: TableName, stores: TableStores) -> TableStores:
        return self._lists.in_stores(name, stores)

    def _put_partitions_right(self, name: TableName, *, removes: bool = True) -> None:
        """Bring the partitions of the metastore in step with the files, also their locations; those without
        files stay unless `removes`. It costs a read of the schema where the metastore has none. Those of a
        table of files are left alone.
        """
        table = self._load(name)
        if file_table_of(table) is None:
            self._lists.repair(table, self.warehouse, removes=removes)

    def _move_format_partitions(self, name: TableName, source: str) -> None:
        """Change the locations of the partitions of a format table that was renamed, and was at `source`:
        its partitions are those of Hive. It can be repeated.
        """
        table = self._load(name)
        if table.schema.partition_keys:
            move_partitions(self._lists.of_name(name, table.schema.partition_keys), source, table.path)

    def _try_partitions(self, name: TableName) -> None:
        """Enter partitions and their locations after a change that has succeeded, whatever becomes of them.
        Those without files stay, as in Java: somebody may have created them beforehand.
        """
        try:
            self._put_partitions_right(name, removes=False)
        except LakeError as err:
            logger.warning(
                "the partitions of %s in the metastore may be out of step with its files: %s; run "
                "`lakecore repair %s`",
                name, err, name,
            )  # fmt: skip
