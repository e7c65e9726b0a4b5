"""This module finds the tables of a catalog of one warehouse by name, and loads them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import cast

from lakecore.catalog.names import PAIMON_KIND, TableName, alternatives, check_name
from lakecore.catalog.objects.file_tables import new_file_table
from lakecore.catalog.objects.table_filter import TableFilter, type_of_options
from lakecore.catalog.objects.table_page import TablePage, check_limit, page_of
from lakecore.catalog.partitions.file_partitions import FilePartitions
from lakecore.catalog.partitions.partition import Partitions
from lakecore.catalog.privileges.grants import ROOT, Grants
from lakecore.catalog.warehouse.cached_table import cached_table
from lakecore.catalog.warehouse.database_catalog import DatabaseCatalog
from lakecore.catalog.warehouse.record_tables import RECORD_TABLES, record_table
from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.fs.confined import confine
from lakecore.fs.table_rights import TableRights
from lakecore.maintain.interrupted_renames import InterruptedRenames
from lakecore.metadata.schema import TableSchema
from lakecore.store.branches import BranchStore
from lakecore.store.cache.table_cache import TableCache
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_lock import TableLock
from lakecore.store.table_stores import TableStores
from lakecore.system.catalog_tables import CATALOG_DATABASE, CATALOG_TABLES, REMOVED_TABLES, catalog_table
from lakecore.system.object_table import OBJECT_TABLE
from lakecore.system.system_table import SystemTable
from lakecore.table import Table

__all__ = ["NamedTables"]


@dataclass(frozen=True, repr=False)
class NamedTables(DatabaseCatalog):
    """This has the tables of a catalog of one warehouse, as they are.

    A kind of catalog decides where the names of tables are, and how changes exclude each other.
    """

    @abstractmethod
    def _has_table(self, name: TableName) -> bool:
        """Return whether the table, whatever its branch, exists."""

    def _table_lock(self, name: TableName) -> TableLock | None:
        """Return the lock that writers of the table share, None without one."""
        return None

    @contextmanager
    def _lock_of(self, name: TableName) -> Iterator[None]:
        """Exclude other changes of the table's name and schemas, if the catalog has a lock, and let the cache
        forget the table afterwards.
        """
        lock = self._table_lock(name)
        with nullcontext() if lock is None else lock.acquire():
            try:
                yield
            finally:
                if self.table_cache is not None:
                    self.table_cache.forget_name(name.database, name.table)

    def list_tables(
        self, database: str, *, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """List the tables of one database, in order: those whose names are like `pattern` (`ods_%`: only the
        end may be `%`), and whose option `type` is `table_type`. With a type the newest schema of each table
        is read.

        Raises NotFoundError naming existing databases, InvalidInputError for a filter that is invalid.
        """
        return list(self._tables_after(database, "", TableFilter.of(pattern, table_type)))

    def list_tables_page(
        self,
        database: str,
        *,
        limit: int,
        token: str | None = None,
        pattern: str | None = None,
        table_type: str | None = None,
    ) -> TablePage:
        """List one page of at most `limit` tables, in order, after the name `token`: tables that are created
        or dropped between two pages shift no others.

        It costs one list of names, and looks at no table behind the page. Raises as `list_tables`, and
        InvalidInputError for a `limit` below 1.
        """
        check_limit(limit)
        return page_of(self._tables_after(database, token or "", TableFilter.of(pattern, table_type)), limit)

    def _tables_after(self, database: str, after: str, names: TableFilter) -> Iterator[str]:
        """Yield the tables that a filter has, in order; each is looked at when it is its turn."""
        if database == CATALOG_DATABASE:
            listed = (*CATALOG_TABLES, *RECORD_TABLES) if names.table_type in (None, "table") else ()
            return (one for one in sorted(listed) if one > after and names.has_name(one))
        likely = self._likely_tables(check_name(database, "database"))
        if not likely and self._find_database(database) is None:
            raise self._no_database(database)
        chosen = sorted(one for one in likely if one > after and names.has_name(one))
        tables = self._existing(database, chosen)
        if names.table_type is None:
            return tables
        return (one for one in tables if self._type_of(TableName(database, one)) == names.table_type)

    def _existing(self, database: str, names: Sequence[str]) -> Iterator[str]:
        """Yield those of likely names that are tables, in their order."""
        return iter(names)

    def _type_of(self, name: TableName) -> str | None:
        """Return the type of a table by its newest schema; None for one that is dropped meanwhile."""
        schema = self._latest_schema(name)
        return None if schema is None else type_of_options(schema.options)

    def _latest_schema(self, name: TableName) -> TableSchema | None:
        """Return the newest schema of the main branch, None where there is none."""
        return SchemaStore(self.file_io, TablePaths(self._table_path(name)), self.clock).latest()

    def table_kinds(self, database: str) -> dict[str, str]:
        """Return what each table of a database is, by name and in order. Raises NotFoundError."""
        kind = "system table" if database == CATALOG_DATABASE else PAIMON_KIND
        return dict.fromkeys(self.list_tables(database), kind)

    def table_exists(self, name: str) -> bool:
        """Return whether `load_table` would find the table, branch or system table. No cache is asked."""
        try:
            self._open(name)
        except NotFoundError:
            return False
        return True

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load `db.t`, or `db.t$branch_b`. `options` hold for this handle only.

        A system table (`db.t$files`, `sys.tables`) has `scan` only: anything else of it is refused. Raises
        NotFoundError naming what exists instead.
        """
        return self._open(name, options, self.table_cache)

    def _open(
        self, name: str, options: Mapping[str, str] | None = None, cache: TableCache | None = None
    ) -> Table:
        """Load a table as `load_table` does; without a cache from storage."""
        parsed = TableName.parse(name)
        if parsed.database == CATALOG_DATABASE and parsed.table in (*CATALOG_TABLES, *REMOVED_TABLES):
            options_of_catalog = {"warehouse": self.warehouse}
            return cast("Table", catalog_table(parsed.table, self._all_tables, options_of_catalog))
        if parsed.database == CATALOG_DATABASE and parsed.table in RECORD_TABLES:
            grants = Grants(ROOT, {}) if self.privileges is None else self.privileges.grants()
            records = record_table(parsed.table, self.file_io, self.warehouse, self.clock, grants)
            return cast("Table", records)
        rights = self._rights(parsed)
        if rights is not None and parsed.system is not None:
            rights.check_select()
        if cache is not None and parsed.system is None and rights is None:
            return cached_table(cache, parsed, partial(self._load, parsed), options)
        table = self._load(replace(parsed, system=None), options, rights)
        return table if parsed.system is None else cast("Table", SystemTable(table, parsed.system.lower()))

    @property
    def partitions(self) -> Partitions:
        """Return the partitions of tables, by their files: the catalog keeps no list of partitions."""
        return self._file_partitions()

    def _file_partitions(self) -> FilePartitions:
        without_users = self.privileges is None or not self.privileges.enabled
        return FilePartitions(
            self._open,
            partial(self._removal.check_no_hold, chore="drop-partition"),
            self.table_cache if without_users else None,
        )

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
        path, is_listed = self._listed_at(parsed)
        paths = TablePaths(path)
        storage = confine(self.file_io, self.allowed_paths.of_table(paths.table_path, {}))
        if parsed.branch != paths.branch:
            paths = BranchStore(storage, paths).open(parsed.branch)
        schema = SchemaStore(storage, paths, self.clock).latest() if is_listed else None
        if schema is None:
            raise self._no_table(parsed)
        allowed = self.allowed_paths.of_table(paths.table_path, schema.options, rights)
        if schema.options.get("type") == OBJECT_TABLE:
            return self._load_objects(parsed, paths.table_path, schema, rights)
        files = confine(self.file_io, allowed)
        lock = self._table_lock(parsed)
        stores = TableStores(schema, files, paths, self.clock, lock, manifest_cache=self.manifest_cache)
        stores = self._with_partition_list(parsed, stores)
        stores.schemas.keep(schema)
        table = Table(str(parsed), stores)
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

    def _listed_at(self, name: TableName) -> tuple[str, bool]:
        """Return where the files of a table are, and whether it may exist, without a look at its schemas."""
        return self._table_path(name), True

    @cached_property
    def _renames(self) -> InterruptedRenames:
        return InterruptedRenames(self.file_io, self.warehouse)

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
