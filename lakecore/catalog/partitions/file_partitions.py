"""This module lists the partitions of tables by their files, for catalogs that keep no list of partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NoReturn

from lakecore.catalog.names import TableName
from lakecore.catalog.objects.file_tables import FileTable, file_table_of, format_partitions
from lakecore.catalog.partitions.partition import Partition, PartitionPage, PartitionRequest
from lakecore.catalog.partitions.selection import parse_request, select_partitions
from lakecore.clock import epoch_ms
from lakecore.commit.request import Overwrite
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.listed_partitions import partition_texts
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FormatTable
from lakecore.store.cache.table_cache import TableCache
from lakecore.system.counts import partition_counts
from lakecore.table import Commit, Table

__all__ = ["FilePartitions", "data_table", "directory_partitions", "drop_rows", "file_partitions"]


@dataclass(frozen=True)
class FilePartitions:
    """These are the partitions that have files: a partition exists from its first file on.

    A catalog of Java that keeps no list of partitions does nothing when it is asked to create, alter or mark
    them; here these are refused.
    """

    load: Callable[[str], Table]
    """It loads a table."""
    check_droppable: Callable[[str], None]
    """It raises OnHoldError for a table whose rows must not be dropped."""
    cache: TableCache | None = field(default=None, compare=False)
    """It keeps lists of partitions; None where they are read each time."""

    def list(
        self, table: str, *, partitions: PartitionRequest | None = None, where: str | None = None
    ) -> list[Partition]:
        """List the partitions as `Partitions.list` says. It costs a read of the manifests, unless the cache
        has the list: then it may be stale.
        """
        schema, every = self._complete_list(table)
        specs = None if partitions is None else parse_request(partitions, schema)
        return select_partitions(every, schema, specs, where)

    def _complete_list(self, table: str) -> tuple[TableSchema, Sequence[Partition]]:
        """Return the schema of a table and all of its partitions."""
        parsed = TableName.parse(table)
        key = parsed.database, parsed.table, parsed.branch
        changes = 0 if self.cache is None else self.cache.changes()
        if self.cache is not None and parsed.system is None:
            entry: tuple[TableSchema, Sequence[Partition]] | None = self.cache.partitions(key)
            if entry is not None:
                return entry
        loaded = data_table(self.load(table), table)
        loaded._check_select()
        entry = loaded.schema, tuple(file_partitions(loaded))
        if self.cache is not None:
            self.cache.put_partitions(key, loaded.path, entry, len(entry[1]), changes)
        return entry

    def list_page(
        self, table: str, *, limit: int | None = None, token: str | None = None, pattern: str | None = None
    ) -> PartitionPage:
        """Return all partitions as one page, as Java does. Raises UnsupportedError for a pattern."""
        self.check_page(table, token=token, pattern=pattern)
        return PartitionPage(tuple(self.list(table)))

    def check_page(self, table: str, *, token: str | None, pattern: str | None) -> None:
        """Raise UnsupportedError for a pattern, InvalidInputError for a token."""
        if pattern is not None:
            raise UnsupportedError(
                f"table {table!r}: this catalog lists no partitions by a pattern; use a condition `where`"
            )
        if token is not None:
            raise InvalidInputError(f"table {table!r}: {token!r} continues no list of this catalog")

    def create(self, table: str, partitions: PartitionRequest) -> NoReturn:
        """Raise UnsupportedError."""
        self._refuse(table, "write rows to create a partition")

    def drop(self, table: str, partitions: PartitionRequest) -> int | None:
        """Remove all rows of the partitions. Raises OnHoldError, and as a commit does."""
        loaded = data_table(self.load(table), table)
        loaded._check_insert()
        self.check_droppable(table)
        return drop_rows(loaded, partitions)

    def alter(self, table: str, partitions: Sequence[Partition]) -> NoReturn:
        """Raise UnsupportedError."""
        self._refuse(table, "the counts are those of the files")

    def mark_done(self, table: str, partitions: PartitionRequest) -> NoReturn:
        """Raise UnsupportedError."""
        self._refuse(table, f"`lakecore mark-partition-done {table}` marks them by a file or a report")

    def _refuse(self, table: str, remedy: str) -> NoReturn:
        raise UnsupportedError(f"table {table!r}: this catalog keeps no list of partitions; {remedy}")


def data_table(table: Table, name: str) -> Table:
    """Return the loaded table. Raises InvalidInputError for a system table, UnsupportedError for a table
    without snapshots.
    """
    if not isinstance(table, Table):
        if file_table_of(table) is not None:
            raise UnsupportedError(
                f"table {name!r} has no snapshots: other engines make and remove its partitions, which are "
                "directories"
            )
        raise InvalidInputError(f"table {name!r}: a system table has no partitions; name the table itself")
    return table


def file_partitions(table: Table) -> list[Partition]:
    """Return the partitions that have files in the latest snapshot, in no order."""
    latest = table._stores.snapshots.latest()
    if latest is None:
        return []
    counts = partition_counts(table, latest)
    return [
        Partition(
            spec=spec,
            record_count=count.rows,
            file_size_in_bytes=count.size,
            file_count=count.files,
            last_file_creation_time=epoch_ms(count.newest),
            total_buckets=count.total_buckets,
        )
        for spec, count in zip(partition_texts(counts, table.schema), counts.values(), strict=True)
    ]


def directory_partitions(
    table: FileTable, partitions: PartitionRequest | None, where: str | None
) -> list[Partition]:
    """List the partitions of a format table by its directories. Raises UnsupportedError for other tables."""
    if not isinstance(table, FormatTable):
        raise UnsupportedError(f"table {table.name!r} is an object table, which has no partitions")
    specs = None if partitions is None else parse_request(partitions, table.schema)
    return select_partitions(format_partitions(table), table.schema, specs, where)


def drop_rows(table: Table, partitions: PartitionRequest) -> int | None:
    """Remove all rows of partitions with one commit, and return its snapshot, if there was anything."""
    specs = parse_request(partitions, table.schema)
    if not specs or not all(specs):
        raise InvalidInputError(f"table {table.name!r}: name the partitions to drop")
    ids = table._commit((), Commit(), Overwrite.static(*specs)).snapshot_ids
    return ids[-1] if ids else None
