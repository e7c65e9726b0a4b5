"""This module reads one data file as batches of the table's columns: schema evolution, thin keys, and ORC
time zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import BUFFER_SIZE, DataFileReader, file_format, open_reader
from lakecore.format.parquet.int96 import has_nanos
from lakecore.format.parquet.pages import FilePages
from lakecore.format.parquet.reader import ParquetReader
from lakecore.metadata.key_value import key_value_type
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KEY_PREFIX, SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot_order import snapshot_number
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.columns.evolve import evolve, needed_part, same_values
from lakecore.read.context import ReadContext
from lakecore.read.file.deletions import live_rows
from lakecore.read.file.file_index import IndexMatch, IndexSearch
from lakecore.read.file.orc_zone import to_instant
from lakecore.read.file.row_groups import group_sizes, matching_row_groups
from lakecore.read.file.row_ids import TRACKING_NAMES, tracked_type, with_positions, with_row_ids
from lakecore.read.file.selection import select_rows
from lakecore.read.file.sizes import DEFAULT_SIZES, ReadSizes, batch_rows
from lakecore.types.arrow import arrow_schema, arrow_type
from lakecore.types.datatypes import DataField, RowType

__all__ = [
    "ALL_ROWS",
    "FileColumns",
    "FileRows",
    "convert",
    "expired_file_error",
    "read_columns",
    "read_file",
    "read_type",
    "select_stored_fields",
]

Conversion = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class FileColumns:
    """It maps the stored columns of a file to the requested columns."""

    stored: tuple[str, ...]
    """These are the columns to read."""
    sources: tuple[int | None, ...]
    """This is the index in `stored` of each requested column, or None for a column that the file does not
    have.
    """
    fields: tuple[DataField | None, ...]
    row_type: RowType
    schema: pa.Schema
    constants: Mapping[str, pa.Array]
    """These columns have one value in the whole file, as arrays of one row."""
    plain: bool = False
    """All columns are stored exactly as requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """It says which rows of a file are read."""

    predicate: Predicate | None = None
    """It skips row groups that cannot match it by their statistics, and rows by file indexes; the returned
    rows are not filtered by it.
    """
    deletions: BitMap | None = None
    """These are positions of rows to leave out."""
    index_match: IndexMatch | None = None
    """It is the result of the file indexes; with None they are read."""


ALL_ROWS = FileRows()


def read_type(ctx: ReadContext) -> RowType:
    """Return all columns that `read_file` can read, with the system columns of key-value files and tracked
    rows.
    """
    return ctx.with_read_types(_with_system_columns(ctx.schema, ctx))


def _with_system_columns(schema: TableSchema, ctx: ReadContext) -> RowType:
    if ctx.keyed:
        return key_value_type(schema)
    return tracked_type(schema.row_type) if ctx.options.row_tracking else schema.row_type


def read_file(
    ctx: ReadContext,
    bucket_dir: str,
    file: DataFile,
    columns: Sequence[str] | None = None,
    rows: FileRows = ALL_ROWS,
    sizes: ReadSizes = DEFAULT_SIZES,
) -> Iterator[pa.RecordBatch]:
    """Read `rows` of a file in file order, columns by the names and types of `ctx.schema` (`read_type`).

    `sizes` limits the rows of a batch; batches have fewer where rows are wide. Raises NotFoundError when the
    file does not exist, CorruptDataError, UnsupportedError.
    """
    predicate = rows.predicate
    path = ctx.paths.data_file(bucket_dir, file)
    index_match = rows.index_match
    index_match = IndexSearch(ctx, predicate).search(bucket_dir, file) if index_match is None else index_match
    live = live_rows(rows.deletions, file.row_count, path, index_match.rows)
    if live is not None and not live:
        return
    reader = open_data_file(ctx, path, file, sizes.buffer_size)
    try:
        plan = select_stored_fields(_columns_once(ctx, file, reader.schema, path, columns), reader)
        groups = matching_row_groups(reader, _prunable(ctx, file, reader, path, predicate), predicate)
        batch_size = min(sizes.batch_rows, batch_rows(reader.row_bytes(plan.stored)))
        selection = select_rows(group_sizes(reader), groups, live)
        if ctx.keyed or not set(TRACKING_NAMES).intersection(plan.row_type.names):
            for batch in selection.select(reader.batches(plan.stored, batch_size, selection.groups)):
                yield convert(ctx, path, plan, batch)
            return
        stored = plan.stored or reader.schema.names[:1]
        batches = reader.batches(stored, batch_size, selection.groups)
        for batch in selection.select(with_positions(batches, group_sizes(reader), selection.groups)):
            yield with_row_ids(convert(ctx, path, plan, batch), file, path, batch.columns[-1])
    finally:
        reader.close()


