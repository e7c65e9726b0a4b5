"""This module writes record batches to files of one bucket and level, a new file when one is large enough.

Append and compaction write through this. Rows arrive in file order; the caller guarantees what a file needs
(order of keys, one record per key).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from lakecore.clock import local_ms
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.format.blob.sidecar import REFERENCES_SUFFIX, Pack, encode_packs, referenced_packs
from lakecore.format.data_writer import DataFileWriter, WriterOptions, open_shredding_writer, open_writer
from lakecore.format.encoders import Encoders
from lakecore.format.parquet.writer import ParquetWriter
from lakecore.format.row.layout import check_row_files
from lakecore.format.shredders import shredder_for
from lakecore.format.shredding import Shredder
from lakecore.format.statistics import stats_modes
from lakecore.fs.file_io import FileIO
from lakecore.index.builder import FileIndexBuilder
from lakecore.index.container import INDEX_SUFFIX
from lakecore.index.definition import IN_MANIFEST, IndexSpec, index_specs
from lakecore.metadata.dedicated_columns import descriptor_columns, managed_columns
from lakecore.metadata.key_value import key_value_type
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.options import THIN_MODE
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.metadata.schema import TableSchema
from lakecore.read.file.row_ids import tracked_type
from lakecore.store.external_places import ExternalBucket
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from lakecore.write.files.file_meta import FileSummary, data_file
from lakecore.write.files.removal import remove_created
from lakecore.write.options import FileRules
from lakecore.write.rows.casting import first_null

__all__ = ["FileSpec", "RollingWriter", "check_file_options", "slices", "stored_columns"]

_MIN_SLICE = 1000
_CHECKS_PER_FILE = 8


@dataclass(frozen=True, kw_only=True)
class FileSpec:
    """These are the common properties of the files of one writer. It can be pickled.

    Files are `<directory>/<name_prefix>-<n>.<extension>`, n from `first_index`, or have such names in one of
    the `external` places.
    """

    directory: str
    name_prefix: str
    schema: TableSchema
    keyed: bool
    source: FileSource
    target_size: int
    """This is the size in bytes at which the next file begins."""
    options: Mapping[str, str]
    format: str | None = None
    """With None the format is the one that the options define for this level."""
    level: int = 0
    changelog: bool = False
    tracked: bool = False
    """If it is True, rows have their row ids and sequence numbers, which are stored."""
    first_sequence: int = 0
    """The number of the first row of an append file (key-value rows have their own); rows count up from it
    over all files of the writer.
    """
    first_index: int = 0
    columns: tuple[str, ...] | None = None
    """The columns of an append file that does not have all (None); its description then names them."""
    infix: str = ""
    """This is the part of the file name that comes before the extension."""
    clustering_columns: tuple[str, ...] = ()
    """These are the columns whose values bound the file in its description in place of the key
    (pk-clustering-override).
    """
    external: ExternalBucket | None = None
    """With None data files are in `directory`."""

    def path(self, name: str) -> str:
        """Return the path of a new data or changelog file."""
        return f"{self.directory}/{name}" if self.external is None else self.external.path(name)

    def extra_path(self, name: str, extra: str) -> str:
        """Return the path of an extra file of a new data file, which is in the same directory."""
        return f"{self.path(name).rpartition('/')[0]}/{extra}"

    def external_path(self, name: str) -> str | None:
        """Return what the description of a new file records of its place."""
        return None if self.external is None else self.external.location(name)

    @cached_property
    def rules(self) -> FileRules:
        """Return the format, codec and statistics by the options. Raises InvalidOptionError,
        UnsupportedError.
        """
        rules = FileRules.of(self.options, self.level, changelog=self.changelog)
        rules = rules if self.format is None else rules.with_format(self.format)
        if rules.format == "row":
            check_row_files(self.schema)
        return rules

    @cached_property
    def indexes(self) -> tuple[IndexSpec, ...]:
        """Return the file indexes of each file; changelog files have none. Raises InvalidOptionError."""
        if self.changelog:
            return ()
        specs = index_specs(replace(self.schema, options=self.options))
        return specs if self.columns is None else tuple(s for s in specs if s.column in self.columns)

    @cached_property
    def managed(self) -> tuple[str, ...]:
        """Return the columns that refer to packs of blobs; files with a key name these packs."""
        if not self.keyed or self.changelog:
            return ()
        return managed_columns(self.schema.row_type, self.options)

    @property
    def inline_blobs(self) -> tuple[str, ...]:
        """Return the columns of references that the caller gives."""
        return tuple(name for name in descriptor_columns(self.options) if name in self.schema.row_type.names)

    @property
    def value_type(self) -> RowType:
        """Return the table's columns that a file has."""
        whole = self.schema.row_type
        return whole if self.columns is None else whole.select(self.columns)

    @property
    def bounds_type(self) -> RowType:
        """Return the columns whose values in the first and the last row bound a key-value file."""
        return (
            self.schema.row_type.select(self.clustering_columns)
            if self.clustering_columns
            else self.schema.key_type
        )

    @property
    def row_type(self) -> RowType:
        """Return the columns of a file: the table's, behind the key-value columns or before those that track
        rows.
        """
        if self.tracked:
            return tracked_type(self.schema.row_type, nullable=False)
        if not self.keyed:
            return self.value_type
        return key_value_type(self.schema, thin=THIN_MODE.read(self.options))


