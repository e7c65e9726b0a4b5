"""The filesystem catalog: a warehouse is a directory with tables at `<warehouse>/<database>.db/<table>`;
files of lakecore itself are in `.lakecore/`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

from lakecore.catalog.catalog import Database
from lakecore.catalog.catalog_options import WAREHOUSE_KEYS, check_catalog_options
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.names import DATABASE_SUFFIX, TableName
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.warehouse.opened_warehouse import opened_warehouse
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.fs.file_io import FileStatus

__all__ = ["FilesystemCatalog", "load_catalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class FilesystemCatalog(WarehouseCatalog):
    """It finds databases and tables by listing directories. It can be pickled when its storage can.

    A database is a directory: the first table creates it, and it has no properties.
    """

    @classmethod
    def option_keys(cls) -> frozenset[str]:
        """Return the keys of options that this kind of catalog has, beside those of storage."""
        return WAREHOUSE_KEYS

    @classmethod
    def open(cls, config: CatalogConfig, *, create: bool = False) -> FilesystemCatalog:
        """Open a catalog. Raises NotFoundError when a local warehouse is missing; with `create` the first
        table creates it.

        Raises UnsupportedError and InvalidOptionError for options that this catalog does not obey, and
        PrivilegeError for a user whom a warehouse with Paimon's privileges does not let in.
        """
        check_catalog_options(config.options, "filesystem", cls.option_keys())
        return cls(**opened_warehouse(config, create=create))

    def list_databases(self) -> list[str]:
        """List the database names in order."""
        databases = (status.name for status in self.file_io.list(self.warehouse) if _may_be_dir(status))
        return sorted(
            name.removesuffix(DATABASE_SUFFIX)
            for name in databases
            if name.endswith(DATABASE_SUFFIX) and not name.startswith(".")
        )

    def _find_database(self, name: str) -> Database | None:
        status = self.file_io.stat(self._database_path(name))
        return None if status is None or not status.is_dir else Database(name)

    def _make_database(self, name: str, properties: Mapping[str, str]) -> bool:
        self._check_no_properties(properties)
        return self._storage.make_directory(self._database_path(name))

    def _change_database(self, name: str, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        self._check_no_properties({**changed, **dict.fromkeys(removed, "")})

    def _check_no_properties(self, properties: Mapping[str, str]) -> None:
        for key in properties:
            raise UnsupportedError(
                f"property {key} of a database: a filesystem catalog stores no properties; leave it out, or "
                "use a catalog with metastore=jdbc"
            )

    def _remove_database(self, name: str) -> None:
        self._remove_empty_directory(self._database_path(name))

    def _table_names(self, database: str) -> list[str]:
        return list(self._existing(database, self._likely_tables(database)))

    def _existing(self, database: str, names: Sequence[str]) -> Iterator[str]:
        directory = self._database_path(database)
        for name in names:
            if self._has_schema(directory, name):
                yield name
            elif self._has_snapshots(directory, name):
                logger.warning(
                    "%s/%s has snapshots, but no schema: the directory is not listed as a table; bring its "
                    "directory `schema` back, or remove it",
                    directory,
                    name,
                )

    def tables_without_schema(self, database: str, tables: Collection[str]) -> list[str]:
        """Return the directories of a database that have snapshots, but no schema, in order. `tables` are
        those that `list_tables` names, which are not looked at again.
        """
        directory, listed = self._database_path(database), set(tables)
        others = sorted(name for name in self._likely_tables(database) if name not in listed)
        return [
            name
            for name in others
            if self._has_snapshots(directory, name) and not self._has_schema(directory, name)
        ]

    def _has_snapshots(self, directory: str, table: str) -> bool:
        return bool(self.file_io.list(f"{directory}/{table}/snapshot"))

    def _no_table(self, missing: TableName) -> NotFoundError:
        directory = self._database_path(missing.database)
        if self._has_snapshots(directory, missing.table) and not self._has_table(missing):
            return NotFoundError(
                f"table {str(missing)!r} has snapshots, but no schema: bring the directory `schema` in "
                f"{directory}/{missing.table} back, or remove the directory of the table"
            )
        return super()._no_table(missing)

    def _likely_tables(self, database: str) -> list[str]:
        tables = [s.name for s in self.file_io.list(self._database_path(database)) if _may_be_dir(s)]
        return [name for name in tables if not name.startswith(".")]

    def _has_table(self, name: TableName) -> bool:
        return self._has_schema(self._database_path(name.database), name.table)


def _may_be_dir(status: FileStatus) -> bool:
    """Return whether this may be a directory; one behind a link can be read, like what it holds."""
    return status.is_dir or status.is_link
