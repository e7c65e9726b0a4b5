"""This module writes rows of one bucket of an append table, in the order they came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from lakecore.format.encoders import Encoders
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.write.files.dedicated_files import DedicatedFiles, open_files
from lakecore.write.files.rolling import FileSpec, RollingWriter
from lakecore.write.rows.incoming import Rows

__all__ = ["AppendWriter"]

_BUFFER_BYTES = 8 << 20


class AppendWriter:
    """It collects rows until they are worth a call of the file writer: a file may be one of a thousand
    open.
    """

    def __init__(
        self,
        file_io: FileIO,
        spec: FileSpec,
        now_ms: Callable[[], int],
        root: str = "",
        encoders: Encoders | None = None,
    ) -> None:
        """Create the writer. `root` is the path of the table."""
        self._encoders = encoders
        self._root = root
        self._file_io = file_io
        self._spec = spec
        self._now_ms = now_ms
        self._batches: list[pa.RecordBatch] = []
        self._current: RollingWriter | DedicatedFiles | None = None
        self._files: list[DataFile] = []
        self._writers: list[RollingWriter | DedicatedFiles] = []
        self.buffered = 0

    @property
    def holds_file(self) -> bool:
        """Return whether `park` would close a file."""
        return self._current is not None

    def write(self, rows: Rows) -> None:
        self._batches.append(rows.batch)
        self.buffered += rows.batch.nbytes
        if self.buffered >= _BUFFER_BYTES:
            self.empty_buffer()

    def empty_buffer(self) -> None:
        """Empty the buffer into the open file, or into a new one."""
        if not self._batches:
            return
        if self._current is None:
            self._current = open_files(self._file_io, self._spec, self._now_ms, self._root, self._encoders)
            self._writers.append(self._current)
        batches, self._batches, self.buffered = self._batches, [], 0
        self._current.write(batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def close_open_files(self) -> None:
        """Close the open file; later rows start another."""
        if self._current is None:
            return
        files = self._current.close()
        self._files.extend(files)
        self._spec = replace(
            self._spec,
            first_index=self._spec.first_index + self._current.files_started,
            first_sequence=self._spec.first_sequence + sum(file.row_count for file in files),
        )
        self._current = None

    def begin_close(self) -> None:
        """Begin to encode the last rows where another thread does that; `close` must follow."""
        self.empty_buffer()
        if isinstance(self._current, RollingWriter):
            self._current.begin_close()

    def close(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Finish the files. It returns (data files, changelog files) of all rows."""
        self.empty_buffer()
        self.close_open_files()
        return tuple(self._files), ()

    def abort(self) -> None:
        """Remove every file. It may follow `close`."""
        self._batches.clear()
        for writer in self._writers:
            writer.abort()
        self._current = None
