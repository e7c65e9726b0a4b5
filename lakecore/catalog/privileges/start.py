"""This module reaches the users of a warehouse that is not open."""

from __future__ import annotations

from lakecore.catalog.catalog_options import METASTORE
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.privileges.manager import Privileges
from lakecore.catalog.privileges.records import PrivilegeRecords
from lakecore.clock import SystemClock
from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.fs.resolve import file_io_for, plain_path

__all__ = ["privileges_to_initialize"]


def privileges_to_initialize(config: CatalogConfig) -> Privileges:
    """Return the privileges of a warehouse, to begin with them (`init`). Raises NotFoundError for a local
    warehouse that does not exist, UnsupportedError for a catalog whose warehouse is the server's.
    """
    if config.options.get(METASTORE, "").strip().lower() == "rest":
        raise UnsupportedError("a REST catalog has no users and privileges in a warehouse; its server has")
    warehouse = plain_path(config.warehouse)
    file_io = file_io_for(config.warehouse, config.options)
    if "://" not in warehouse and file_io.stat(warehouse) is None:
        raise NotFoundError(f"warehouse {warehouse} does not exist; check the path or create the directory")
    return Privileges(PrivilegeRecords.of(file_io, warehouse, SystemClock()), "", b"")
