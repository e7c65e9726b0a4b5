"""This module has the vector columns that a new vector file holds when some of them get new values. It
reads schemas, no data.

Rule of the format: among the vector files of a range a column is read from those of the oldest schema, then
of the first format, then of the first columns, and only among these the newest counts. So new values go into
a file of the same schema, format and columns as their present one, with the other columns unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.format.data_reader import file_format
from lakecore.metadata.dedicated_columns import DedicatedColumns, is_vector_file
from lakecore.metadata.manifest.row_range import RowRange
from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.read.file.column_sources import resolve_column_sources

__all__ = ["VectorShare", "vector_shares"]


@dataclass(frozen=True, slots=True)
class VectorShare:
    """These are the columns of one new vector file."""

    schema: TableSchema
    """This is the schema of the file."""
    format: str
    columns: tuple[str, ...]
    """These are the columns by their names in `schema`."""
    changed: tuple[str, ...]
    """These are the names in the table of the columns that get new values."""


def vector_shares(ctx: ReadContext, rows: RowRange, names: Sequence[str]) -> tuple[VectorShare, ...]:
    """Return the new vector files for new values of `names`. Vector columns that are in none of them belong
    into an ordinary file, like their present one: ordinary files take precedence over vector files.
    """
    dedicated = DedicatedColumns.of(ctx.schema.row_type, ctx.schema.options, ctx.options.target_file_size)
    apart = tuple(name for name in names if name in dedicated.vectors)
    if not apart:
        return ()
    sources = resolve_column_sources(ctx, rows, [ctx.schema.row_type.field(name) for name in apart]).shares
    givers = {name: giver[0] for giver, column_names in sources.items() for name in column_names}
    new = tuple(name for name in apart if name not in givers)
    shares = [VectorShare(ctx.schema, dedicated.vector_format, new, new)] if new else []
    for file in dict.fromkeys(givers.values()):
        if is_vector_file(file.file_name):
            changed = tuple(name for name in apart if givers.get(name) == file)
            schema = replace(ctx.file_schema(file.schema_id), options=ctx.schema.options)
            columns = file.write_cols or schema.row_type.names
            shares.append(VectorShare(schema, file_format(file.file_name), tuple(columns), changed))
    return tuple(shares)
