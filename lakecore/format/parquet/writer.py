"""This module writes Parquet data files with page index, aligned pages, dictionaries where they pay, and
INT96 above microseconds; with one thread or with several.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakecore.format.bounds import FloatFlags, parquet_bounds
from lakecore.format.encoders import Encoders
from lakecore.format.parquet import int96 as parquet_int96
from lakecore.format.parquet.group_encoder import GroupEncoder
from lakecore.format.parquet.layout import FileLayout, GroupRows, check_codec
from lakecore.format.parquet.not_null import fill_null_rows, has_not_null_fields
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import OutputFile

__all__ = ["ParquetWriter"]

_BUFFER_BYTES = 1 << 20  # pages have some 30 KB, and each would be a call into Python and one to the system


class ParquetWriter:
    """It writes one parquet file. It holds the batches of one row group: some 32 MB of rows, or option
    file.block-size; with `encoders` also those of the row groups that these encode.

    Files with INT96 columns are encoded by the calling thread.
    """

    def __init__(
        self,
        output: OutputFile,
        schema: pa.Schema,
        options: WriterOptions,
        encoders: Encoders | None = None,
    ) -> None:
        check_codec(options)
        self._output = output
        self._encoders = encoders
        self._schema = schema
        self._options = options
        self._int96 = any(parquet_int96.has_nanos(field.type) for field in schema)
        self._stored = parquet_int96.stored_schema(schema) if self._int96 else schema
        self._sink: Any = parquet_int96.FooterSink(output) if self._int96 else output
        self._required = any(has_not_null_fields(field.type) for field in schema)
        self._marks = FloatFlags(schema)
        self._nulls = [0] * len(schema)
        self._rows = 0
        self._open: _Encoder | GroupEncoder | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are those of the schema, in its order."""
        if batch.num_rows == 0:
            return
        self._marks.add(batch)
        self._nulls = [n + column.null_count for n, column in zip(self._nulls, batch.columns, strict=True)]
        self._rows += batch.num_rows
        stored = parquet_int96.stored_batch(batch, self._stored) if self._int96 else batch
        if self._required:
            stored = pa.RecordBatch.from_arrays(
                list(map(fill_null_rows, stored.columns)), schema=self._stored
            )
        self._encoder(stored).write(stored)

    def note(self, key: bytes, value: bytes) -> None:
        """Put a key and its value into the footer."""
        self._encoder().note(key, value)

    @property
    def size_estimate(self) -> int:
        """Return the bytes written, and what the open row group will add by the ratio seen so far."""
        return 0 if self._open is None else self._open.size_estimate

    def settle(self) -> None:
        """Wait for other threads that encode rows of the file, so that `size_estimate` is exact for them."""
        if isinstance(self._open, GroupEncoder):
            self._open.settle()

    def begin_close(self) -> None:
        """Begin to encode the last rows where another thread does that; `close` must follow."""
        if isinstance(self._open, GroupEncoder):
            self._open.begin_close()

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        encoder = self._encoder()
        encoder.close()
        if self._int96:
            self._sink.finish()
        size = self._output.tell()
        self._output.close()
        bounds = parquet_bounds(encoder.metadata, self._stored, self._nulls, self._marks)
        return WrittenFile(size, self._rows, bounds)

    def abort(self) -> None:
        """Remove what was written."""
        if self._open is not None:
            self._open.abort()
        self._output.abort()

    def _encoder(self, first: pa.RecordBatch | None = None) -> _Encoder | GroupEncoder:
        if self._open is None:
            first = pa.RecordBatch.from_pylist([], schema=self._stored) if first is None else first
            layout = FileLayout.of(self._stored, self._options, first)
            if self._encoders is None or self._int96:
                self._open = _Encoder(self._sink, layout, first)
            else:
                self._open = GroupEncoder(_CountingSink(self._sink), layout, first, self._encoders)
        return self._open


class _Encoder:
    """pyarrow's writer, which writes to the sink, and the rows of the open row group."""

    def __init__(self, sink: Any, layout: FileLayout, first: pa.RecordBatch) -> None:
        self._sink = _CountingSink(sink)
        whole = isinstance(sink, parquet_int96.FooterSink)  # it looks at each piece that the writer writes
        self._buffer = (
            None if whole else pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _BUFFER_BYTES)
        )
        self._layout = layout
        self._footers: list[Any] = []
        self._writer = layout.open(self._buffer or self._sink, self._footers)
        self._rows = GroupRows(layout, first)
        self._encoded_bytes = 0

    @property
    def metadata(self) -> Any:
        """Return the footer, once the file is closed."""
        return self._footers[0]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch. Batches wait until a row group is full, because pyarrow makes a row group of what it
        is given at once.
        """
        if self._rows.add(batch):
            self._flush()

    @property
    def size_estimate(self) -> int:
        return self._sink.written + self._rows.estimate(self._rows.bytes)

    def note(self, key: bytes, value: bytes) -> None:
        self._writer.add_key_value_metadata({key: value})

    def close(self) -> None:
        if self._rows or not self._encoded_bytes:
            self._flush()
        self._writer.close()
        self._drain()

    def abort(self) -> None:
        """Mark the file as closed: otherwise pyarrow finishes it when its writer is deleted, and prints
        errors of that.
        """
        self._writer.is_open = False
        self._sink.closed = True

    def _flush(self) -> None:
        table, size = self._rows.take()
        self._encoded_bytes += size
        self._layout.write_group(self._writer, table)
        self._drain()
        self._rows.set_ratio(self._sink.written, self._encoded_bytes)

    def _drain(self) -> None:
        if self._buffer is not None:
            self._buffer.flush()


class _CountingSink:
    """Counts what passes: `tell` of a sink may cost a call to storage. Once `closed`, what a buffer still
    holds is of an abandoned file.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        if self.closed:
            return len(data)
        self._sink.write(data)
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the file's writer closes the output."""
