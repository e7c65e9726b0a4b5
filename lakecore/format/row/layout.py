"""This module decides which columns a file of format `row` stores: the file itself does not say, it has
places and no names.
"""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.key_value import key_value_type
from lakecore.metadata.options import ROW_TRACKING, THIN_MODE
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import RowType

__all__ = ["check_row_files", "row_columns"]


def row_columns(schema: TableSchema, path: str) -> RowType:
    """Return the columns of a file in order. `schema` is the one it was written with.

    Raises UnsupportedError where other engines take the columns for others than were written: without keys
    (data-file.thin-mode), and with row ids.
    """
    for option in (THIN_MODE, ROW_TRACKING):
        if option.read(schema.options):
            raise UnsupportedError(
                f"{path}: files of format row with {option.key}=true cannot be read, because "
                "no engine writes them in a readable form; write such tables with "
                "file.format=parquet"
            )
    return key_value_type(schema) if schema.primary_keys else schema.row_type


def check_row_files(schema: TableSchema) -> None:
    """Raise UnsupportedError if files of format row must not be written, because the other engines would
    misread them.

    Java Paimon 2.0.0 reads those of a table with a primary key as if they had no key columns, and loses rows
    where it merges them; with row ids it takes the columns for others.
    """
    if schema.primary_keys or ROW_TRACKING.read(schema.options):
        what = "a primary key" if schema.primary_keys else f"{ROW_TRACKING.key}=true"
        raise UnsupportedError(
            f"a table with {what} cannot have files of format row, because Java Paimon cannot read them; "
            "set file.format=parquet (and file.format.per.level, changelog-file.format)"
        )
