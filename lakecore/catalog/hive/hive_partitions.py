"""This module has the partitions of a Hive catalog: they are listed by their files, and kept in step in the
metastore for tables that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from lakecore.catalog.hive.partition_list import HivePartitionList
from lakecore.catalog.objects.file_tables import file_table_of
from lakecore.catalog.partitions.file_partitions import FilePartitions, data_table, directory_partitions
from lakecore.catalog.partitions.partition import Partition, PartitionPage, PartitionRequest
from lakecore.catalog.partitions.selection import complete_specs, parse_request
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.maintain.partitions.in_step import remove_dropped
from lakecore.maintain.partitions.mark_done import marks_events
from lakecore.maintain.target import Target
from lakecore.metadata.listed_partitions import TAG_FIELD, has_listed_partitions
from lakecore.store.partition_list import PartitionTexts
from lakecore.table import Table

__all__ = ["HivePartitions"]

_ROWS, _SIZE, _FILES, _UPDATED = "numRows", "totalSize", "numFiles", "lastUpdateTime"
_DDL_TIME, _BUCKETS = "transient_lastDdlTime", "totalBuckets"


@dataclass(frozen=True)
class HivePartitions:
    """These are the partitions by their files. For a table with `metastore.partitioned-table` the metastore
    has them, too; for one with `metastore.tag-to-partition` they are its tags there.
    """

    files: FilePartitions
    list_of: Callable[[Table], HivePartitionList | None]
    """It returns the list of a table in the metastore, None where it has none."""
    warehouse: str
    clock: Clock

    def list(
        self, table: str, *, partitions: PartitionRequest | None = None, where: str | None = None
    ) -> list[Partition]:
        """List the partitions as `Partitions.list` says: by the files, with the marks of the metastore where
        the table has the action `mark-event`. Those of tags are listed by the metastore.
        """
        any_table = self.files.load(table)
        if (directory := file_table_of(any_table)) is not None:
            return directory_partitions(directory, partitions, where)
        loaded = data_table(any_table, table)
        partition_list = self.list_of(loaded)
        if partition_list is not None and TAG_FIELD.read(loaded.schema.options):
            loaded._check_select()
            if partitions is not None or where is not None:
                raise UnsupportedError(
                    f"table {table!r}: its partitions are tags, which are listed without a selection"
                )
            return _tags_of(partition_list, self.clock.now_ms())
        by_files = self.files.list(table, partitions=partitions, where=where)
        if partition_list is None or not marks_events(loaded.schema):
            return by_files
        return [replace(one, is_done=partition_list.is_done(tuple(one.spec.values()))) for one in by_files]

    def list_page(
        self, table: str, *, limit: int | None = None, token: str | None = None, pattern: str | None = None
    ) -> PartitionPage:
        """Return all partitions as one page, as Java does. Raises UnsupportedError for a pattern."""
        self.files.check_page(table, token=token, pattern=pattern)
        return PartitionPage(tuple(self.list(table)))

    def create(self, table: str, partitions: PartitionRequest) -> None:
        """Add partitions to the metastore. Raises UnsupportedError for a table that has none there."""
        partition_list, texts = self._request(table, partitions)
        partition_list.add(texts)

    def drop(self, table: str, partitions: PartitionRequest) -> int | None:
        """Remove all rows of the partitions, then those that no other branch has from the metastore."""
        snapshot = self.files.drop(table, partitions)
        loaded = data_table(self.files.load(table), table)
        target = Target(loaded.name, self.warehouse, loaded._stores)
        remove_dropped(target, parse_request(partitions, loaded.schema))
        return snapshot

    def alter(self, table: str, partitions: Sequence[Partition]) -> None:
        """Replace the counts that the metastore has of partitions; those that it does not list are left out.

        Lists by files do not show them, in Java neither.
        """
        partition_list, _ = self._request(table, [one.spec for one in partitions])
        for one in partitions:
            seconds = one.last_file_creation_time // 1000
            counts = {
                _FILES: str(one.file_count),
                _SIZE: str(one.file_size_in_bytes),
                _ROWS: str(one.record_count),
                _DDL_TIME: str(seconds),
                _UPDATED: str(seconds),
                _BUCKETS: str(one.total_buckets),
            }
            partition_list.change(tuple(one.spec[key] for key in partition_list.columns), counts, seconds)

    def mark_done(self, table: str, partitions: PartitionRequest) -> None:
        """Send an event to the metastore for each partition. Raises UnsupportedError for a table that has
        none there.
        """
        partition_list, texts = self._request(table, partitions)
        partition_list.mark_done(texts)

    def _request(
        self, table: str, partitions: PartitionRequest
    ) -> tuple[HivePartitionList, Sequence[PartitionTexts]]:
        loaded = data_table(self.files.load(table), table)
        loaded._check_insert()
        partition_list = self.list_of(loaded)
        if partition_list is None or not has_listed_partitions(loaded.schema):
            self._refuse(table)
        specs = complete_specs(parse_request(partitions, loaded.schema), loaded.schema)
        return partition_list, [tuple(spec.values()) for spec in specs]

    def _refuse(self, table: str) -> NoReturn:
        raise UnsupportedError(
            f"table {table!r}: the metastore has no partitions of it; only a table that is created with "
            "metastore.partitioned-table=true has them"
        )


def _tags_of(partition_list: HivePartitionList, now_ms: int) -> list[Partition]:
    """Return tags as partitions, with the counts of the metastore, 1 where it has none, as in Java."""
    partitions = []
    for record in partition_list.records():
        counts = record.parameters or {}
        partitions.append(
            Partition(
                spec={partition_list.columns[0]: record.values[0]},
                record_count=int(counts.get(_ROWS, 1)),
                file_size_in_bytes=int(counts.get(_SIZE, 1)),
                file_count=int(counts.get(_FILES, 1)),
                last_file_creation_time=int(counts.get(_UPDATED, now_ms)),
                total_buckets=int(counts.get(_BUCKETS, 0)),
            )
        )
    return sorted(partitions, key=lambda one: tuple(one.spec.values()))
