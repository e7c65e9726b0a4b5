"""This module has the properties of databases and tables that a JDBC catalog stores. It is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakecore.catalog.remote.table_properties import copied_properties
from lakecore.errors import InvalidInputError
from lakecore.metadata.schema import TableSchema

__all__ = ["EXISTS", "LOCATION", "check_properties", "properties_of_table"]

EXISTS = "exists"
"""Java writes this property for each database, and shows it to nobody."""
LOCATION = "location"
_MOST_KEY, _MOST_VALUE = 255, 1000


def check_properties(properties: Mapping[str, str], removed: Iterable[str] = ()) -> None:
    """Raise InvalidInputError for properties that the columns cannot hold, and for those of the catalog."""
    for key in (*properties, *removed):
        if key in (EXISTS, LOCATION):
            raise InvalidInputError(
                f"property {key}: the catalog sets it itself; tables are stored at "
                f"WAREHOUSE/DATABASE.db/TABLE"
            )
        if not key or len(key) > _MOST_KEY:
            raise InvalidInputError(f"property {key[:40]!r}: a key has 1 to {_MOST_KEY} characters")
    for key, value in properties.items():
        if len(value) > _MOST_VALUE:
            raise InvalidInputError(
                f"property {key}: its value has {len(value)} characters, and at most {_MOST_VALUE} are stored"
            )


def properties_of_table(schema: TableSchema) -> dict[str, str]:
    """Return what Java copies from the newest schema of a table into the database (`sync-all-properties`).

    What the column cannot hold is left out: the schema has it. Java cannot create such a table.
    """
    return {
        key: value
        for key, value in copied_properties(schema).items()
        if len(key) <= _MOST_KEY and len(value) <= _MOST_VALUE
    }