def check_file_options(schema: TableSchema) -> None:
    """Raise InvalidOptionError for options that would otherwise fail a file that is being written,
    UnsupportedError for an index that no column of that type can have.
    """
    index_specs(schema)
    for changelog in (False, True):
        rules = FileRules.of(schema.options, 0, changelog=changelog)
        stats_modes(schema.row_type, schema.options, rules.stats_mode)
        WriterOptions.from_options(schema.options, rules.compression)
        shredder_for(schema.row_type, schema.options, rules.format, rules.compression)


class RollingWriter:
    """It writes batches to as many files as needed. It must not be shared by threads.

    After a failure of `write` or `close` call `abort`: it removes every file that this writer created.
    """

    def __init__(
        self,
        file_io: FileIO,
        spec: FileSpec,
        now_ms: Callable[[], int],
        number: Callable[[], int] | None = None,
        encoders: Encoders | None = None,
    ) -> None:
        """Create the writer. `number` returns the number of each new file; None: they are counted from
        `first_index` on. `encoders` encode parquet files while the caller goes on.
        """
        self._encoders = encoders
        self._file_io = file_io
        self._number = number
        self._spec = spec
        self._now_ms = now_ms
        self._schema = arrow_schema(spec.row_type)
        self._index = spec.first_index
        self._sequence = spec.first_sequence
        self._current: _OpenFile | None = None
        self._files: list[DataFile] = []
        self._paths: list[str] = []

    @property
    def files_started(self) -> int:
        """Return the number of files opened so far: the next writer with this prefix starts at first_index +
        this.
        """
        return self._index - self._spec.first_index

    @property
    def open_size(self) -> int:
        """Return the bytes of the file that is being written."""
        return 0 if self._current is None else self._current.writer.size_estimate

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every file that this writer created so far, indexes included."""
        return tuple(self._paths)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are taken by name (key columns of thin files are left out).

        Raises InvalidInputError for a null in a column that is NOT NULL: merges make one where a retraction
        takes the only value. Some formats would store it as another value.
        """
        stored = stored_columns(batch, self._schema)
        self._check_not_null(stored)
        start = 0
        for length in slices(batch, self._spec.target_size):
            self._write_slice(batch.slice(start, length), stored.slice(start, length))
            start += length

    def _check_not_null(self, stored: pa.RecordBatch) -> None:
        for column, values in zip(self._schema, stored.columns, strict=True):
            if not column.nullable and values.null_count:
                row = stored.slice(first_null(values), 1)
                keys = [name for name in self._spec.schema.primary_keys if name in stored.schema.names]
                place = "a row" if not keys else f"the row of key {row.select(keys).to_pylist()[0]}"
                raise InvalidInputError(
                    f"column {column.name} is NOT NULL, but {place} has no value there: it was nullable when "
                    "the row was written, or a function of aggregation or partial-update took the only value "
                    "back; let the column be nullable"
                )

    def begin_close(self) -> None:
        """Begin to encode the last rows where another thread does that; `close` must follow."""
        if self._current is not None and isinstance(self._current.writer, ParquetWriter):
            self._current.writer.begin_close()

    def close(self) -> tuple[DataFile, ...]:
        """Finish the last file. It returns the files in the order in which they were written."""
        self._roll()
        return tuple(self._files)

    def abort(self) -> None:
        """Remove everything that this writer created. It may follow `close`, and be repeated."""
        paths, self._paths = self._paths, []
        self._files.clear()
        current, self._current = self._current, None
        remove_created(self._file_io, [] if current is None else [(current.name, current.writer)], paths)

    @cached_property
    def _shaper(self) -> Shredder | None:
        rules = self._spec.rules
        return shredder_for(self._spec.row_type, self._spec.options, rules.format, rules.compression)

    def _write_slice(self, batch: pa.RecordBatch, stored: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._current is None:
            self._current = self._open()
        self._current.writer.write(stored)
        self._current.summary.add(batch)
        self._current.index.add(stored)
        self._current.packs |= referenced_packs(stored, self._spec.managed)
        if self._is_full(self._current.writer):
            self._roll()

    def _is_full(self, writer: DataFileWriter) -> bool:
        """Return whether the file has its target size; before that is believed, row groups that are being
        encoded are waited for.
        """
        target = self._spec.target_size
        if writer.size_estimate >= target and isinstance(writer, ParquetWriter):
            writer.settle()
        return writer.size_estimate >= target

    def _open(self) -> _OpenFile:
        spec = self._spec
        number = self._index if self._number is None else self._number()
        name = f"{spec.name_prefix}-{number}{spec.infix}.{spec.rules.extension}"
        path = spec.path(name)
        self._index += 1
        self._paths.append(path)
        options = WriterOptions.from_options(spec.options, spec.rules.compression)
        kind = spec.rules.format
        if self._shaper is None:
            writer = open_writer(self._file_io, path, kind, self._schema, options, self._encoders)
        else:
            writer = open_shredding_writer(self._file_io, path, kind, self._shaper, options)
        summary = FileSummary(spec.bounds_type) if spec.keyed else FileSummary(None, self._sequence)
        return _OpenFile(name, writer, summary, FileIndexBuilder(spec.indexes))

    def _roll(self) -> None:
        """Finish the open file. `_current` is kept until the file is whole, so that `abort` still knows a
        failed one.
        """
        if self._current is None:
            return
        written_file = self._current.writer.close()
        summary = self._current.summary
        file = data_file(self._spec, self._current.name, written_file, summary, self._creation_time())
        indexed = self._store_index(file, self._current.index)
        self._files.append(self._referring(indexed, self._current.packs))
        self._sequence += summary.row_count
        self._current = None

    def _store_index(self, file: DataFile, index: FileIndexBuilder) -> DataFile:
        """Store indexes. Rule of the format: those above a threshold go to a file beside the data file,
        others into its description.
        """
        if not self._spec.indexes:
            return file
        data = index.encode()
        if len(data) <= IN_MANIFEST.read(self._spec.options):
            return replace(file, embedded_index=data)
        name = f"{file.file_name}{INDEX_SUFFIX}"
        path = self._spec.extra_path(file.file_name, name)
        self._paths.append(path)
        self._file_io.write_new(path, data)
        return replace(file, extra_files=(name,))

    def _referring(self, file: DataFile, packs: set[Pack]) -> DataFile:
        """Record the packs. Rule of the format: a file that refers to no pack records that, too."""
        if not self._spec.managed:
            return file
        name = f"{file.file_name}{REFERENCES_SUFFIX}"
        path = self._spec.extra_path(file.file_name, name)
        self._paths.append(path)
        self._file_io.write_new(path, encode_packs(packs))
        return replace(file, extra_files=(*file.extra_files, name))

    def _creation_time(self) -> int:
        """Return the creation time. Rule of the format: the writer's local wall clock, as if it were UTC."""
        return local_ms(self._now_ms())


@dataclass(slots=True)
class _OpenFile:
    name: str
    writer: DataFileWriter
    summary: FileSummary
    index: FileIndexBuilder
    packs: set[Pack] = field(default_factory=set)


class _SizedBatch(Protocol):
    num_rows: int
    nbytes: int


def slices(batch: _SizedBatch, target_size: int) -> list[int]:
    """Return the lengths of the parts between two checks of the file's size: several checks for every
    file.
    """
    step = batch.num_rows
    if batch.nbytes * _CHECKS_PER_FILE > target_size:
        step = max(_MIN_SLICE, batch.num_rows * target_size // (batch.nbytes * _CHECKS_PER_FILE))
    full, rest = divmod(batch.num_rows, max(step, 1))
    return [step] * full + ([rest] if rest else [])


def stored_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, by name and in its types; key columns of thin files are left out."""
    names = set(batch.schema.names)
    columns: list[Any] = []
    for one in schema:
        source = one.name
        if source not in names:
            source = source.removeprefix(KEY_PREFIX)
        column = batch.column(source)
        columns.append(column if column.type == one.type else column.cast(one.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
