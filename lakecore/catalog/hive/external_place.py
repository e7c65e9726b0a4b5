"""This module finds the place of a new external table of a metastore."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.catalog.hive.entries import is_paimon_table
from lakecore.catalog.hive.locations import table_location
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.places import checked_place, place_of
from lakecore.catalog.objects.external_tables import PATH, check_place, external_path
from lakecore.errors import InvalidOptionError
from lakecore.fs.allowed_paths import AllowedPaths, is_below

__all__ = ["external_place"]


def external_place(
    location: str,
    allowed: AllowedPaths,
    databases: Mapping[str, str],
    metastore: HiveMetastore,
    in_properties: bool,
) -> tuple[str, str]:
    """Return the plain path of a new external table, which overlaps neither the warehouse nor a database nor
    another table, and the external root in which it is. `allowed` are the paths of the catalog, `databases`
    their plain paths by name.

    It costs a call for 300 tables of the metastore. Raises InvalidOptionError, and the errors of
    `checked_place`.
    """
    path = checked_place(external_path(location), "the new table", allowed)
    places = {allowed.warehouse: "the warehouse"}
    for database, place in databases.items():
        places.setdefault(place, f"database {database!r}")
        for record in filter(is_paimon_table, metastore.tables(database)):
            of_table = place_of(table_location(record, in_properties) or "")
            places.setdefault(of_table, f"table '{database}.{record.tableName}'")
    check_place(path, places)
    roots = allowed.declared or ()
    if path in roots:
        raise InvalidOptionError(f"option {PATH}={location}: it is an external root; name a directory in it")
    return path, next(root for root in roots if is_below(path, root))
