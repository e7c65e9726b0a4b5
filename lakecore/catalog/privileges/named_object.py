"""This module finds the users of a catalog, and the object that a privilege is on, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecore.catalog.names import check_data_table
from lakecore.catalog.privileges.grants import Securable
from lakecore.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog
    from lakecore.catalog.privileges.manager import Privileges

__all__ = ["privileges_of", "securable_of"]


def privileges_of(catalog: Catalog) -> Privileges:
    """Return the users and privileges of a catalog. Raises UnsupportedError for a catalog without."""
    manager: Privileges | None = getattr(catalog, "privileges", None)
    if manager is None:
        raise UnsupportedError("this kind of catalog has no users and privileges in its warehouse")
    return manager


def securable_of(catalog: Catalog, database: str | None, table: str | None, *, must_exist: bool) -> Securable:
    """Return the object of this name: a database, a table (`database.table`), or the catalog without names.

    Raises InvalidInputError for two names, NotFoundError for an object that must exist and does not.
    """
    if database is not None and table is not None:
        raise InvalidInputError("database and table exclude each other; give one, or none for the catalog")
    if table is not None:
        name = check_data_table(table, "named here")
        if must_exist:
            catalog.load_table(table)
        return Securable(name.database, name.table)
    if database is not None and must_exist:
        catalog.get_database(database)
    return Securable(database)
