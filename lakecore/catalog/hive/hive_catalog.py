"""The Hive catalog: names, columns and options are in a Hive metastore, files where the metastore says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lakecore.catalog.catalog_options import WAREHOUSE_KEYS, check_catalog_options
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.hive.connection import MetastoreConnection
from lakecore.catalog.hive.entries import is_external
from lakecore.catalog.hive.formats.entry_text import entry_of_text, text_of_entry
from lakecore.catalog.hive.formats.format_places import check_other_tables
from lakecore.catalog.hive.locations import database_location, set_location, table_location, with_scheme_of
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.names import check_hive_name
from lakecore.catalog.hive.new_hive_tables import NewHiveTables
from lakecore.catalog.hive.options import OPTIONS, HiveOptions
from lakecore.catalog.hive.partition_options import check_partition_options
from lakecore.catalog.hive.site_file import WAREHOUSE_DIR
from lakecore.catalog.names import TableName, check_data_table
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.remote.options import holds_lock
from lakecore.catalog.warehouse.opened_warehouse import opened_warehouse
from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import AlreadyExistsError, InvalidOptionError, LakeError, NotFoundError, UnsupportedError
from lakecore.fs.stores.registry import is_object_store
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.maintain.holds.user import this_user
from lakecore.maintain.interrupted_renames import Rename
from lakecore.metadata.schema import TableSchema

__all__ = ["HiveCatalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class HiveCatalog(NewHiveTables):
    """It finds databases and tables in a Hive metastore, and keeps their entries in step with the schemas.
    It can be pickled when its storage can.

    A table needs a database that was created. Files without an entry are no table until `repair_table`; an
    entry without files can be dropped. Every look at a name is a call.
    """

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
        locks = holds_lock(config.options, object_store=is_object_store(fields["warehouse"]))
        return cls(**fields, connection=connection, hive_options=replace(options, lock_enabled=locks))

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def _strike_table(self, name: TableName) -> None:
        self._metastore.drop_table(name)

    def _renamed_path(self, name: TableName, new: TableName) -> str:
        entry = self._entry(name)
        external = entry is not None and is_external(entry)
        return self._table_path(name if external else new)

    @contextmanager
    def _renaming(self, name: TableName, new: TableName) -> Iterator[None]:
        self._check_own_directory(name, self._entry(name), "rename")
        with super()._renaming(name, new):
            yield
            if self._format_entry(new) is None:
                self._try_partitions(new)

    def _has_files(self, name: TableName, path: str) -> bool:
        if self._format_entry(name) is None:
            return super()._has_files(name, path)
        return self._has_directory(path)

    def _check_has_files(self, name: TableName, path: str) -> None:
        """Raise NotFoundError for a table without files; a format table may have none."""
        if self._format_entry(name) is None:
            super()._check_has_files(name, path)

    def _has_directory(self, path: str) -> bool:
        return self.file_io.stat(path) is not None or bool(self.file_io.list(path))

    def _move_renamed(self, name: TableName, source: str, target: str) -> bool:
        """Move the directory, which may be missing if a format table has no files, then the locations of its
        partitions: where these fail, the record of the rename stays, and a repair completes it.
        """
        if self._format_entry(name) is None:
            return super()._move_renamed(name, source, target)
        moved = not self._has_directory(source) or super()._move_renamed(name, source, target)
        if moved:
            self._move_format_partitions(name, source)
        return moved

    def _complete_rename(self, rename: Rename, old: TableName, new: TableName) -> None:
        super()._complete_rename(rename, old, new)
        if self._format_entry(new) is not None:
            self._move_format_partitions(new, rename.path)

    def _format_entry(self, name: TableName) -> Any | None:
        """Return the entry of a format table, None without one."""
        entry = self._entry(name)
        return entry if entry is not None and self._formats.has(entry) else None

    def _check_own_directory(self, name: TableName, entry: Any | None, verb: str) -> None:
        """Raise UnsupportedError for a format table whose directory is not its own, or not that of Java."""
        if entry is None or not self._formats.has(entry):
            return
        self._formats.check_change(str(name), verb, in_properties=self.hive_options.in_properties)
        if is_external(entry):
            return
        path, databases = self._place_of(entry, name), {}
        if path != f"{self._database_path(name.database)}/{name.table}":
            databases = {one: self._database_path(one) for one in self.list_databases()}
        check_other_tables(name, path, self._metastore.tables(name.database), databases)

    def _entry_to_keep(self, name: TableName, path: str) -> str:
        entry = self._format_entry(name)
        return "" if entry is None else text_of_entry(entry)

    def _enter_again(self, name: TableName, record: DroppedTable) -> None:
        """Enter a table by its schemas, a format table by the entry that its drop kept."""
        if not record.entry:
            super()._enter_again(name, record)
        elif self._entry(name) is None:
            parent = database_location(self._database(name.database), in_properties=False)
            location = with_scheme_of(self._table_path(name), parent)
            self._metastore.create_table(entry_of_text(record.entry, name, location))

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
        self._check_own_directory(parsed, entry, "drop")
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
        entry = self._paimon_entry(name)
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
        if self._format_entry(parsed) is not None:  # its partitions are those of Hive
            return
        schema = self._latest_schema(parsed)
        if schema is None:
            raise NotFoundError(f"table {str(parsed)!r} has no files at {self._table_path(parsed)}")
        self._make_database(parsed.database, {})
        if self._paimon_entry(parsed) is None and self._metastore.table(parsed) is not None:
            raise AlreadyExistsError(
                f"table {name!r}: a view, or a table that is not Paimon's, has this name in the metastore"
            )
        if self._paimon_entry(parsed) is None:
            self._enter(parsed)
        else:
            self._change_entry(parsed, schema, None)
        self._put_partitions_right(parsed)
