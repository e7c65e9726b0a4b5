"""The filesystem catalog: a warehouse is a directory with tables at `<warehouse>/<database>.db/<table>`;
files of lakecore itself are in `.lakecore/`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pyarrow as pa

from lakecore.catalog.alter import apply_changes
from lakecore.catalog.catalog_options import check_catalog_options
from lakecore.catalog.change_text import changes_from_json
from lakecore.catalog.config import CatalogConfig, resolve
from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.names import DATABASE_SUFFIX, TableName, alternatives, check_name
from lakecore.catalog.privileges import check_no_privileges
from lakecore.clock import Clock, SystemClock
from lakecore.display import one_line
from lakecore.errors import (
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.fs.allowed_paths import BLOB_ROOTS, EXTERNAL_ROOTS, AllowedPaths, declared_roots
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import SchemaChange
from lakecore.store.branches import BranchStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_stores import TableStores
from lakecore.system.catalog_tables import CATALOG_DATABASE, CATALOG_TABLES, CatalogTable
from lakecore.system.system_table import SystemTable
from lakecore.table import Table

__all__ = ["FilesystemCatalog", "load_catalog"]

logger = logging.getLogger(__name__)

_ALTER_TRIES = 50


def load_catalog(
    warehouse: str | os.PathLike[str] | None = None, *, create_warehouse: bool = False, **options: str
) -> FilesystemCatalog:
    """Open a warehouse: its location, the name of a configured catalog, or None for the configured default.

    `options` reach the storage (`**{"s3.endpoint": …}`) and win over configured ones. Raises NotFoundError
    when there is no such catalog or warehouse, InvalidInputError for what is not a location, UnsupportedError
    and InvalidOptionError for options that this catalog does not obey, and UnsupportedError for a warehouse
    with Paimon's users and privileges.
    """
    config = resolve(None if warehouse is None else os.fspath(warehouse), os.environ)
    merged = {**config.options, **{key: str(value) for key, value in options.items()}}
    return FilesystemCatalog.open(CatalogConfig(config.warehouse, merged), create=create_warehouse)


@dataclass(frozen=True)
class FilesystemCatalog:
    """It finds databases and tables by listing directories. It can be pickled when its storage can."""

    file_io: FileIO
    """The unrestricted storage; tables get it with the limits of `AllowedPaths`."""
    warehouse: str
    """This is the root directory, as a plain path or an address."""
    clock: Clock = field(default_factory=SystemClock)
    """It tells times and makes ids."""
    external_roots: tuple[str, ...] | None = None
    """These are the plain paths of the option `external-roots`; None without it."""
    blob_roots: tuple[str, ...] = ()
    """These are the plain paths of the option `blob-roots`."""

    def __repr__(self) -> str:
        """Return the warehouse on one line, without the options of the storage; reads nothing."""
        return one_line("FilesystemCatalog", self.warehouse, {})

    @classmethod
    def open(cls, config: CatalogConfig, *, create: bool = False) -> FilesystemCatalog:
        """Open a catalog. Raises NotFoundError when a local warehouse is missing; with `create` the first
        table creates it.

        Raises UnsupportedError and InvalidOptionError for options that this catalog does not obey, and
        UnsupportedError for a warehouse with Paimon's users and privileges.
        """
        check_catalog_options(config.options)
        warehouse = plain_path(config.warehouse)
        file_io = file_io_for(config.warehouse, config.options)
        if not create and "://" not in warehouse:
            status = file_io.stat(warehouse)
            if status is None:
                raise NotFoundError(
                    f"warehouse {warehouse} does not exist; check the path or create the directory"
                )
            if not status.is_dir:
                raise InvalidInputError(
                    f"warehouse {warehouse} is a file; give the directory that holds databases"
                )
        check_no_privileges(file_io, warehouse)
        external = declared_roots(EXTERNAL_ROOTS, config.options)
        blobs = declared_roots(BLOB_ROOTS, config.options) or ()
        return cls(file_io, warehouse, external_roots=external, blob_roots=blobs)

    @property
    def allowed_paths(self) -> AllowedPaths:
        """Return the paths that the catalog itself may change: the warehouse."""
        return AllowedPaths(
            warehouse=self.warehouse,
            own=self.warehouse,
            declared=self.external_roots,
            blob_roots=self.blob_roots,
        )

    @property
    def _storage(self) -> FileIO:
        """Return the storage through which the catalog changes the warehouse."""
        return confine(self.file_io, self.allowed_paths)

    def list_databases(self) -> list[str]:
        """List the database names in order."""
        found = (status.name for status in self.file_io.list(self.warehouse) if _may_be_dir(status))
        return sorted(
            name.removesuffix(DATABASE_SUFFIX)
            for name in found
            if name.endswith(DATABASE_SUFFIX) and not name.startswith(".")
        )

    def list_tables(self, database: str) -> list[str]:
        """List the tables of one database, in order. Raises NotFoundError naming existing databases."""
        directory = self._database_path(database)
        found = [status.name for status in self.file_io.list(directory) if _may_be_dir(status)]
        if not found and self.file_io.stat(directory) is None:
            raise NotFoundError(
                f"database {database!r} does not exist in {self.warehouse}; {self._databases(database)}"
            )
        return sorted(
            name for name in found if not name.startswith(".") and self._has_schema(directory, name)
        )

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load `db.t`, or `db.t$branch_b`. `options` hold for this handle only.

        A system table (`db.t$files`, `sys.tables`) has `scan` only: anything else of it is refused. Raises
        NotFoundError naming what exists instead.
        """
        parsed = TableName.parse(name)
        if parsed.database == CATALOG_DATABASE and parsed.table in CATALOG_TABLES:
            found: Any = CatalogTable(parsed.table, self._all_tables, {"warehouse": self.warehouse})
            return cast("Table", found)
        table = self._load(replace(parsed, system=None), options)
        return table if parsed.system is None else cast("Table", SystemTable(table, parsed.system.lower()))

    def _all_tables(self) -> Iterator[tuple[str, str, Table]]:
        for database in self.list_databases():
            for name in self.list_tables(database):
                yield database, name, self._load(TableName(database, name), None)

    def _load(self, parsed: TableName, options: Mapping[str, str] | None) -> Table:
        name = str(parsed)
        paths = TablePaths(self._table_path(parsed))
        storage = confine(self.file_io, self.allowed_paths.of_table(paths.table_path, {}))
        if parsed.branch != paths.branch:
            paths = BranchStore(storage, paths).open(parsed.branch)
        schema = SchemaStore(storage, paths, self.clock).latest()
        if schema is None:
            raise NotFoundError(f"table {name!r} does not exist in {self.warehouse}; {self._tables(parsed)}")
        allowed = self.allowed_paths.of_table(paths.table_path, schema.options)
        stores = TableStores(schema, confine(self.file_io, allowed), paths, self.clock)
        table = Table(str(parsed), stores)
        return table.with_options(options) if options else table

    def create_table(
        self,
        name: str,
        definition: TableDefinition | pa.Schema | Mapping[str, Any],
        *,
        primary_keys: tuple[str, ...] = (),
        partition_keys: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> Table:
        """Create an empty table, all or nothing: `schema-0` is created atomically.

        `definition` is a TableDefinition, its JSON, or an Arrow schema (then keys and options are arguments).
        Raises AlreadyExistsError, InvalidInputError for an invalid definition.
        """
        parsed = TableName.parse(name)
        if parsed.branch != TablePaths("").branch or parsed.system is not None:
            raise InvalidInputError(
                f"table {name!r}: a branch or system table cannot be created like a table; "
                "create the table itself"
            )
        if parsed.database == CATALOG_DATABASE:
            raise InvalidInputError(
                f"table {name!r}: the database {CATALOG_DATABASE!r} holds the tables of the catalog itself; "
                "choose another database"
            )
        if isinstance(definition, pa.Schema):
            definition = TableDefinition.from_arrow(
                definition, primary_keys=primary_keys, partition_keys=partition_keys, options=options or {}
            )
        elif isinstance(definition, Mapping):
            definition = TableDefinition.from_json(definition)
        schema = first_schema(definition, self.clock.now_ms())
        paths = TablePaths(self._table_path(parsed))
        store = SchemaStore(self._storage, paths, self.clock)
        if store.list_ids() or not store.publish(schema):
            raise AlreadyExistsError(
                f"table {name!r} exists in {self.warehouse}; drop it or choose another name"
            )
        logger.info("created table %s at %s", name, paths.table_path)
        table = self.load_table(name)
        for warning in table.warnings:
            logger.warning("%s: %s", name, warning)
        return table

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Publish the next schema, with all changes or none; existing rows are read under it at once.

        `db.t$branch_b` changes the branch alone. `changes` are values of `metadata.schema_change`, or their
        JSON. When others change the schema at the same time, the changes are applied again on top of theirs.
        Raises NotFoundError, InvalidInputError naming what cannot change, CommitConflictError when others won
        every retry.
        """
        table = self.load_table(name)
        wanted = _changes(changes)
        for _ in range(_ALTER_TRIES):
            old = table._stores.schemas.latest() or table.schema
            has_snapshots = table._stores.snapshots.latest_id() is not None
            schema = apply_changes(old, wanted, self.clock.now_ms(), has_snapshots=has_snapshots)
            self._check_branches(table, schema)
            _check_postponed(table, old, schema)
            if table._stores.schemas.publish(schema):
                logger.info("apply_changes table %s: schema %d", name, schema.id)
                return self.load_table(name)
        raise CommitConflictError(
            f"table {name!r}: its schema was changed {_ALTER_TRIES} times by others during this "
            "change; try again"
        )

    def _check_branches(self, table: Table, schema: TableSchema) -> None:
        """Check that branches which options name exist."""
        for key in ("scan.fallback-branch", "scan.primary-branch"):
            branch = schema.options.get(key, "").strip()
            if branch and table.schema.options.get(key, "").strip() != branch:
                table._stores.branches.open(branch)

    def drop_table(self, name: str) -> None:
        """Delete a table and all its files, snapshots first and the schema last: a repetition completes it.

        Raises NotFoundError; UnsupportedError for tables with files outside of their directory.
        """
        table = self.load_table(name)
        if table.schema.options.get("data-file.external-paths"):
            raise UnsupportedError(
                f"table {name!r} has files at data-file.external-paths; drop it with the engine "
                "that created it"
            )
        if table._stores.paths.branch != TablePaths("").branch:
            raise UnsupportedError(f"{name!r} is a branch: this release does not delete branches")
        self._delete_tree(table._stores.paths.snapshot_dir)
        for status in self.file_io.list(table._stores.paths.table_path):
            if status.path.rstrip("/") != table._stores.paths.schema_dir:
                self._delete(status)
        self._delete_tree(table._stores.paths.table_path)
        logger.info("dropped table %s at %s", name, table._stores.paths.table_path)

    def _delete_tree(self, path: str) -> None:
        for status in self.file_io.list(path):
            self._delete(status)
        self._storage.delete(path)

    def _delete(self, status: FileStatus) -> None:
        """Delete a file or a directory with all that is below; of a link the link alone."""
        if status.is_dir:
            self._delete_tree(status.path)
        else:
            self._storage.delete(status.path)

    def _database_path(self, database: str) -> str:
        return f"{self.warehouse}/{check_name(database, 'database')}{DATABASE_SUFFIX}"

    def _table_path(self, name: TableName) -> str:
        return f"{self._database_path(name.database)}/{name.table}"

    def _has_schema(self, directory: str, table: str) -> bool:
        return bool(SchemaStore(self.file_io, TablePaths(f"{directory}/{table}")).list_ids())

    def _databases(self, missing: str) -> str:
        return alternatives("databases", missing, self.list_databases())

    def _tables(self, missing: TableName) -> str:
        """List the tables for an error message. Only tables that are named are checked: there may be very
        many.
        """
        if missing.database not in self.list_databases():
            return self._databases(missing.database)
        directory = self._database_path(missing.database)
        found = [status.name for status in self.file_io.list(directory) if status.is_dir]
        names = [name for name in found if not name.startswith(".")]
        exists = partial(self._has_schema, directory)
        return alternatives(f"tables of {missing.database}", missing.table, names, exists)


def _may_be_dir(status: FileStatus) -> bool:
    """Return whether this may be a directory; one behind a link can be read, like what it holds."""
    return status.is_dir or status.is_link


def _check_postponed(table: Table, old: TableSchema, new: TableSchema) -> None:
    """Refuse to drop postponed buckets while rows wait in them: nobody would read these rows afterwards."""
    latest = table._stores.snapshots.latest()
    modes = [TableOptions.from_schema(schema).bucket_mode for schema in (old, new)]
    if latest is None or modes[0] is not BucketMode.POSTPONE or modes[1] is BucketMode.POSTPONE:
        return
    if (table._scanner.live_entries(latest).bucket < 0).any():
        raise InvalidOptionError(
            f"option bucket={new.options.get('bucket')}: rows of bucket-postpone would be lost; compact first"
        )


def _changes(
    given: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]],
) -> tuple[SchemaChange, ...]:
    """Parse changes, of which some may still be JSON."""
    items = given if isinstance(given, Sequence) else (given,)
    changes: list[SchemaChange] = []
    for item in items:
        changes += changes_from_json(item) if isinstance(item, Mapping) else (item,)
    return tuple(changes)
