"""This module looks at what a metastore has in the directory of a format table: tables and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakecore.catalog.hive.locations import with_scheme_of
from lakecore.catalog.hive.partition_list import HivePartitionList
from lakecore.catalog.hive.places import place_of
from lakecore.catalog.names import TableName
from lakecore.errors import UnsupportedError
from lakecore.fs.allowed_paths import is_below

__all__ = ["check_other_tables", "move_partitions"]


def check_other_tables(
    name: TableName, path: str, records: Iterable[Any], databases: Mapping[str, str]
) -> None:
    """Raise UnsupportedError when a database, or another table of `records`, is at `path` or below it: its
    files would be moved, too. `databases` are plain paths by name.
    """
    places = {f"database {database!r}": place for database, place in databases.items()}
    for record in records:
        if record.tableName != name.table and record.sd is not None:
            places[f"table '{record.dbName}.{record.tableName}'"] = place_of(record.sd.location or "")
    for what, place in places.items():
        if place == path or is_below(place, path):
            raise UnsupportedError(
                f"table {str(name)!r}: {what} lies at {place}, in the directory {path} of the table; change "
                "one of them with Hive"
            )


def move_partitions(partitions: HivePartitionList, source: str, target: str) -> None:
    """Set the locations of the partitions that were below `source`, where the table was, to `target`. Others
    stay. It can be repeated, and costs a call for 300 partitions.
    """
    moved = []
    for record in partitions.records():
        place = place_of(record.sd.location or "")
        if source != target and is_below(place, source):
            record.sd.location = with_scheme_of(target + place[len(source) :], record.sd.location)
            moved.append(record)
    partitions.replace(moved)
