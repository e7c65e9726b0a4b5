"""This module reads the files of a format table as a source for scans, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.canonical import canonical, without_trailing_spaces
from lakecore.format.data_reader import BATCH_ROWS, open_reader
from lakecore.fs.file_io import FileIO
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.directory.listing import FilePartition, data_files, partitions_of
from lakecore.read.directory.rules import FileKind, FormatRules
from lakecore.read.directory.text_batches import TextFile, rows_without_columns
from lakecore.read.split.change_reader import with_kind
from lakecore.row.values import values_array
from lakecore.types.arrow import arrow_schema, arrow_type
from lakecore.types.datatypes import RowType

__all__ = ["DirectoryFile", "DirectoryRows"]


@dataclass(frozen=True, slots=True)
class DirectoryFile:
    """This is one data file; it can be pickled."""

    path: str
    size: int
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class DirectoryRows:
    """These are the rows of the files below `location`."""

    description: str
    row_type: RowType
    partition_keys: tuple[str, ...]
    location: str
    file_io: FileIO
    rules: FormatRules

    @cached_property
    def _partition_type(self) -> RowType:
        return RowType(tuple(self.row_type.field(name) for name in self.partition_keys))

    def partitions(self, where: Predicate | None = None) -> list[FilePartition]:
        """List the partitions; see `partitions_of`. A table without partition columns is one."""
        return partitions_of(self.file_io, self.location, self._partition_type, self.rules, where)

    def plan(self, where: Predicate | None) -> Sequence[DirectoryFile]:
        """Return the files of the partitions for which `where` may be true. Raises the errors of
        `partitions_of`.
        """
        return [
            DirectoryFile(file.path, file.size, partition.values)
            for partition in self.partitions(where)
            for file in data_files(self.file_io, partition.path)
        ]

    def read(
        self, part: DirectoryFile, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file. Raises CorruptDataError, NotFoundError for a file that was deleted since
        it was listed.
        """
        names = {*columns, *(() if where is None else columns_of(where))}
        row_type = self.row_type.select(tuple(name for name in self.row_type.names if name in names))
        schema = arrow_schema(row_type)
        constants = dict(zip(self.partition_keys, part.partition, strict=True))
        stored = row_type.select(tuple(name for name in row_type.names if name not in constants))
        for batch in self._stored_batches(part.path, stored):
            arrays = [
                _constant(constants[field.name], field.type, batch.num_rows)
                if field.name in constants
                else batch.column(field.name)
                for field in row_type.fields
            ]
            whole = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch
            chosen = (whole if where is None else whole.filter(mask(where, whole))).select(list(columns))
            yield with_kind(chosen) if kinds else chosen

    def _stored_batches(self, path: str, columns: RowType) -> Iterator[pa.RecordBatch]:
        if self.rules.kind in (FileKind.PARQUET, FileKind.ORC):
            return _columnar_batches(self.file_io, path, columns, self.rules.kind)
        names = tuple(name for name in self.row_type.names if name not in self.partition_keys)
        return TextFile(self.file_io, path, self.rules, self.row_type.select(names)).batches(columns)


def _columnar_batches(
    file_io: FileIO, path: str, columns: RowType, kind: FileKind
) -> Iterator[pa.RecordBatch]:
    """Read a parquet or orc file: columns are found by name, and one that the file lacks is null."""
    schema = arrow_schema(columns)
    reader = open_reader(file_io, path, format_name=kind.value)
    try:
        present = [name for name in columns.names if name in reader.schema.names]
        if not present:
            yield from _null_batches(schema, reader.num_rows)
            return
        for batch in reader.batches(present):
            arrays = []
            for field in columns.fields:
                if field.name not in present:
                    arrays.append(pa.nulls(batch.num_rows, arrow_type(field.type)))
                    continue
                array = canonical(batch.column(field.name), field.type, path)
                arrays.append(without_trailing_spaces(array, field.type) if kind is FileKind.ORC else array)
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    finally:
        reader.close()


def _null_batches(schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        arrays = [pa.nulls(count, field.type) for field in schema]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        else:
            yield rows_without_columns(count)


def _constant(value: Any, data_type: Any, rows: int) -> pa.Array:
    return pa.repeat(values_array([value], data_type)[0], rows)
