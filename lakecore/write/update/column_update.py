"""This module updates some columns of existing rows, found by row id, in tables with data evolution.

Rule of the format: a file with these columns, for all rows of a range in their order, takes precedence over
older files of the range; the other files stay as they are. Columns in blob and vector files get new files of
these kinds: see `blob_update` and `vector_shares`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.clock import Clock
from lakecore.commit.request import CommitResult, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import (
    CommitUncertainError,
    InvalidInputError,
    UnsupportedError,
)
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.dedicated_columns import (
    BLOB_AS_DESCRIPTOR,
    descriptor_columns,
    is_blob,
    managed_columns,
    view_columns,
)
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.manifest.row_range import RowRange, row_ranges
from lakecore.metadata.row_kind import ROW_ID_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.columns.blob_values import resolve_references
from lakecore.read.context import ReadContext
from lakecore.read.split.joined_rows import JoinedRows, read_joined
from lakecore.scan.scanner import Scanner
from lakecore.scan.split import Split
from lakecore.types.datatypes import AtomicType, TypeRoot
from lakecore.write.files.dedicated_files import BlobFiles
from lakecore.write.files.inline_blobs import check_references, check_views
from lakecore.write.files.rolling import FileSpec, RollingWriter
from lakecore.write.rows.casting import cast_column, first_null
from lakecore.write.update.blob_update import BlobUpdate
from lakecore.write.update.conflict_retry import retry_on_conflict
from lakecore.write.update.vector_shares import VectorShare, vector_shares

__all__ = ["ColumnUpdate", "UpdatedRows"]

Ints = npt.NDArray[np.int64]
CommitFunction = Callable[[Sequence[CommitMessage], Preconditions], CommitResult]

_ONE_FILE = 1 << 62
_ID_TYPE = AtomicType(TypeRoot.BIGINT, nullable=False)


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """It says how many rows were updated, and has the commit: without a snapshot when there were none."""

    rows: int
    commit: CommitResult


@dataclass(frozen=True, slots=True)
class _Values:
    """Row ids in ascending order, and the new values of these rows."""

    ids: Ints
    columns: pa.Table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.column_names)

    def only(self, names: Sequence[str]) -> _Values:
        """Return the same rows with these columns only."""
        return _Values(self.ids, self.columns.select(list(names)))

    def renamed(self, share: VectorShare, schema: TableSchema) -> _Values:
        """Return the columns that change in a vector file, by their names there. `schema` is that of the
        table.

        Raises UnsupportedError for a null where the older schema of the file forbids it.
        """
        names = {field.id: field for field in share.schema.fields}
        columns = {}
        for name in share.changed:
            there, column = names[schema.row_type.field(name).id], self.columns.column(name)
            if column.null_count and not there.type.nullable:
                raise UnsupportedError(
                    f"column {name}: its vector files were written when it was NOT NULL, so they can hold no "
                    "null: overwrite the rows"
                )
            columns[there.name] = column
        return _Values(self.ids, pa.table(columns))


@dataclass(frozen=True)
class ColumnUpdate:
    """It updates one table. It costs an object per file of the table; it holds the new values, and a batch
    of old ones.

    It reads the old values of the columns in all ranges that have one of the rows, and rewrites them; of
    blobs it rewrites only files that have one of the rows.
    """

    scanner: Scanner
    reading: ReadContext

    @property
    def clock(self) -> Clock:
        return self.scanner.stores.clock

    def run(self, data: pa.Table, commit: CommitFunction) -> UpdatedRows:
        """Give the rows of `data` (`_ROW_ID`, and the columns to change) their new values, in one snapshot.

        When other commits change these rows or their files meanwhile, the update is planned again. Deleted
        rows stay deleted. Raises InvalidInputError for ids that no row ever had, or that occur twice;
        UnavailableError or CommitConflictError when all retries fail, CommitUncertainError.
        """
        values = self._check(data)
        if not len(values.ids):
            return UpdatedRows(0, CommitResult())

        def attempt(snapshot: Snapshot | None) -> UpdatedRows:
            return UpdatedRows(len(values.ids), self._try(snapshot, values, commit))

        return retry_on_conflict(self.scanner.stores, attempt)

    def _check(self, data: pa.Table) -> _Values:
        schema = self.reading.schema
        names = [name for name in data.column_names if name != ROW_ID_NAME]
        if data.column_names.count(ROW_ID_NAME) != 1 or not names or len(set(names)) < len(names):
            raise InvalidInputError(
                f"the data must have {ROW_ID_NAME} and at least one other column, each of them once"
            )
        for name in names:
            if name not in schema.row_type.names or name in schema.partition_keys:
                raise InvalidInputError(f"column {name!r} is not in the table, or is a partition column")
        ids = cast_column(data.column(ROW_ID_NAME).combine_chunks(), _ID_TYPE, ROW_ID_NAME)
        if ids.null_count:
            raise InvalidInputError(f"column {ROW_ID_NAME}: row {first_null(ids)} has no value")
        order = pc.array_sort_indices(ids)
        numbers = ids.take(order).to_numpy(zero_copy_only=False)
        if len(twice := np.flatnonzero(np.diff(numbers) == 0)):
            raise InvalidInputError(f"column {ROW_ID_NAME}: {numbers[twice[0]]} appears twice")
        names = [name for name in schema.row_type.names if name in names]  # files have them in this order
        return _Values(numbers, pa.table({name: self._column(data, name).take(order) for name in names}))

    def _column(self, data: pa.Table, name: str) -> pa.Array:
        field = self.reading.schema.row_type.field(name)
        column = cast_column(data.column(name).combine_chunks(), field.type, name)
        if column.null_count and not field.type.nullable:
            raise InvalidInputError(f"column {name} is NOT NULL: row {first_null(column)} has no value")
        if name in descriptor_columns(self.reading.schema.options):
            check_references(name, column)
        elif name in view_columns(self.reading.schema.options):
            check_views(name, column)
        elif is_blob(field.type) and BLOB_AS_DESCRIPTOR.read(self.reading.schema.options):
            column = resolve_references(self.reading.file_io, self.reading.paths.table_path, name, column)
        return column

    def _try(self, snapshot: Snapshot | None, values: _Values, commit: CommitFunction) -> CommitResult:
        """Try once. New files are removed again unless they are, or may be, in the table."""
        writers: list[RollingWriter | BlobFiles] = []
        try:
            messages = [
                self._message(split, rows, values, writers)
                for split, rows in self._touched_ranges(snapshot, values)
            ]
            result = commit(messages, Preconditions(read_snapshot=snapshot))
        except CommitUncertainError:
            raise
        except BaseException:
            _remove(writers)
            raise
        if result.duplicate:
            _remove(writers)
        return result

    def _touched_ranges(self, snapshot: Snapshot | None, values: _Values) -> list[tuple[Split, RowRange]]:
        """Return the ranges that have the rows. Raises InvalidInputError for a row that does not exist."""
        touched: list[tuple[Split, RowRange]] = []
        is_touched = np.zeros(len(values.ids), np.bool_)
        for split in () if snapshot is None else self.scanner.plan(snapshot, self.reading.schema):
            for rows in row_ranges(split.files):
                low, high = np.searchsorted(values.ids, (rows.first, rows.first + rows.count)).tolist()
                if low < high:
                    is_touched[low:high] = True
                    touched.append((split, rows))
        if not is_touched.all():
            missing = values.ids[np.flatnonzero(~is_touched)[0]]
            raise InvalidInputError(f"table {self.scanner.table} has no row with {ROW_ID_NAME} {missing}")
        return touched

    def _message(
        self, split: Split, rows: RowRange, values: _Values, writers: list[RollingWriter | BlobFiles]
    ) -> CommitMessage:
        reading = self.reading.in_partition(split.partition)
        directory = reading.bucket_dir(split.partition, split.bucket)
        blobs = managed_columns(self.reading.schema.row_type, self.reading.schema.options)
        shares = vector_shares(reading, rows, values.names)
        apart = {*blobs, *(name for share in shares for name in share.changed)}
        ordinary = tuple(name for name in values.names if name not in apart)
        spec, number = self._spec(directory), count().__next__
        parts = [(reading, replace(spec, columns=ordinary), values.only(ordinary))] if ordinary else []
        for share in shares:
            within = replace(reading, schema=share.schema)
            parts.append((within, _vector_spec(spec, share), values.renamed(share, reading.schema)))
        files: list[DataFile] = []
        for within, its, changed in parts:
            writer = RollingWriter(reading.file_io, its, self.clock.now_ms, number)
            writers.append(writer)
            for batch in _changed_rows(within, directory, rows, changed, its.columns or ()):
                writer.write(batch)
            files += (replace(file, first_row_id=rows.first) for file in writer.close())

        def blob_files(name: str) -> BlobFiles:
            beside = BlobFiles(reading.file_io, spec, self.clock.now_ms, name, _ONE_FILE, number)
            writers.append(beside)
            return beside

        updates = [
            _blob_update(reading, directory, rows, values, name) for name in values.names if name in blobs
        ]
        files += (file for one in updates for file in one.write(partial(blob_files, one.column)))
        return CommitMessage(
            partition=split.partition,
            bucket=split.bucket,
            total_buckets=split.total_buckets,
            new_files=tuple(files),
            required_files=tuple(file for one in updates for file in one.old),
        )

    def _spec(self, directory: str) -> FileSpec:
        schema, options = self.reading.schema, self.reading.options
        return FileSpec(
            directory=directory,
            name_prefix=f"{options.data_file_prefix}{self.clock.fresh_id()}",
            schema=schema,
            keyed=False,
            source=FileSource.APPEND,
            target_size=_ONE_FILE,
            options=schema.options,
        )


def _vector_spec(spec: FileSpec, share: VectorShare) -> FileSpec:
    return replace(spec, schema=share.schema, format=share.format, columns=share.columns, infix=".vector")


def _blob_update(
    reading: ReadContext, directory: str, rows: RowRange, values: _Values, name: str
) -> BlobUpdate:
    low, high = np.searchsorted(values.ids, (rows.first, rows.first + rows.count)).tolist()
    new = values.columns.column(name).slice(low, high - low).combine_chunks()
    return BlobUpdate(reading, directory, rows, name, values.ids[low:high] - rows.first, new)


def _changed_rows(
    reading: ReadContext, directory: str, rows: RowRange, values: _Values, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield these columns of all rows of a range, with the new values. Columns of references stay
    references.
    """
    at = rows.first
    for batch in read_joined(reading, directory, rows.files, names, JoinedRows(as_stored=True)):
        low, high = np.searchsorted(values.ids, (at, at + batch.num_rows)).tolist()
        yield _change(batch, values, low, high, at)
        at += batch.num_rows


def _change(batch: pa.RecordBatch, values: _Values, low: int, high: int, first: int) -> pa.RecordBatch:
    """Return `batch`, whose first row has id `first`, with the new values from `low` to `high`."""
    if low == high:
        return batch
    source: Any = np.arange(batch.num_rows)
    source[values.ids[low:high] - first] = np.arange(high - low) + batch.num_rows
    arrays = []
    for field, old in zip(batch.schema, batch.columns, strict=True):
        if field.name not in values.names:
            arrays.append(old)
            continue
        new = values.columns.column(field.name).slice(low, high - low).combine_chunks()
        arrays.append(pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(source)))
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _remove(writers: Sequence[RollingWriter | BlobFiles]) -> None:
    for writer in writers:
        writer.abort()
