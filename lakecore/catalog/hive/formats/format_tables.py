"""This module has the format tables of a metastore: directories of csv, json, orc, parquet or text files."""

from __future__ import annotations

from typing import Any

from lakecore.catalog.hive.entries import is_paimon_table
from lakecore.catalog.hive.formats.format_entries import format_schema, is_format_table, kind_of_entry
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.names import TableName
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE

__all__ = ["FormatTables"]


@dataclass(frozen=True)
class FormatTables:
    """These are the format tables of one metastore, none where `format-table.enabled` is false."""

    metastore: HiveMetastore
    enabled: bool

    def check_change(self, table: str, verb: str, *, in_properties: bool) -> None:
        """Raise UnsupportedError where no format table can be changed that Java then reads. `verb` is
        `create`, `drop` or `rename`.
        """
        if not self.enabled:
            raise UnsupportedError(
                f"table {table!r}: type={FORMAT_TABLE} needs the catalog option format-table.enabled=true"
            )
        if in_properties:
            raise UnsupportedError(
                f"table {table!r}: with location-in-properties=true Java looks for the files of a table of "
                f"type={FORMAT_TABLE} at another place; {verb} it in a catalog without this option"
            )

    def has(self, record: Any) -> bool:
        """Return whether the catalog has the entry as a format table."""
        return self.enabled and is_format_table(record)

    def kinds(self, database: str) -> dict[str, str]:
        """Return what the tables and views of a database are, by name. It costs a call for 300 of them."""
        kinds = {one.tableName: kind_of_entry(one) for one in self.metastore.tables(database)}
        return dict(sorted(kinds.items()))

    def find(self, name: TableName) -> tuple[Any, TableSchema] | None:
        """Return the record and the schema of a format table; None for a Paimon table, and where nothing has
        the name. A NotFoundError says what else has it.
        """
        record = self.metastore.table(name)
        if record is None or is_paimon_table(record):
            return None
        schema = format_schema(record) if self.enabled else None
        if schema is None:
            raise NotFoundError(
                f"table {str(name)!r}: it is a {kind_of_entry(record)}, which lakecore does not read; read "
                "it with the engine that made it"
            )
        return record, schema
