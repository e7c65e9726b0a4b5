"""This module opens tables without snapshots: format tables and object tables, which are directories of
files. Catalogs of kinds that have such tables use it.
"""

from __future__ import annotations

from typing import cast

from lakecore.catalog.partitions.partition import Partition
from lakecore.errors import UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE, FormatTable
from lakecore.system.object_table import OBJECT_TABLE, ObjectTable
from lakecore.table import Table

__all__ = ["FileTable", "file_table_of", "format_partitions", "new_file_table"]

FileTable = FormatTable | ObjectTable
"""It has `name`, `path`, `schema`, `row_type` and `scan`, as a table."""

_KINDS: dict[str, type[FormatTable] | type[ObjectTable]] = {
    FORMAT_TABLE: FormatTable,
    OBJECT_TABLE: ObjectTable,
}


def new_file_table(
    name: str, path: str, schema: TableSchema, file_io: FileIO, *, branch: bool
) -> Table | None:
    """Return a table whose option `type` says that it has no snapshots; None for other types.

    It stands in for a table: what it lacks raises UnsupportedError. Raises UnsupportedError for a branch.
    """
    kind = schema.options.get("type", "").strip().lower()
    if kind not in _KINDS:
        return None
    if branch:
        raise UnsupportedError(f"table {name}: a table of type={kind} has no branches")
    return cast("Table", _KINDS[kind](name, path, schema, file_io))


def file_table_of(table: object) -> FileTable | None:
    """Return the table if it is one without snapshots."""
    return table if isinstance(table, FormatTable | ObjectTable) else None


def format_partitions(table: FormatTable) -> list[Partition]:
    """Return the partitions of a format table. Rows are not counted: their number is -1, as Java says."""
    return [
        Partition(
            spec=one.spec,
            record_count=-1,
            file_size_in_bytes=one.file_size_in_bytes,
            file_count=one.file_count,
            last_file_creation_time=one.last_file_creation_time,
            total_buckets=-1,
        )
        for one in table.partitions()
    ]
