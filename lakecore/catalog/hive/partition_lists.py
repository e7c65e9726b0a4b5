"""This module finds the list of partitions that the metastore keeps of a table, and brings it in step."""

from __future__ import annotations

from dataclasses import replace

from lakecore.catalog.hive.connection import MetastoreConnection
from lakecore.catalog.hive.partition_list import HivePartitionList
from lakecore.catalog.names import TableName
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.maintain.partitions.in_step import repair_list
from lakecore.maintain.target import Target
from lakecore.metadata.listed_partitions import listed_columns
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["PartitionLists"]


@dataclass(frozen=True)
class PartitionLists:
    """These are the lists of one metastore. A table has one with `metastore.partitioned-table` or
    `metastore.tag-to-partition`.
    """

    connection: MetastoreConnection
    in_properties: bool
    clock: Clock

    def named(self, name: TableName, columns: tuple[str, ...]) -> HivePartitionList:
        """Return the list of a table with these partition columns, whatever the branch."""
        table = replace(name, branch="main", system=None)
        return HivePartitionList(self.connection, table, columns, self.in_properties, self.clock)

    def of_table(self, table: Table) -> HivePartitionList | None:
        """Return the list of a table, None where it has none."""
        columns = listed_columns(table.schema)
        return self.named(TableName.parse(table.name), columns) if columns else None

    def in_stores(self, name: TableName, stores: TableStores) -> TableStores:
        """Return the stores of a table with its list, if it has one."""
        columns = listed_columns(stores.schema)
        if not columns:
            return stores
        partition_list = self.named(name, columns)
        return replace(stores, partition_list=partition_list, done_marks=partition_list)

    def put_right(self, table: Table, warehouse: str) -> None:
        """Bring the list of a table in step with its files, also the locations. It costs no call where the
        table has no list.
        """
        partition_list = self.of_table(table)
        if partition_list is not None:
            repair_list(Target(table.name, warehouse, table._stores))
            partition_list.set_locations()