def open_data_file(
    ctx: ReadContext, path: str, file: DataFile, buffer_size: int = BUFFER_SIZE
) -> DataFileReader:
    """Open a file that a snapshot names. Raises NotFoundError that says what may have happened."""
    schema = ctx.file_schema(file.schema_id)
    try:
        return open_reader(ctx.file_io, path, schema=schema, buffer_size=buffer_size)
    except NotFoundError as err:
        raise expired_file_error(path) from err


def expired_file_error(path: str) -> NotFoundError:
    """Return the error for a file that a snapshot names and that does not exist."""
    return NotFoundError(
        f"data file {path} does not exist: the snapshot that is read may have expired; "
        "read a newer snapshot, or run fsck"
    )


def _prunable(
    ctx: ReadContext, file: DataFile, reader: DataFileReader, path: str, predicate: Predicate | None
) -> dict[str, tuple[str, DataField]]:
    """Return the predicate columns that the file stores with the type that the predicate means."""
    if predicate is None:
        return {}
    names = tuple(columns_of(predicate))
    plan = read_columns(ctx, file, reader.schema, path, names)
    return {
        field.name: (plan.stored[source], field)
        for field, source, stored in zip(plan.row_type.fields, plan.sources, plan.fields, strict=True)
        if source is not None and stored is not None and same_values(stored.type, field.type)
    }


def _columns_once(
    ctx: ReadContext, file: DataFile, stored: pa.Schema, path: str, columns: Sequence[str] | None
) -> FileColumns:
    """Do what `read_columns` does, once for files of one schema with the same stored columns."""
    if ctx.options.snapshot_ordering:  # columns of one value may differ from file to file
        return read_columns(ctx, file, stored, path, columns)
    key = (file.schema_id, file_format(path), None if columns is None else tuple(columns))
    entry: tuple[pa.Schema, FileColumns] | None = ctx.file_columns.get(key)
    if entry is None or not entry[0].equals(stored, check_metadata=True):
        entry = ctx.file_columns[key] = (stored, read_columns(ctx, file, stored, path, columns))
    return entry[1]


def read_columns(
    ctx: ReadContext, file: DataFile, stored: pa.Schema, path: str, columns: Sequence[str] | None
) -> FileColumns:
    """Match the requested columns with those of a file by field id, through the schema it was written
    with.
    """
    everything = read_type(ctx)
    row_type = everything if columns is None else everything.select(tuple(columns))
    schema = _with_system_columns(ctx.file_schema(file.schema_id), ctx)
    constants = _constants(ctx, file, row_type)
    by_id = _stored_fields(schema, ctx, stored)
    required = {field.id: field.name for field in schema.fields if not field.type.nullable}
    names: list[str] = []
    sources: list[int | None] = []
    fields: list[DataField | None] = []
    for field in row_type.fields:
        stored_field = None if field.name in constants else by_id.get(field.id)
        fields.append(None if stored_field is None else stored_field[1])
        if stored_field is None:
            if field.id in required and field.name not in constants:
                raise CorruptDataError(
                    path,
                    f"column {required[field.id]} is missing; the file has the columns "
                    f"{', '.join(stored.names)}",
                )
            sources.append(None)
            continue
        if stored_field[0] not in names:
            names.append(stored_field[0])
        sources.append(names.index(stored_field[0]))
    schema_of = arrow_schema(row_type)
    plan = FileColumns(tuple(names), tuple(sources), tuple(fields), row_type, schema_of, constants)
    return replace(plan, plain=file_format(path) != "orc" and _is_plain(plan, stored))


