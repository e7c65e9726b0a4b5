"""This module writes rows of one bucket to files of ordinary columns, and blobs and vectors to files of their
own.

Rules of the format: an ordinary file and the blob and vector files of its rows are closed together, and
follow one another in the commit; each column of blobs, and all vectors, roll at a size of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from lakecore.clock import local_ms
from lakecore.format.blob.file import BlobWriter, Buffer
from lakecore.format.blob.lists import encode_blobs
from lakecore.format.encoders import Encoders
from lakecore.fs.file_io import FileIO
from lakecore.metadata.dedicated_columns import BLOB_AS_DESCRIPTOR, BLOB_FORMAT, DedicatedColumns, is_blob
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from lakecore.metadata.options import TableOptions
from lakecore.read.columns.blob_values import OpenSources
from lakecore.write.files.inline_blobs import check_references, check_views
from lakecore.write.files.removal import remove_created
from lakecore.write.files.rolling import FileSpec, RollingWriter, slices

__all__ = ["BlobFiles", "DedicatedFiles", "open_files"]

_NEVER = 1 << 62


def open_files(
    file_io: FileIO,
    spec: FileSpec,
    now_ms: Callable[[], int],
    root: str,
    encoders: Encoders | None = None,
) -> RollingWriter | DedicatedFiles:
    """Open the writer of an append table's files. `root` is the path of the table; `encoders` encode files
    that have all columns.
    """
    options = TableOptions.from_schema(replace(spec.schema, options=dict(spec.options)))
    dedicated = DedicatedColumns.of(spec.value_type, spec.options, options.target_file_size)
    if not options.data_evolution or not dedicated:
        return RollingWriter(file_io, spec, now_ms, encoders=encoders)
    return DedicatedFiles(file_io, spec, now_ms, dedicated, root)


class DedicatedFiles:
    """It writes like RollingWriter, whose promises and order of calls hold here too.

    Raises InvalidInputError for bytes where a column holds references, or views, only.
    """

    def __init__(
        self,
        file_io: FileIO,
        spec: FileSpec,
        now_ms: Callable[[], int],
        dedicated: DedicatedColumns,
        root: str,
    ) -> None:
        self._file_io = file_io
        self._spec = spec
        self._now_ms = now_ms
        self._dedicated = dedicated
        self._root = root
        self._index = spec.first_index
        self._main: RollingWriter | None = None
        self._vectors: RollingWriter | None = None
        self._blobs: dict[str, BlobFiles] = {}
        self._files: list[DataFile] = []
        self._writers: list[RollingWriter | BlobFiles] = []

    @property
    def files_started(self) -> int:
        return self._index - self._spec.first_index

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are taken by name."""
        start = 0
        for length in slices(batch, self._spec.target_size):
            self._write_slice(batch.slice(start, length))
            start += length

    def close(self) -> tuple[DataFile, ...]:
        """Finish the last files. It returns all of them, in the order of the commit."""
        self._roll()
        return tuple(self._files)

    def abort(self) -> None:
        """Remove everything that this writer created. It may follow `close`, and be repeated."""
        self._files.clear()
        for writer in self._writers:
            writer.abort()

    def _write_slice(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for name in self._dedicated.references:
            check_references(name, batch.column(name))
        for name in self._dedicated.views:
            check_views(name, batch.column(name))
        if self._main is None:
            self._main = self._open()
        self._main.write(batch)
        for name, files in self._blobs.items():
            if files.plain and BLOB_AS_DESCRIPTOR.read(self._spec.options):
                with OpenSources(self._file_io, self._root, name) as sources:
                    for value in batch.column(name).to_pylist():
                        files.write_record(None if value is None else sources.pieces_of(value))
            else:
                files.write(batch.column(name))
        if self._vectors is not None:
            self._vectors.write(batch)
        if self._main.open_size >= self._spec.target_size:
            self._roll()

    def _open(self) -> RollingWriter:
        chosen, spec = self._dedicated, self._spec
        ordinary = replace(spec, columns=chosen.ordinary, target_size=_NEVER, first_sequence=0)
        main = self._rolling(ordinary)
        self._blobs = {name: self._blob_files(name) for name in chosen.blobs}
        if chosen.vectors:
            beside = replace(ordinary, columns=chosen.vectors, infix=".vector", format=chosen.vector_format)
            self._vectors = self._rolling(replace(beside, target_size=chosen.vector_size))
        return main

    def _rolling(self, spec: FileSpec) -> RollingWriter:
        writer = RollingWriter(self._file_io, spec, self._now_ms, number=self._next_number)
        self._writers.append(writer)
        return writer

    def _blob_files(self, name: str) -> BlobFiles:
        size = self._dedicated.blob_size
        files = BlobFiles(self._file_io, self._spec, self._now_ms, name, size, self._next_number)
        self._writers.append(files)
        return files

    def _next_number(self) -> int:
        self._index += 1
        return self._index - 1

    def _roll(self) -> None:
        if self._main is None:
            return
        self._files += self._main.close()
        for files in self._blobs.values():
            self._files += files.close()
        if self._vectors is not None:
            self._files += self._vectors.close()
        self._main, self._blobs, self._vectors = None, {}, None


class BlobFiles:
    """It writes the blob files of one column, for the rows of an ordinary file. `size` is the target size
    in bytes.
    """

    def __init__(
        self,
        file_io: FileIO,
        spec: FileSpec,
        now_ms: Callable[[], int],
        column: str,
        size: int,
        number: Callable[[], int],
    ) -> None:
        self._file_io = file_io
        self._spec = spec
        self._now_ms = now_ms
        self._column = column
        self._size = size
        self._number = number
        self._kind = spec.schema.row_type.field(column).type
        self.plain = is_blob(self._kind)
        self._current: tuple[str, BlobWriter] | None = None
        self._files: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, column: pa.Array) -> None:
        """Append rows. Raises UnavailableError."""
        for value in column:
            if not value.is_valid:
                self.write_record(None)
            elif self.plain:
                self.write_record((memoryview(value.as_buffer()),))
            else:
                self.write_record((encode_blobs(value.as_py(), self._kind),))

    def write_record(self, pieces: Iterable[Buffer] | None) -> None:
        """Append a row as it is stored; None: a null."""
        if self._current is None:
            name = f"{self._spec.name_prefix}-{self._number()}.{BLOB_FORMAT}"
            path = f"{self._spec.directory}/{name}"
            self._paths.append(path)
            self._current = name, BlobWriter(self._file_io.open_output(path))
        writer = self._current[1]
        if pieces is None:
            writer.write([None])
        else:
            writer.write_pieces(pieces)
        if writer.size >= self._size:
            self._roll()

    def close(self) -> tuple[DataFile, ...]:
        self._roll()
        return tuple(self._files)

    def abort(self) -> None:
        self._files.clear()
        current, self._current = self._current, None
        paths, self._paths = self._paths, []
        remove_created(self._file_io, [] if current is None else [current], paths)

    def _roll(self) -> None:
        if self._current is None:
            return
        name, writer = self._current
        now = self._now_ms()
        self._files.append(
            DataFile(
                file_name=name,
                file_size=writer.close(),
                row_count=writer.rows,
                min_key=EMPTY_ROW,
                max_key=EMPTY_ROW,
                key_stats=EMPTY_STATS,
                value_stats=EMPTY_STATS,
                min_sequence_number=0,
                max_sequence_number=writer.rows - 1,
                schema_id=self._spec.schema.id,
                level=0,
                creation_time=local_ms(now),
                delete_row_count=0,
                file_source=self._spec.source,
                value_stats_cols=(),
                write_cols=(self._column,),
            )
        )
        self._current = None
