"""This module reads the covered columns of a stored file, by field id through the schema that the file was
written with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.executor import count_proven_rows
from lakecore.format.canonical import canonical, without_trailing_spaces
from lakecore.format.row_spans import open_rows
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot_order import snapshot_number
from lakecore.types.datatypes import AtomicType, DataField, DataType, TypeRoot
from lakecore.verify.digest.evolution import widen
from lakecore.verify.digest.shape import RowShape

__all__ = ["StoredFile", "read_covered", "written_schema"]

_SEQUENCE_TYPE = AtomicType(TypeRoot.BIGINT, nullable=False)
_KIND_TYPE = AtomicType(TypeRoot.TINYINT, nullable=False)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """This is a data file, which has a path and a manifest entry."""

    path: str
    file: DataFile

    def number(self, shape: RowShape) -> int | None:
        """Return the sequence number of all its rows; None: the stored ones."""
        return snapshot_number(self.file) if shape.snapshot_ordering else None


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a covered column, which is a stored column and its type there, or None for a later
    column.
    """

    name: str | None
    stored: DataType
    target: DataType


def read_covered(
    file_io: FileIO,
    path: str,
    shape: RowShape,
    schema: TableSchema,
    *,
    number: int | None = None,
    rows: tuple[int, int] | None = None,
) -> Iterator[tuple[pa.Array, ...]]:
    """Yield batches of the columns of `shape`, in its order, ready for hashing. `schema` is that of the file.

    `number` is that of all rows, where it replaces the stored sequence number (`StoredFile.number`). `rows`
    limits the positions from the first to before the second. Raises NotFoundError, CorruptDataError. It reads
    only those columns, and of `rows` only the pages (parquet with a page index); memory is one batch.
    """
    try:
        reader = open_rows(file_io, path, schema, rows)
    except NotFoundError as err:
        raise NotFoundError(
            f"data file {path} was removed before it was checked: its snapshot may have "
            "expired; run the job again"
        ) from err
    try:
        sources = _sources(shape, schema, set(reader.schema.names), path)
        names = list(dict.fromkeys(source.name for source in sources if source.name is not None))
        for batch in reader.batches(names):
            columns = [_column(batch, source, path) for source in sources]
            if not shape.blanks_count:
                columns = [_cut(column, source) for column, source in zip(columns, sources, strict=True)]
            if number is not None and shape.keyed:
                columns[-2] = pa.array(np.full(batch.num_rows, number, np.int64))
            count_proven_rows(batch.num_rows)
            yield tuple(columns)
    finally:
        reader.close()


def written_schema(schema: TableSchema, file: DataFile) -> TableSchema:
    """Return the columns that the file has, in its order: columns of the same rows may be stored in several
    files.
    """
    if file.write_cols is None:
        return schema
    fields = {field.name: field for field in schema.fields}
    return replace(schema, fields=tuple(fields[name] for name in file.write_cols if name in fields))


def _column(batch: pa.RecordBatch, source: _Source, path: str) -> pa.Array:
    if source.name is None:
        return pa.nulls(batch.num_rows)
    array = canonical(batch.column(source.name), source.stored, path)
    return widen(array, source.stored, source.target)


def _cut(array: pa.Array, source: _Source) -> pa.Array:
    """Return the column without spaces at the end of its CHARs; a column that the file lacks is all null."""
    return without_trailing_spaces(array, source.target) if source.name is not None else array


def _sources(shape: RowShape, schema: TableSchema, present: set[str], path: str) -> list[_Source]:
    fields = {field.id: field for field in schema.fields}
    sources = [_key_source(field, fields, present, path) for field in shape.key]
    for field in shape.values:
        before = fields.get(field.id)
        if before is None:
            sources.append(_Source(None, field.type, field.type))
        else:
            sources.append(_present(_Source(before.name, before.type, field.type), present, path))
    if shape.keyed:
        sources.append(_present(_Source(SEQUENCE_NAME, _SEQUENCE_TYPE, _SEQUENCE_TYPE), present, path))
        sources.append(_present(_Source(KIND_NAME, _KIND_TYPE, _KIND_TYPE), present, path))
    return sources


def _key_source(field: DataField, fields: dict[int, DataField], present: set[str], path: str) -> _Source:
    """Return the source of a key column: its own name, or in a thin file (data-file.thin-mode) the value
    column.
    """
    before = fields.get(field.id)
    if before is None:
        raise CorruptDataError(path, f"its schema has no key column {field.name} (field id {field.id})")
    stored = KEY_PREFIX + before.name
    name = stored if stored in present else before.name
    return _present(_Source(name, before.type, field.type), present, path)


def _present(source: _Source, present: set[str], path: str) -> _Source:
    """Return the source if the file has it. A column of its schema that a file lacks is null, unless it must
    not be.
    """
    if source.name in present:
        return source
    if source.stored.nullable:
        return _Source(None, source.stored, source.target)
    raise CorruptDataError(
        path, f"column {source.name} is missing; the file has the columns {', '.join(sorted(present))}"
    )
