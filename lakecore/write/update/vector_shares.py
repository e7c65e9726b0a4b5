"""Which vector columns a new vector file holds when some of them get new values. Reads schemas, no data.

Rule of the format: of the vector files of a range those of the oldest schema, then of the first format, then
of the first columns give a column, and only among these the newest counts. So new values go into a file of
the same schema, format and columns as those that give them now, with the other columns as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakecore.format.data_reader import file_format
from lakecore.metadata.dedicated_columns import DedicatedColumns, is_vector_file
from lakecore.metadata.manifest.row_range import RowRange
from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.read.file.column_sources import resolve_column_sources

__all__ = ["VectorShare", "vector_shares"]


@dataclass(frozen=True, slots=True)
class VectorShare:
    """Columns of one new vector file, by their names in `schema`, which is that of the file. `changed`: the
    names in the table of those that get new values.
    """

    schema: TableSchema
    format: str
    columns: tuple[str, ...]
    changed: tuple[str, ...]


def vector_shares(ctx: ReadContext, rows: RowRange, names: Sequence[str]) -> tuple[VectorShare, ...]:
    """The new vector files for new values of `names`. Columns of vectors that are in none of them belong into
    an ordinary file, as those that give them now: these count before vector files.
    """
    dedicated = DedicatedColumns.of(ctx.schema.row_type, ctx.schema.options, ctx.options.target_file_size)
    apart = tuple(name for name in names if name in dedicated.vectors)
    if not apart:
        return ()
    found = resolve_column_sources(ctx, rows, [ctx.schema.row_type.field(name) for name in apart]).shares
    givers = {name: giver[0] for giver, given in found.items() for name in given}
    new = tuple(name for name in apart if name not in givers)
    shares = [VectorShare(ctx.schema, dedicated.vector_format, new, new)] if new else []
    for file in dict.fromkeys(givers.values()):
        if is_vector_file(file.file_name):
            changed = tuple(name for name in apart if givers.get(name) == file)
            schema = replace(ctx.file_schema(file.schema_id), options=ctx.schema.options)
            columns = file.write_cols or schema.row_type.names
            shares.append(VectorShare(schema, file_format(file.file_name), tuple(columns), changed))
    return tuple(shares)
