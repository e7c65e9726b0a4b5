"""This module finds the source files of the columns of a row range (data evolution). It reads schemas, no
data.

Rule of the format: a column is read from the newest ordinary file that has it, without one from the blob
files of the column, else from vector files; files of the same schema, format and columns together are one
source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.data_reader import file_format
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.row_range import RowRange, first_row
from lakecore.read.context import ReadContext
from lakecore.read.file.row_ids import TRACKING_NAMES
from lakecore.types.datatypes import DataField

__all__ = ["ColumnSource", "ColumnSources", "field_ids", "resolve_column_sources"]

ColumnSource = tuple[DataFile, ...]
"""These files together hold some columns of all rows of a range: one, or several that follow one another."""


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """These are the sources of the requested columns of a row range."""

    shares: Mapping[ColumnSource, Sequence[str]]
    """These columns are read from each source."""
    blobs: Mapping[str, Sequence[DataFile]]
    """These are the blob files of each column that is stored in blob files, by name."""


def resolve_column_sources(ctx: ReadContext, rows: RowRange, fields: Iterable[DataField]) -> ColumnSources:
    """Find the source of each column of `fields`. A column that no file has is in neither part of the result.

    Raises CorruptDataError where such a column must not be null, and where vector files do not cover the rows
    exactly once.
    """
    ordinary: list[tuple[ColumnSource, frozenset[int]]] = [((f,), field_ids(ctx, f)) for f in rows.ordinary]
    vectors = [(source, field_ids(ctx, source[0])) for source in _vector_sources(ctx, rows)]
    apart: dict[int, list[DataFile]] = {}
    for file in rows.blobs:
        for field_id in field_ids(ctx, file):
            apart.setdefault(field_id, []).append(file)
    shares: dict[ColumnSource, list[str]] = {}
    blobs: dict[str, Sequence[DataFile]] = {}
    for field in fields:
        tracked = field.name in TRACKING_NAMES
        source = next((files for files, ids in ordinary if tracked or field.id in ids), None)
        if source is None and field.id in apart:
            blobs[field.name] = apart[field.id]
            continue
        source = source or next((files for files, ids in vectors if field.id in ids), None)
        if source is not None:
            shares.setdefault(source, []).append(field.name)
        elif not field.type.nullable:
            name = rows.files[0].file_name
            raise CorruptDataError(
                name, f"neither it nor another file of its rows has column {field.name}, which is NOT NULL"
            )
    return ColumnSources(shares, blobs)


def field_ids(ctx: ReadContext, file: DataFile) -> frozenset[int]:
    """Return the field ids of the columns of a file. It reads its schema."""
    names = file.write_cols
    fields = ctx.file_schema(file.schema_id).fields
    return frozenset(field.id for field in fields if names is None or field.name in names)


def _vector_sources(ctx: ReadContext, rows: RowRange) -> list[ColumnSource]:
    """Return the sources of vector columns. Rule of the format: columns are compared one by one, in schema
    order.
    """
    sources: dict[tuple[int, str, tuple[str, ...]], list[DataFile]] = {}
    for file in rows.vectors:
        file_fields = field_ids(ctx, file)
        names = (field.name for field in ctx.file_schema(file.schema_id).fields if field.id in file_fields)
        key = (file.schema_id, file_format(file.file_name), tuple(names) if file.write_cols else ())
        sources.setdefault(key, []).append(file)
    return [_tiles(rows, sources[key]) for key in sorted(sources)]


def _tiles(rows: RowRange, files: Sequence[DataFile]) -> ColumnSource:
    """Return the files that cover the rows. `files` are ordered by first row, newest first: an older file
    that begins among the rows of another is covered.
    """
    tiles: list[DataFile] = []
    at = rows.first
    for file in files:
        covered = first_row(file) < at
        newer = bool(tiles) and file.max_sequence_number >= tiles[-1].max_sequence_number
        if (covered and newer) or first_row(file) > at:
            raise CorruptDataError(file.file_name, "the vector files do not cover their rows exactly once")
        if not covered:
            tiles.append(file)
            at += file.row_count
    if at != rows.first + rows.count:
        raise CorruptDataError(files[-1].file_name, "the vector files do not cover their rows exactly once")
    return tuple(tiles)
