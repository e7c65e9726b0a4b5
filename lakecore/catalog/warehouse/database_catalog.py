"""This module has the databases of a catalog of one warehouse, as Java's `AbstractCatalog` has them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import NoReturn

from lakecore.catalog.catalog import Database
from lakecore.catalog.names import (
    DATABASE_SUFFIX,
    SYSTEM_DATABASE,
    alternatives,
    check_name,
    check_not_system,
    check_properties,
)
from lakecore.catalog.objects.table_page import NamePage, name_page_of
from lakecore.catalog.objects.view import Views
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.privileges.manager import Privileges
from lakecore.catalog.warehouse.removal import TableRemoval
from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from lakecore.fs.stores.registry import is_read_only
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.store.cache.manifest_cache import ManifestCache
from lakecore.store.cache.table_cache import TableCache

__all__ = ["DatabaseCatalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class DatabaseCatalog(ABC):
    """This is a catalog with databases at `<warehouse>/<database>.db`; a kind of catalog decides where their
    names are.
    """

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
    table_defaults: Mapping[str, str] = field(default_factory=dict)
    """These are the options `table-default.*`, without that prefix: a new table gets those that its
    definition does not set.
    """
    privileges: Privileges | None = None
    """These are Paimon's users and privileges; None (in tests): nobody asks for them."""
    manifest_cache: ManifestCache | None = field(default=None, compare=False)
    """Plans of reads of its tables keep decoded manifests there; None without `cache-enabled=true`."""
    table_cache: TableCache | None = field(default=None, compare=False)
    """It keeps what others may change, for scans and lists of partitions; None without options for it."""

    def __repr__(self) -> str:
        """Return the warehouse on one line, without the options of the storage; reads nothing."""
        return one_line(type(self).__name__, self.warehouse, {})

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

    @cached_property
    def _removal(self) -> TableRemoval:
        return TableRemoval(self.file_io, self.warehouse, self.clock)

    def _check(self, privilege: Privilege, database: str | None = None, table: str | None = None) -> None:
        """Raise PrivilegeError for a privilege that the user of the catalog does not have."""
        if self.privileges is not None:
            self.privileges.check(privilege, database, table)

    @property
    def views(self) -> Views:
        """Raise UnsupportedError: only REST, JDBC and Hive catalogs have views."""
        raise _no_objects("views", "rest, jdbc or hive")

    @property
    def functions(self) -> NoReturn:
        """Raise UnsupportedError: only REST catalogs have functions."""
        raise _no_objects("functions", "rest")

    def close(self) -> None:  # noqa: B027 - most kinds have nothing to close
        """Close connections; without any it does nothing."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """List the database names in order."""

    def list_databases_page(
        self, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` databases whose names are like `pattern` (`ods_%`), after the name
        `token`. It costs as much as the whole list. Raises InvalidInputError for a `limit` below 1.
        """
        return name_page_of(self.list_databases(), limit=limit, token=token, pattern=pattern)

    @abstractmethod
    def _find_database(self, name: str) -> Database | None:
        """Return a database that is not `sys`, None if it does not exist."""

    @abstractmethod
    def _make_database(self, name: str, properties: Mapping[str, str]) -> bool:
        """Create a database. False if it exists."""

    @abstractmethod
    def _change_database(self, name: str, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        """Change properties of a database that exists."""

    def _check_droppable(self, name: str, *, cascade: bool) -> None:  # noqa: B027 - most kinds have tables only
        """Raise InvalidInputError for what a database holds beside tables."""

    def _drop_views(self, database: str) -> None:  # noqa: B027 - most kinds have none, or remove them with the database
        """Drop the views of a database that is dropped with cascade, after its tables."""

    @abstractmethod
    def _remove_database(self, name: str) -> None:
        """Remove a database without tables."""

    @abstractmethod
    def _table_names(self, database: str) -> list[str]:
        """List the tables of a database, in any order; none when it does not exist."""

    def _names_to_drop(self, database: str) -> list[str]:
        """List the tables that are dropped with a database, in any order."""
        return self._table_names(database)

    @abstractmethod
    def _drop_table(self, name: str, *, if_exists: bool, purge: bool) -> DroppedTable | None:
        """Drop a table, whatever the privileges."""

    def _check_changeable(self, database: str) -> None:
        """Raise UnsupportedError where lakecore only reads the warehouse."""
        if is_read_only(self.warehouse):
            raise UnsupportedError(
                f"database {database!r} cannot be changed: lakecore only reads the store of "
                f"{self.warehouse}; use a warehouse on a local disk or in a store of lakecore's own "
                "(docs/stores.md)"
            )

    def get_database(self, name: str) -> Database:
        """Return a database with its properties. Raises NotFoundError naming existing databases."""
        if name == SYSTEM_DATABASE:
            return Database(name)
        database_name = self._find_database(check_name(name, "database"))
        if database_name is None:
            raise self._no_database(name)
        return database_name

    def create_database(
        self, name: str, *, if_not_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database. Raises AlreadyExistsError unless `if_not_exists`, InvalidInputError for `sys`,
        UnsupportedError for properties that the catalog does not store.
        """
        check_not_system(name, "created")
        check_properties(properties, ())
        self._check(Privilege.CREATE_DATABASE)
        self._check_changeable(name)
        if not self._make_database(check_name(name, "database"), properties or {}) and not if_not_exists:
            raise AlreadyExistsError(
                f"database {name!r} exists in {self.warehouse}; use it, or choose another name"
            )

    def alter_database(
        self,
        name: str,
        changed: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
        *,
        if_exists: bool = False,
    ) -> None:
        """Set and remove properties of a database; removed ones that it does not have are passed over.

        Raises NotFoundError unless `if_exists`, InvalidInputError for `sys`, UnsupportedError where the
        catalog stores no properties.
        """
        check_not_system(name, "changed")
        check_properties(changed, removed)
        self._check(Privilege.ALTER_DATABASE, name)
        self._check_changeable(name)
        if self._find_database(check_name(name, "database")) is None:
            if if_exists:
                return
            raise self._no_database(name)
        if changed or removed:
            self._change_database(name, changed or {}, removed)

    def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False, purge: bool = False
    ) -> None:
        """Drop a database, with `cascade` its tables too, each as `drop_table` does.

        Raises NotFoundError unless `if_exists`, InvalidInputError when it holds tables and `cascade` is not
        set, for files that belong to no table, and for `sys`; OnHoldError, before anything is dropped, when a
        table is on hold.
        """
        check_not_system(name, "dropped")
        self._check(Privilege.DROP_DATABASE, name)
        self._check_changeable(name)
        if self._find_database(check_name(name, "database")) is None:
            if if_exists:
                return
            raise self._no_database(name)
        self._check_droppable(name, cascade=cascade)
        tables = sorted(self._names_to_drop(name))
        if tables and not cascade:
            raise InvalidInputError(
                f"database {name!r} holds {len(tables)} tables, such as {tables[0]!r}; drop them first, or "
                "drop it with cascade"
            )
        half_dropped = self._half_dropped(name, tables)
        for table in tables:
            self._removal.check_no_hold(f"{name}.{table}", "drop-table")
        for table in (*half_dropped, *tables):
            self._drop_table(f"{name}.{table}", if_exists=True, purge=purge)
        if cascade:
            self._drop_views(name)
        self._remove_database(name)
        if self.privileges is not None:
            self.privileges.object_dropped(name)
        logger.info("dropped database %s of %s", name, self.warehouse)

    def _half_dropped(self, database: str, tables: Sequence[str]) -> list[str]:
        """Return the tables whose drops were interrupted, of which files are left in the database.

        Raises InvalidInputError for files that belong to no table.
        """
        complete, half = set(tables), []
        for status in self.file_io.list(self._database_path(database)):
            if status.name in complete or (status.is_dir and not self.file_io.list(status.path)):
                continue
            if status.is_dir and self._removal.dropped.interrupted(f"{database}.{status.name}") is not None:
                half.append(status.name)
            else:
                self._check_stray(database, status.path)
        return half

    def _check_stray(self, database: str, path: str) -> None:
        """Raise InvalidInputError for files in the directory of a database that belong to no table."""
        raise InvalidInputError(
            f"database {database!r} holds {path}, which belongs to no table; move it elsewhere"
        )

    def database_path(self, database: str) -> str:
        """Return the directory of a database, whether it exists or not. Raises InvalidInputError."""
        return self._database_path(database)

    def _database_path(self, database: str) -> str:
        return f"{self.warehouse}/{check_name(database, 'database')}{DATABASE_SUFFIX}"

    def _no_database(self, missing: str) -> NotFoundError:
        text = alternatives("databases", missing, self.list_databases())
        return NotFoundError(f"database {missing!r} does not exist in {self.warehouse}; {text}")

    def _remove_empty_directory(self, path: str) -> None:
        """Remove a directory in which only empty directories are."""
        for status in self.file_io.list(path):
            self._storage.remove_directory(status.path)
        self._storage.remove_directory(path)


def _no_objects(kind: str, metastores: str) -> UnsupportedError:
    return UnsupportedError(
        f"this kind of catalog has no {kind} for lakecore; use a catalog with metastore={metastores}, or the "
        "engine that created them"
    )
