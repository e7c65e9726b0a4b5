"""This module has the partitions of one table in a Hive metastore, as Java's `HiveCatalog` enters them.

All calls can be repeated. The columns of partitions have lower-case names there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lakecore.catalog.hive.connection import MetastoreConnection, thrift_types
from lakecore.catalog.hive.locations import set_location, table_location
from lakecore.catalog.names import TableName
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakecore.maintain.partitions.in_step import repair_list
from lakecore.maintain.target import Target
from lakecore.metadata.listed_partitions import listed_columns
from lakecore.row.partition_path import spec_path
from lakecore.store.partition_list import PartitionTexts
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["HivePartitionList", "PartitionLists"]

_BATCH = 300
_ALL = -1
_DIRECTORY = "data-file.path-directory"


@dataclass(frozen=True)
class HivePartitionList:
    """These are the partitions of a table, which its branches share. Raises NotFoundError for a table without
    an entry, InvalidInputError for one whose entry has other partition columns.
    """

    connection: MetastoreConnection
    name: TableName
    columns: tuple[str, ...]
    """These are the partition columns of the table, or the column of its tags."""
    in_properties: bool
    """It says whether locations are properties."""
    clock: Clock

    @property
    def table(self) -> str:
        return str(self.name)

    def partitions(self) -> list[PartitionTexts]:
        """Return the partitions. It is one call."""
        return [tuple(_text(part) for part in one.split("/")) for one in self._names()]

    def add(self, partitions: Sequence[PartitionTexts]) -> None:
        """Add partitions, some hundred with a call."""
        if not partitions:
            return
        entry = self._entry()
        now = self.clock.now_ms() // 1000
        for batch in _batches(partitions):
            records = [self._record(entry, one, now) for one in batch]
            request = thrift_types().AddPartitionsRequest(
                dbName=self.name.database,
                tblName=self.name.table,
                parts=records,
                ifNotExists=True,
                needResult=False,
            )
            try:
                self._call("add", "add_partitions_req", request)
            except AlreadyExistsError:  # another client added one of them within this call
                self._call("add", "add_partitions_req", request)

    def remove(self, partitions: Sequence[PartitionTexts]) -> None:
        """Remove partitions, one a call. Their files stay."""
        for one in partitions:
            self._unless_missing("drop_partition", list(one), False)

    def mark_done(self, partitions: Sequence[PartitionTexts]) -> None:
        """Send the event LOAD_DONE for each. A partition that is not listed is left out, as in Java."""
        event = thrift_types().PartitionEventType.LOAD_DONE
        for one in partitions:
            self._unless_missing("markPartitionForEvent", self._spec(one), event)

    def is_done(self, partition: PartitionTexts) -> bool:
        """Return whether the event LOAD_DONE was sent for a partition."""
        event = thrift_types().PartitionEventType.LOAD_DONE
        return bool(self._unless_missing("isPartitionMarkedForEvent", self._spec(partition), event))

    def records(self) -> Iterator[Any]:
        """Yield the records of all partitions, some hundred a call."""
        for batch in _batches(self._names()):
            yield from self._call("list", "get_partitions_by_names", list(batch))

    def change(self, partition: PartitionTexts, parameters: Mapping[str, str], accessed: int) -> None:
        """Add parameters to a partition, and set the time of the last access, in seconds. One that is not
        listed is left out, as in Java.
        """
        record = self._unless_missing("get_partition", list(partition))
        if record is None:
            return
        record.parameters = {**(record.parameters or {}), **parameters}
        record.lastAccessTime = accessed
        self._unless_missing("alter_partition", record)

    def set_locations(self) -> None:
        """Set the locations of partitions by that of the table, where they differ: it was renamed."""
        entry, moved = self._entry(), []
        for record in self.records():
            location = self._location(entry, tuple(record.values))
            if not self.in_properties:
                location = location.rstrip("/")  # as the metastore stores it
            old = copy.deepcopy(record)
            if self.in_properties:
                record.sd.location = entry.sd.location
            set_location(record, location, self.in_properties)
            if record != old:
                moved.append(record)
        self.replace(moved)

    def replace(self, records: Sequence[Any]) -> None:
        """Replace the records of these partitions, some hundred a call."""
        for batch in _batches(records):
            self._call("move", "alter_partitions", list(batch))

    def _names(self) -> list[str]:
        return list(self._call("list", "get_partition_names", _ALL))

    def _call(self, verb: str, call: str, *arguments: Any) -> Any:
        if call != "add_partitions_req":
            arguments = (self.name.database, self.name.table, *arguments)
        return self.connection.read(f"{verb} partitions of {self.name}", call, *arguments)

    def _unless_missing(self, call: str, *arguments: Any) -> Any:
        try:
            return self._call("change", call, *arguments)
        except NotFoundError:
            return None

    def _entry(self) -> Any:
        what = f"read table {self.name}"
        entry = self.connection.read(what, "get_table", self.name.database, self.name.table)
        if len(entry.partitionKeys or ()) != len(self.columns):
            keys = ", ".join(one.name for one in entry.partitionKeys or ()) or "none"
            raise InvalidInputError(
                f"table {self.name}: its partition columns in the metastore are {keys}, not "
                f"{', '.join(self.columns)}; drop the table from the metastore and enter it again"
            )
        return entry

    def _spec(self, partition: PartitionTexts) -> dict[str, str]:
        return {name.lower(): text for name, text in zip(self.columns, partition, strict=True)}

    def _record(self, entry: Any, partition: PartitionTexts, now: int) -> Any:
        record = thrift_types().Partition(
            values=list(partition),
            dbName=self.name.database,
            tableName=self.name.table,
            createTime=now,
            lastAccessTime=now,
            sd=copy.deepcopy(entry.sd),
        )
        set_location(record, self._location(entry, partition), self.in_properties)
        return record

    def _location(self, entry: Any, partition: PartitionTexts) -> str:
        directory = (entry.parameters or {}).get(_DIRECTORY)
        path = spec_path(dict(zip(self.columns, partition, strict=True)))
        parts = (table_location(entry, self.in_properties), directory, path)
        return f"{'/'.join(part for part in parts if part)}/"


def _text(part: str) -> str:
    """Return the value of a part `column=value` of a name, in which the metastore escapes some characters."""
    return unquote(part.partition("=")[2])


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


@dataclass(frozen=True)
class PartitionLists:
    """These are the lists of one metastore. A table has one with `metastore.partitioned-table` or
    `metastore.tag-to-partition`.
    """

    connection: MetastoreConnection
    in_properties: bool
    clock: Clock

    def of_name(self, name: TableName, columns: tuple[str, ...]) -> HivePartitionList:
        """Return the list of a table with these partition columns, whatever the branch."""
        table = replace(name, branch="main", system=None)
        return HivePartitionList(self.connection, table, columns, self.in_properties, self.clock)

    def of_table(self, table: Table) -> HivePartitionList | None:
        """Return the list of a table, None where it has none."""
        columns = listed_columns(table.schema)
        return self.of_name(TableName.parse(table.name), columns) if columns else None

    def in_stores(self, name: TableName, stores: TableStores) -> TableStores:
        """Return the stores of a table with its list, if it has one."""
        columns = listed_columns(stores.schema)
        if not columns:
            return stores
        partition_list = self.of_name(name, columns)
        return replace(stores, partition_list=partition_list, done_marks=partition_list)

    def repair(self, table: Table, warehouse: str, *, removes: bool) -> None:
        """Repair the list of a table by its files, also the locations; partitions without files stay unless
        `removes`. It costs no call where the table has no list.
        """
        partition_list = self.of_table(table)
        if partition_list is not None:
            repair_list(Target(table.name, warehouse, table._stores), removes=removes)
            partition_list.set_locations()
