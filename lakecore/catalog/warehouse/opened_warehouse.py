"""This module opens the warehouse of a catalog: its storage, its limits, and its defaults for tables."""

from __future__ import annotations

from typing import Any

from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.privileges.manager import Privileges
from lakecore.catalog.warehouse.table_defaults import table_defaults
from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.fs.allowed_paths import BLOB_ROOTS, EXTERNAL_ROOTS, declared_roots
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores.watched import WatchedFileIO
from lakecore.store.cache.manifest_cache import open_cache
from lakecore.store.cache.table_cache import TableCache

__all__ = ["opened_warehouse"]


def opened_warehouse(config: CatalogConfig, *, create: bool) -> dict[str, Any]:
    """Return the fields of `WarehouseCatalog` for a warehouse.

    Raises NotFoundError when a local warehouse is missing and `create` is not set, InvalidInputError for what
    is no directory, PrivilegeError for a user whom a warehouse with Paimon's privileges does not let in.
    """
    clock = SystemClock()
    cache = open_cache(config.options, clock)
    warehouse = plain_path(config.warehouse)
    file_io = file_io_for(config.warehouse, config.options)
    tables = None if cache is None or not cache.limits.allows_stale else TableCache(cache.limits, clock)
    if tables is not None:
        file_io = WatchedFileIO(file_io, tables)
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
    return {
        "clock": clock,
        "privileges": Privileges.open(file_io, warehouse, clock, config.options),
        "file_io": file_io,
        "warehouse": warehouse,
        "external_roots": declared_roots(EXTERNAL_ROOTS, config.options),
        "blob_roots": declared_roots(BLOB_ROOTS, config.options) or (),
        "table_defaults": table_defaults(config.options),
        "manifest_cache": cache,
        "table_cache": tables,
    }