def select_stored_fields(plan: FileColumns, reader: DataFileReader | FilePages) -> FileColumns:
    """Let a reader of a parquet file leave out the fields of ROWs that the requested columns do not have, and
    return the plan for what it reads. Readers of other formats read ROWs whole.
    """
    if not isinstance(reader, ParquetReader | FilePages):
        return plan
    fields = list(plan.fields)
    for at, target in enumerate(plan.row_type.fields):
        source, field = plan.sources[at], plan.fields[at]
        if not isinstance(target.type, RowType) or source is None or field is None:
            continue
        if plan.sources.count(source) > 1:
            continue
        part = needed_part(field.type, target.type)
        if part != field.type and reader.select_fields(plan.stored[source], part):
            fields[at] = replace(field, type=part)
    return replace(plan, fields=tuple(fields))


def _constants(ctx: ReadContext, file: DataFile, row_type: RowType) -> Mapping[str, pa.Array]:
    """Return the columns that have one value in all rows of the file: that of its partition, or of its
    snapshot.
    """
    if not ctx.options.snapshot_ordering or SEQUENCE_NAME not in row_type.names:
        return ctx.partition_values
    number = snapshot_number(file)
    return ctx.partition_values | ({} if number is None else {SEQUENCE_NAME: pa.array([number], pa.int64())})


def _is_plain(plan: FileColumns, stored: pa.Schema) -> bool:
    columns = zip(plan.row_type.fields, plan.sources, plan.fields, plan.schema.types, strict=True)
    return all(
        source is not None
        and field is not None
        and same_values(field.type, target_field.type)
        and stored.field(plan.stored[source]).type == kind
        and not has_nanos(kind)  # INT96 comes out in microseconds too
        for target_field, source, field, kind in columns
    )


def _stored_fields(schema: RowType, ctx: ReadContext, stored: pa.Schema) -> dict[int, tuple[str, DataField]]:
    """Map field ids to stored columns and their fields. A key column of a thin file is the value column of
    that name.

    Columns that the file lacks are absent: they read as null, or as corruption where they must not be null.
    """
    present = set(stored.names)
    out: dict[int, tuple[str, DataField]] = {}
    for field in schema.fields:
        thin = field.name.removeprefix(KEY_PREFIX)
        if field.name in present:
            out[field.id] = (field.name, field)
        elif ctx.keyed and field.name != thin and thin in present:
            out[field.id] = (thin, field)
    return out


def convert(ctx: ReadContext, path: str, plan: FileColumns, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a stored batch (columns `plan.stored`) to the requested columns."""
    arrays: list[pa.Array] = []
    if plan.plain and plan.stored:
        arrays += [batch.column(source) for source in plan.sources]
        return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)
    for field, source, stored in zip(plan.row_type.fields, plan.sources, plan.fields, strict=True):
        if (constant := plan.constants.get(field.name)) is not None:
            arrays.append(constant.take(pa.array(np.zeros(batch.num_rows, np.int32))))
            continue
        if source is None or stored is None:
            arrays.append(pa.nulls(batch.num_rows, arrow_type(field.type)))
            continue
        array = canonical(batch.column(source), stored.type, path)
        if file_format(path) == "orc":
            array = to_instant(array, stored.type, ctx.orc_zone)
        arrays.append(
            array if same_values(stored.type, field.type) else evolve(array, stored.type, field.type)
        )
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)
