"""This module reads rows whose columns are stored in several files (data evolution), joined by row id.

Rule of the format: the files of a range have its rows in the same order. `read.file.column_sources` decides
which file a column is read from; a column that no file has is null. The bytes of blobs are read for requested
rows only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.data_reader import BATCH_ROWS
from lakecore.metadata.dedicated_columns import (
    BLOB_AS_DESCRIPTOR,
    BLOB_VIEW_RESOLVE,
    descriptor_columns,
    is_blob,
    view_columns,
)
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.row_range import RowRange, first_row, row_ranges
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.columns.blob_values import (
    BlobColumn,
    cut_by_size,
    locate_blobs,
    reference_sizes,
    resolve_references,
)
from lakecore.read.columns.blob_views import BlobViews
from lakecore.read.context import ReadContext
from lakecore.read.file.column_sources import ColumnSource, ColumnSources, resolve_column_sources
from lakecore.read.file.file_reader import FileRows, read_file, read_type
from lakecore.scan.split import Split
from lakecore.store.indexes import load_deletions
from lakecore.types.arrow import arrow_schema, arrow_type
from lakecore.types.datatypes import DataField, RowType

__all__ = ["JoinedRows", "read_joined"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """It says which rows of row ranges are read, and how."""

    deletions: Mapping[str, BitMap] | None = None
    """These are deletion vectors by file name; those of the oldest ordinary file of a range count."""
    predicate: Predicate | None = None
    """Rows for which it is not true may be left out, so that their blobs are not read."""
    as_stored: bool = False
    """It leaves references in columns of references, as new files of the rows need them."""


ALL_JOINED = JoinedRows()


def read_joined(
    ctx: ReadContext,
    bucket_dir: str,
    files: Sequence[DataFile],
    columns: Sequence[str],
    rows: JoinedRows = ALL_JOINED,
) -> Iterator[pa.RecordBatch]:
    """Read `rows` in the order of their ids. `files` are those of whole row ranges.

    It holds a batch of each file of a range, and up to 64 MB of blobs.

    Raises NotFoundError, CorruptDataError, also where files of a range differ in their rows; UnsupportedError
    for references that this release does not resolve.
    """
    row_type = read_type(ctx).select(tuple(columns))
    views = BlobViews(ctx, _references)
    deletions = rows.deletions or {}
    for row_range in row_ranges(files):
        deleted_rows = deletions.get(row_range.anchor.file_name, BitMap()) if row_range.ordinary else BitMap()
        yield from _Range(
            ctx, bucket_dir, row_range, row_type, deleted_rows, rows.predicate, rows.as_stored, views
        ).read()


def _references(
    ctx: ReadContext,
    bucket_dir: str,
    rows: RowRange,
    columns: Sequence[str],
    split: Split,
    predicate: Predicate,
) -> Iterator[pa.RecordBatch]:
    deleted_rows = {name: load_deletions(ctx.file_io, place) for name, place in split.deletions_of.items()}
    return read_joined(ctx, bucket_dir, rows.files, columns, JoinedRows(deleted_rows, predicate))


@dataclass(frozen=True)
class _Range:
    """The rows of one range, without the deleted ones (positions in `deleted_rows`)."""

    ctx: ReadContext
    bucket_dir: str
    rows: RowRange
    row_type: RowType
    deleted_rows: BitMap
    predicate: Predicate | None
    as_stored: bool
    views: BlobViews

    @cached_property
    def live(self) -> Ints:
        """Return the positions of the rows that are not deleted."""
        places = np.arange(self.rows.count)
        if not self.deleted_rows:
            return places
        if self.deleted_rows.max() >= self.rows.count:
            problem = f"row {self.deleted_rows.max()} is deleted, but the file has {self.rows.count} rows"
            raise CorruptDataError(self._path(self.rows.anchor), problem)
        return np.delete(places, np.array(self.deleted_rows.to_array(), np.int64))

    def read(self) -> Iterator[pa.RecordBatch]:
        sources = resolve_column_sources(self.ctx, self.rows, self.row_type.fields)
        fields = [field for field in self.row_type.fields if field.name in sources.blobs]
        blobs = [self._locate(field, sources.blobs[field.name]) for field in fields]
        schema = arrow_schema(self.row_type)
        for places, stored in self._batches(sources):
            columns = self._with_references(stored)
            for low, high in cut_by_size(self._sizes(blobs, places, columns)):
                here = {name: column.slice(low, high - low) for name, column in columns.items()}
                here |= {blob.name: self._values(blob, places[low:high]) for blob in blobs}
                arrays = [self._array(field, here, high - low) for field in self.row_type.fields]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _with_references(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Replace views by references to the bytes that they mean."""
        viewing = {field.name for field in self.row_type.fields if self._viewing(field)}
        return {
            name: self.views.resolve(name, column) if name in viewing else column
            for name, column in columns.items()
        }

    def _sizes(self, blobs: Sequence[BlobColumn], places: Ints, columns: Mapping[str, pa.Array]) -> Ints:
        """Return the bytes of the blobs of each row."""
        sizes: Ints = np.zeros(len(places), np.int64)
        for blob in blobs:
            sizes = sizes + blob.sizes[places]
        for field in self.row_type.fields if not self._referring else ():
            if field.name in columns and (self._inline(field) or self._viewing(field)):
                sizes = sizes + reference_sizes(columns[field.name])
        return sizes

    def _batches(self, sources: ColumnSources) -> Iterator[tuple[Ints, dict[str, pa.Array]]]:
        """Yield positions of some rows and their columns, except blobs; rows that the predicate excludes may
        be missing.
        """
        early = self._early(sources)
        at = 0
        for parts in self._side_by_side(sources.shares):
            count = parts[0].num_rows
            places = self.live[at : at + count]
            at += count
            columns = {name: part.column(name) for part in parts for name in part.schema.names}
            if early is not None:
                keep = mask(early, pa.RecordBatch.from_pydict(columns))
                places = places[keep.to_numpy(zero_copy_only=False)]
                columns = {name: column.filter(keep) for name, column in columns.items()}
            if len(places):
                yield places, columns
        if at != len(self.live):
            problem = f"it has {at} rows, but its manifest entry and deletion vector leave {len(self.live)}"
            raise CorruptDataError(self._path(self.rows.files[0]), problem)

    def _early(self, sources: ColumnSources) -> Predicate | None:
        """Return the predicate where evaluating it now can avoid reading blobs."""
        shared = {name for names in sources.shares.values() for name in names}
        if not self._referring:
            shared -= {field.name for field in self.row_type.fields if self._inline(field)}
        shared -= {field.name for field in self.row_type.fields if self._viewing(field)}
        inline = (self._inline(field) or self._viewing(field) for field in self.row_type.fields)
        spares = bool(sources.blobs) or any(inline)
        condition = self.predicate
        return condition if condition is not None and spares and columns_of(condition) <= shared else None

    def _side_by_side(self, shares: Mapping[ColumnSource, Sequence[str]]) -> Iterator[list[pa.RecordBatch]]:
        if not shares:
            for start in range(0, len(self.live), BATCH_ROWS):
                count = min(BATCH_ROWS, len(self.live) - start)
                yield [pa.RecordBatch.from_arrays([pa.nulls(count)], names=[""])]
            return
        streams = [self._stream(source, names) for source, names in shares.items()]
        yield from _zip(streams, self._path(list(shares)[-1][0]))

    def _stream(self, source: ColumnSource, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(
            read_file(self.ctx, self.bucket_dir, file, names, FileRows(deletions=self._gone_in(file)))
            for file in source
        )

    def _gone_in(self, file: DataFile) -> BitMap:
        start = first_row(file) - self.rows.first
        if start == 0 and file.row_count == self.rows.count:
            return self.deleted_rows
        return (self.deleted_rows & BitMap(range(start, start + file.row_count))).shift(-start)

    def _locate(self, column: DataField, files: Sequence[DataFile]) -> BlobColumn:
        paths = [(self._path(file), file) for file in files]
        return locate_blobs(self.ctx.file_io, column, paths, self.rows.first, self.rows.count)

    @property
    def _referring(self) -> bool:
        """Return whether blobs are requested as references."""
        return self.as_stored or BLOB_AS_DESCRIPTOR.read(self.ctx.schema.options)

    def _values(self, blob: BlobColumn, rows: Ints) -> pa.Array:
        return blob.references(rows) if self._referring else blob.values(rows)

    def _inline(self, column: DataField) -> bool:
        return is_blob(column.type) and column.name in descriptor_columns(self.ctx.schema.options)

    def _viewing(self, column: DataField) -> bool:
        raw = self.ctx.schema.options
        return column.name in view_columns(raw) and BLOB_VIEW_RESOLVE.read(raw) and not self.as_stored

    def _array(self, column: DataField, here: Mapping[str, pa.Array], count: int) -> pa.Array:
        if column.name not in here:
            return pa.nulls(count, arrow_type(column.type))
        array = here[column.name]
        if (self._viewing(column) or self._inline(column)) and not self._referring:
            return resolve_references(self.ctx.file_io, self.ctx.paths.table_path, column.name, array)
        return array

    def _path(self, file: DataFile) -> str:
        return self.ctx.paths.data_file(self.bucket_dir, file)


def _zip(streams: Sequence[Iterator[pa.RecordBatch]], path: str) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches of all streams side by side, cut to equal lengths."""
    heads = [next(stream, None) for stream in streams]
    while True:
        heads_present = [head for head in heads if head is not None]
        if not heads_present:
            return
        if len(heads_present) < len(heads):
            raise CorruptDataError(path, "files with columns of the same rows differ in the number of rows")
        count = min(head.num_rows for head in heads_present)
        if count:
            yield [head.slice(0, count) for head in heads_present]
        heads = [
            head.slice(count) if head.num_rows > count else next(stream, None)
            for head, stream in zip(heads_present, streams, strict=True)
        ]
