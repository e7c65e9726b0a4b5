"""This module has what catalogs of one warehouse have in common, as Java's `AbstractCatalog` has it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import pyarrow as pa

from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.names import (
    PAIMON_KIND,
    TableName,
    alternatives,
    check_data_table,
    check_name,
)
from lakecore.catalog.objects.external_tables import PATH
from lakecore.catalog.objects.file_tables import new_file_table
from lakecore.catalog.objects.new_file_tables import stored_object_schema
from lakecore.catalog.objects.table_filter import TableFilter, type_of_options
from lakecore.catalog.partitions.file_partitions import FilePartitions
from lakecore.catalog.partitions.partition import Partitions
from lakecore.catalog.privileges.grants import ROOT, Grants, Privilege
from lakecore.catalog.warehouse.alteration import alter_schema
from lakecore.catalog.warehouse.database_catalog import DatabaseCatalog
from lakecore.catalog.warehouse.record_tables import RECORD_TABLES, record_table
from lakecore.catalog.warehouse.table_defaults import with_table_defaults
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, CorruptDataError, LakeError, NotFoundError, UnsupportedError
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from lakecore.fs.table_rights import TableRights
from lakecore.maintain.dropped.move import move_back
from lakecore.maintain.dropped.record import DroppedTable, DropState
from lakecore.maintain.interrupted_renames import InterruptedRenames, Rename
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import SchemaChange
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.store.branches import BranchStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_lock import TableLock
from lakecore.store.table_stores import TableStores
from lakecore.system.catalog_tables import CATALOG_DATABASE, CATALOG_TABLES, catalog_table
from lakecore.system.object_table import OBJECT_TABLE
from lakecore.system.system_table import SystemTable
from lakecore.table import Table

__all__ = ["WarehouseCatalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class WarehouseCatalog(DatabaseCatalog):
    """This is a catalog whose tables lie below one warehouse, at `<warehouse>/<database>.db/<table>`.

    A kind of catalog decides where the names of databases and tables are, and how changes exclude each other.
    """

    _has_object_tables: ClassVar[bool] = False
    """It tells whether Paimon creates object tables in this kind of catalog."""

    @abstractmethod
    def _has_table(self, name: TableName) -> bool:
        """Return whether the table, whatever its branch, exists."""

    def _enter_table(self, name: TableName) -> None:
        """Enter a table that was created or restored into the list of names."""

    def _strike_table(self, name: TableName) -> None:
        """Remove a table that was dropped from the list of names."""

    def _renamed_path(self, name: TableName, new: TableName) -> str:
        """Return where the files of a table are after it was renamed."""
        return self._table_path(new)

    def _rename_entry(self, name: TableName, new: TableName, path: str) -> None:
        """Change the name of a table in the list of names, before its directory moves to `path`."""

    def _check_name_free(self, name: TableName) -> None:
        """Raise AlreadyExistsError for a name that something else than a table has."""

    def _check_schema(self, name: TableName, schema: TableSchema) -> None:
        """Raise InvalidInputError or UnsupportedError for a new table that the catalog cannot enter."""

    @contextmanager
    def _altering(self, name: TableName) -> Iterator[Callable[[TableSchema, TableSchema], None]]:
        """Change the schema within the block, which calls what it is given with the old and the new schema
        before it publishes that.
        """
        yield lambda old, new: None
        self._after_alteration(name)

    def _after_alteration(self, name: TableName) -> None:
        """Do what follows a change of the schema."""

    def _table_lock(self, name: TableName) -> TableLock | None:
        """Return the lock that writers of the table share, None without one."""
        return None

    @contextmanager
    def _renaming(self, name: TableName, new: TableName) -> Iterator[None]:
        """Hold the locks of both names, in the order in which Java takes them."""
        first, second = sorted((name, new), key=lambda one: (one.database, one.table))
        with self._lock_of(first), self._lock_of(second):
            yield

    def _lock_of(self, name: TableName) -> AbstractContextManager[None]:
        """Return what excludes other changes of the table's name and schemas, if the catalog has a lock."""
        lock = self._table_lock(name)
        return nullcontext() if lock is None else lock.acquire()

    def list_tables(
        self, database: str, *, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """List the tables of one database, in order: those whose names are like `pattern` (`ods_%`: only the
        end may be `%`), and whose option `type` is `table_type`. With a type the newest schema of each table
        is read.

        Raises NotFoundError naming existing databases, InvalidInputError for a filter that is invalid.
        """
        names = TableFilter.of(pattern, table_type)
        if database == CATALOG_DATABASE:
            listed = (*CATALOG_TABLES, *RECORD_TABLES) if table_type in (None, "", "table") else ()
        else:
            listed = tuple(self._table_names(check_name(database, "database")))
            if not listed and self._find_database(database) is None:
                raise self._no_database(database)
        chosen = sorted(filter(names.has_name, listed))
        if names.table_type is None or database == CATALOG_DATABASE:
            return chosen
        return self._of_type(database, chosen, names.table_type)

    def _of_type(self, database: str, tables: Sequence[str], table_type: str) -> list[str]:
        """Return the tables of a type, by their newest schemas. One that is dropped meanwhile is left out."""
        schemas = {table: self._latest_schema(TableName(database, table)) for table in tables}
        return [
            table
            for table, schema in schemas.items()
            if schema is not None and type_of_options(schema.options) == table_type
        ]

    def _latest_schema(self, name: TableName) -> TableSchema | None:
        """Return the newest schema of the main branch, None where there is none."""
        return SchemaStore(self.file_io, TablePaths(self._table_path(name)), self.clock).latest()

    def table_kinds(self, database: str) -> dict[str, str]:
        """Return what each table of a database is, by name and in order. Raises NotFoundError."""
        kind = "system table" if database == CATALOG_DATABASE else PAIMON_KIND
        return dict.fromkeys(self.list_tables(database), kind)

    def table_exists(self, name: str) -> bool:
        """Return whether `load_table` would find the table, branch or system table."""
        try:
            self.load_table(name)
        except NotFoundError:
            return False
        return True

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load `db.t`, or `db.t$branch_b`. `options` hold for this handle only.

        A system table (`db.t$files`, `sys.tables`) has `scan` only: anything else of it is refused. Raises
        NotFoundError naming what exists instead.
        """
        parsed = TableName.parse(name)
        if parsed.database == CATALOG_DATABASE and parsed.table in CATALOG_TABLES:
            options_of_catalog = {"warehouse": self.warehouse}
            return cast("Table", catalog_table(parsed.table, self._all_tables, options_of_catalog))
        if parsed.database == CATALOG_DATABASE and parsed.table in RECORD_TABLES:
            grants = Grants(ROOT, {}) if self.privileges is None else self.privileges.grants()
            records = record_table(parsed.table, self.file_io, self.warehouse, self.clock, grants)
            return cast("Table", records)
        rights = self._rights(parsed)
        if rights is not None and parsed.system is not None:
            rights.check_select()
        table = self._load(replace(parsed, system=None), options, rights)
        return table if parsed.system is None else cast("Table", SystemTable(table, parsed.system.lower()))

    @property
    def partitions(self) -> Partitions:
        """Return the partitions of tables, by their files: the catalog keeps no list of partitions."""
        return self._file_partitions()

    def _file_partitions(self) -> FilePartitions:
        return FilePartitions(self.load_table, partial(self._removal.check_no_hold, chore="drop-partition"))

    def _all_tables(self) -> Iterator[tuple[str, str, Table]]:
        for database in self.list_databases():
            for name in self.list_tables(database):
                parsed = TableName(database, name)
                yield database, name, self._load(parsed, None, self._rights(parsed))

    def _rights(self, name: TableName) -> TableRights | None:
        """Return what the user may do with a table; None where there are no users."""
        if self.privileges is None or not self.privileges.enabled:
            return None
        return self.privileges.grants().on_table(name)

    def _load(
        self, parsed: TableName, options: Mapping[str, str] | None = None, rights: TableRights | None = None
    ) -> Table:
        """Load a table or branch, with the rights of the user, or for the catalog itself (None)."""
        paths = TablePaths(self._table_path(parsed))
        storage = confine(self.file_io, self.allowed_paths.of_table(paths.table_path, {}))
        if parsed.branch != paths.branch:
            paths = BranchStore(storage, paths).open(parsed.branch)
        schema = SchemaStore(storage, paths, self.clock).latest() if self._is_listed(parsed) else None
        if schema is None:
            raise self._no_table(parsed)
        allowed = self.allowed_paths.of_table(paths.table_path, schema.options, rights)
        if schema.options.get("type") == OBJECT_TABLE:
            return self._load_objects(parsed, paths.table_path, schema, rights)
        files = confine(self.file_io, allowed)
        lock = self._table_lock(parsed)
        stores = TableStores(schema, files, paths, self.clock, lock, manifest_cache=self.manifest_cache)
        table = Table(str(parsed), self._with_partition_list(parsed, stores))
        return table.with_options(options) if options else table

    def _load_objects(
        self, name: TableName, path: str, schema: TableSchema, rights: TableRights | None
    ) -> Table:
        """Load an object table. Raises PrivilegeError without SELECT, UnsupportedError for a branch, and the
        errors of `_objects_path`.
        """
        if rights is not None:
            rights.check_select()
        directory = self._objects_path(name, path, schema)
        files = confine(self.file_io, self.allowed_paths.of_table(directory, {}, rights))
        table = new_file_table(str(name), directory, schema, files, branch=name.branch != "main")
        assert table is not None  # the schema says that it is an object table
        return table

    def _objects_path(self, name: TableName, path: str, schema: TableSchema) -> str:
        """Return which directory an object table lists; its schema is below `path`."""
        return path

    def _with_partition_list(self, name: TableName, stores: TableStores) -> TableStores:
        """Return the stores of a table with the list of its partitions, if the catalog keeps one."""
        return stores

    def _is_listed(self, name: TableName) -> bool:
        """Return whether a table may exist, without a look at its schemas."""
        return True

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
        With `if_not_exists` a table that exists is returned as it is, whatever its definition. Raises
        AlreadyExistsError, InvalidInputError for an invalid definition.
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
            if not self._has_table(parsed):
                self._check_name_free(parsed)
            if self._has_table(parsed) or store.list_ids() or not store.publish(schema):
                if if_not_exists:
                    return self.load_table(name)
                raise AlreadyExistsError(
                    f"table {name!r} exists in {self.warehouse}; drop it or choose another name"
                )
            self._enter_table(parsed)
        table = self.load_table(name)
        logger.info("created table %s at %s", name, table.path)
        for warning in table.warnings:
            logger.warning("%s: %s", name, warning)
        return table

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

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Publish the next schema, with all changes or none; existing rows are read under it at once.

        `db.t$branch_b` changes the branch alone. `changes` are values of `metadata.schema_change`, or their
        JSON. When others change the schema at the same time, the changes are applied again on top of theirs.
        Raises NotFoundError, InvalidInputError naming what cannot change, CommitConflictError when others won
        every retry.
        """
        parsed = TableName.parse(name)
        self._check(Privilege.ALTER_TABLE, parsed.database, parsed.table)
        if parsed.system is not None or parsed.database == CATALOG_DATABASE:
            raise UnsupportedError(f"table {name!r} is a system table: it can only be read")
        table = self._load(parsed)
        with self._lock_of(replace(parsed, branch="main")):
            if parsed.branch != "main":
                alter_schema(table, changes, self.clock)
                return self.load_table(name)
            with self._altering(parsed) as before_publication:
                alter_schema(table, changes, self.clock, before_publication)
        return self.load_table(name)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Give a table another name, in its database or another one, in one step. Stop its writers first.

        Runs in the ledger and the quarantine stay under the old name. Raises NotFoundError unless
        `if_exists`, AlreadyExistsError, OnHoldError, BusyError when a chore works on the table, and
        UnsupportedError on storage that cannot rename a directory in one step: then nothing has changed.
        """
        old, new = check_data_table(name, "renamed"), check_data_table(new_name, "the name of a table")
        self._check(Privilege.ALTER_TABLE, old.database, old.table)
        if not self._has_table(old):
            if if_exists:
                return
            raise self._no_table(old)
        if self._has_table(new):
            raise AlreadyExistsError(
                f"table {name!r} cannot be renamed: {new_name!r} exists in {self.warehouse}"
            )
        if self._find_database(new.database) is None:
            raise self._no_database(new.database)
        source, target = self._table_path(old), self._renamed_path(old, new)
        rename = Rename(name, new_name, source) if self._is_entered(old) else None
        with self._removal.exclusive(name, "rename-table"), self._renaming(old, new):
            self._removal.check_not_half_dropped(new_name, target)
            self._check_name_free(new)
            if rename is not None:
                self._renames.begin(rename)
            self._rename_entry(old, new, target)
            try:
                moved = source == target or self._storage.move_directory(source, target)
            except BaseException:
                self._take_back(old, new, source, rename)
                raise
            if not moved:
                self._take_back(old, new, source, rename)
                raise UnsupportedError(
                    f"table {name!r} cannot be renamed: the storage of {self.warehouse} cannot rename a "
                    "directory in one step; create the other table and copy the rows"
                )
            if self.privileges is not None:
                self.privileges.object_renamed(name, new_name)
            if rename is not None:
                self._renames.end(rename)
        logger.info("renamed table %s of %s to %s", name, self.warehouse, new_name)

    def _take_back(self, old: TableName, new: TableName, source: str, rename: Rename | None) -> None:
        """Give a table its name again, after its directory could not be moved. Where it is not certain that
        the files are still at `source`, the record stays, and a repair completes the rename.
        """
        with suppress(LakeError):
            if rename is not None and SchemaStore(self.file_io, TablePaths(source)).list_ids():
                self._rename_entry(new, old, source)
                self._renames.end(rename)

    @cached_property
    def _renames(self) -> InterruptedRenames:
        return InterruptedRenames(self.file_io, self.warehouse)

    def _after_interrupted_rename(self, name: TableName) -> TableName:
        """Complete the rename from or to this name that was interrupted, if there is one, and return the name
        that the table has then.

        Raises BusyError while the process that renames may still work, CorruptDataError for a record that
        names another directory than the catalog.
        """
        rename = self._renames.of_name(str(name))
        if rename is None:
            return name
        old, new = TableName.parse(rename.table), TableName.parse(rename.new)
        with self._removal.exclusive(rename.table, "rename-table"), self._renaming(old, new):
            renamed = self._is_entered(new) and not self._is_entered(old)
            if renamed:
                self._complete_rename(rename, old, new)
            self._renames.end(rename)
        return new if renamed else name

    def _complete_rename(self, rename: Rename, old: TableName, new: TableName) -> None:
        source, target = self._table_path(old), self._table_path(new)
        if self._latest_schema(new) is None and self._latest_schema(old) is not None:
            if source != rename.path:
                raise CorruptDataError(
                    rename.path,
                    f"is the directory of table {rename.table} in the record of its rename, but the catalog "
                    f"would have it at {source}; move the directory to {target}",
                )
            if not self._storage.move_directory(source, target):
                raise UnsupportedError(f"{source} cannot be moved to {target} in one step; move it yourself")
        if self.privileges is not None:
            self.privileges.object_renamed(rename.table, rename.new)
        logger.info("completed the rename of table %s to %s", rename.table, rename.new)

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table. Its files are kept, and `restore_table` takes them back; with `purge` they are
        deleted. A drop that was interrupted is completed by a repetition. It returns None when there was
        nothing to drop.

        Raises NotFoundError unless `if_exists`; OnHoldError for a table on hold, BusyError when a chore works
        on it; UnsupportedError for tables with files outside of their directory.
        """
        parsed = TableName.parse(name)
        if parsed.branch != "main":
            raise UnsupportedError(f"{name!r} is a branch: delete it with `lakecore delete-branch`")
        self._check(Privilege.DROP_TABLE, parsed.database, parsed.table)
        return self._drop_table(name, if_exists=if_exists, purge=purge)

    def _drop_table(self, name: str, *, if_exists: bool, purge: bool) -> DroppedTable | None:
        parsed = check_data_table(name, "dropped")
        path = self._table_path(parsed)
        if not self._has_table(parsed) and self._removal.dropped.interrupted(name) is None:
            if if_exists:
                return None
            raise self._no_table(parsed)
        storage = confine(self.file_io, self.allowed_paths.of_table(path, {}))
        with self._removal.exclusive(name, "drop-table"), self._lock_of(parsed):
            self._removal.check_files_inside(name, storage, path)
            record = self._removal.dropped.drop(name, path, storage, partial(self._strike_table, parsed))
        if self.privileges is not None:
            self.privileges.object_dropped(name)
        if purge and record is not None:
            self._removal.dropped.delete(record)
        logger.info("dropped table %s at %s", name, path)
        return record

    def dropped_tables(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """List the tables that were dropped and are kept, oldest first; of one name, or all."""
        return self._removal.dropped.list(table)

    def restore_table(self, name: str, drop_id: str | None = None) -> Table:
        """Restore a dropped table: the last one of that name, or the one of that id of `dropped_tables`.

        Raises NotFoundError, AlreadyExistsError when a table of that name exists.
        """
        parsed = check_data_table(name, "restored")
        self._check(Privilege.CREATE_TABLE, parsed.database)
        record = self._removal.dropped.find(name, drop_id)
        if record.state is not DropState.RESTORING and self._has_table(parsed):
            raise AlreadyExistsError(
                f"table {name!r} exists in {self.warehouse}; rename or drop it before the restore"
            )
        self._check_database(parsed)
        path = self._table_path(parsed)
        storage = confine(self.file_io, self.allowed_paths.of_table(path, {}))
        with self._removal.exclusive(name, "restore-table"), self._lock_of(parsed):
            self._removal.dropped.restore(record, path, storage, partial(self._enter_table, parsed))
        logger.info("restored table %s at %s", name, path)
        return self.load_table(name)

    def _table_path(self, name: TableName) -> str:
        return f"{self._database_path(name.database)}/{name.table}"

    def _has_schema(self, directory: str, table: str) -> bool:
        return bool(SchemaStore(self.file_io, TablePaths(f"{directory}/{table}")).list_ids())

    def _no_table(self, missing: TableName) -> NotFoundError:
        plain = f"{missing.database}.{missing.table}"
        rename = None
        with suppress(LakeError):  # the error is that of the table
            rename = self._renames.of_name(plain)
        if rename is not None:
            return NotFoundError(
                f"table {str(missing)!r}: the rename of {rename.table} to {rename.new} was interrupted, or "
                f"is being made; if nobody makes it, complete it with `lakecore repair {plain}`"
            )
        if self._is_entered(missing):
            return NotFoundError(
                f"table {str(missing)!r} is in the catalog, but has no files at {self._table_path(missing)}; "
                f"bring them back, or drop the entry with `lakecore drop-table {missing}`"
            )
        text = self._tables(missing)
        return NotFoundError(f"table {str(missing)!r} does not exist in {self.warehouse}; {text}")

    def _is_entered(self, name: TableName) -> bool:
        """Return whether a list of names has a table, whose files may be missing."""
        return False

    def _tables(self, missing: TableName) -> str:
        """List the tables for an error message. Only tables that are named are checked: there may be very
        many.
        """
        databases = self.list_databases()
        if missing.database not in databases:
            return alternatives("databases", missing.database, databases)
        directory = self._database_path(missing.database)
        exists = partial(self._has_schema, directory)
        return alternatives(
            f"tables of {missing.database}", missing.table, self._likely_tables(missing.database), exists
        )

    def _likely_tables(self, database: str) -> list[str]:
        """List names that may be tables, without a look at each."""
        return self._table_names(database)
