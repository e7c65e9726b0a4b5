"""This module writes Parquet data files with page index, aligned pages, dictionaries where they pay, and
INT96 above microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakecore.errors import UnsupportedError
from lakecore.format.bounds import FloatFlags, parquet_bounds
from lakecore.format.parquet import int96 as parquet_int96
from lakecore.format.parquet.not_null import fill_null_rows, has_not_null_fields
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import OutputFile

__all__ = ["ParquetWriter"]

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "none": "none",
    "uncompressed": "none",
}
_ROW_GROUP_BYTES = 32 << 20
_ROW_GROUP_ROWS = 1 << 20
_PAGE_BYTES = 2 << 20
_BUFFER_BYTES = 1 << 20  # pages have some 30 KB, and each would be a call into Python and one to the system
_PAGE_ROWS = (1, 20_000)
_SAMPLE_ROWS = 1 << 13
_DICTIONARY_SHARE = 0.2
_DICTIONARY_TYPES = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_floating,
)


class ParquetWriter:
    """It writes one parquet file. It holds the batches of one row group: some 32 MB of rows, or option
    file.block-size.
    """

    def __init__(self, output: OutputFile, schema: pa.Schema, options: WriterOptions) -> None:
        if options.compression not in _CODECS:
            raise UnsupportedError(
                f"option file.compression={options.compression!r}: parquet files take " + ", ".join(_CODECS)
            )
        self._output = output
        self._schema = schema
        self._options = options
        self._int96 = any(parquet_int96.has_nanos(field.type) for field in schema)
        self._stored = parquet_int96.stored_schema(schema) if self._int96 else schema
        self._sink: Any = parquet_int96.FooterSink(output) if self._int96 else output
        self._required = any(has_not_null_fields(field.type) for field in schema)
        self._footers: list[Any] = []
        self._marks = FloatFlags(schema)
        self._nulls = [0] * len(schema)
        self._rows = 0
        self._open: _Encoder | None = None

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

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        self._encoder().close()
        if self._int96:
            self._sink.finish()
        size = self._output.tell()
        self._output.close()
        bounds = parquet_bounds(self._footers[0], self._stored, self._nulls, self._marks)
        return WrittenFile(size, self._rows, bounds)

    def abort(self) -> None:
        """Remove what was written."""
        if self._open is not None:
            self._open.abandon()
        self._output.abort()

    def _encoder(self, first: pa.RecordBatch | None = None) -> _Encoder:
        if self._open is None:
            first = pa.RecordBatch.from_pylist([], schema=self._stored) if first is None else first
            self._open = _Encoder(self._sink, self._stored, self._options, first, self._footers)
        return self._open


class _Encoder:
    """pyarrow's writer with the layout that the first batch suggests, and the rows of the open row group."""

    def __init__(
        self,
        sink: Any,
        schema: pa.Schema,
        options: WriterOptions,
        first: pa.RecordBatch,
        footers: list[Any],
    ) -> None:
        self._sink = _CountingSink(sink)
        whole = isinstance(sink, parquet_int96.FooterSink)  # it looks at each piece that the writer writes
        self._buffer = (
            None if whole else pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _BUFFER_BYTES)
        )
        sample = first.slice(0, _SAMPLE_ROWS)
        codec = _CODECS[options.compression]
        dictionary = options.dictionary_columns
        use_dictionary = _worth_dictionary(sample) if dictionary is None else dictionary
        self._arguments = {
            "compression": codec,
            "compression_level": options.zstd_level if codec == "zstd" else None,
            "use_dictionary": list(use_dictionary),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
            "write_time_adjusted_to_utc": True,
            "max_rows_per_page": _page_rows(sample),
            "data_page_size": _PAGE_BYTES * 4,
        }
        self._group_bytes = options.block_size or _ROW_GROUP_BYTES
        target = self._buffer or self._sink
        self._writer = pq.ParquetWriter(target, schema, metadata_collector=footers, **self._arguments)
        self._schema = schema
        self._sample: pa.RecordBatch | None = sample
        self._ratio = 0.0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0
        self._encoded_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch. Batches wait until a row group is full, because pyarrow makes a row group of what it
        is given at once.
        """
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._waiting_bytes >= self._group_bytes or self._waiting_rows >= _ROW_GROUP_ROWS:
            self._flush()

    @property
    def size_estimate(self) -> int:
        if self._waiting_bytes == 0:
            return self._sink.written
        return self._sink.written + int(self._waiting_bytes * self._known_ratio())

    def note(self, key: bytes, value: bytes) -> None:
        self._writer.add_key_value_metadata({key: value})

    def close(self) -> None:
        if self._waiting or not self._encoded_bytes:
            self._flush()
        self._writer.close()
        self._drain()

    def abandon(self) -> None:
        """Mark the file as closed: otherwise pyarrow finishes it when its writer is deleted, and prints
        errors of that.
        """
        self._writer.is_open = False
        self._sink.closed = True

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._encoded_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
        self._writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        self._drain()
        self._ratio = self._sink.written / max(self._encoded_bytes, 1)
        self._sample = None

    def _drain(self) -> None:
        if self._buffer is not None:
            self._buffer.flush()

    def _known_ratio(self) -> float:
        """Return encoded bytes per byte in memory; before the first row group is done, the ratio is taken
        from the first rows.
        """
        if not self._ratio and self._sample is not None:
            sink = pa.BufferOutputStream()
            with pq.ParquetWriter(sink, self._schema, **self._arguments) as writer:
                writer.write_batch(self._sample)
            self._ratio = sink.tell() / max(self._sample.nbytes, 1)
        return self._ratio


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


def _worth_dictionary(sample: pa.RecordBatch) -> list[str]:
    """Return the columns that repeat themselves, with few distinct values among the first rows; for rows,
    paths of fields.
    """
    return [
        path
        for name, column in zip(sample.schema.names, sample.columns, strict=True)
        for path, leaf in _fields(name, column)
        if any(of(leaf.type) for of in _DICTIONARY_TYPES)
        and pc.count_distinct(leaf).as_py() <= _DICTIONARY_SHARE * sample.num_rows
    ]


def _fields(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield path, column
        return
    for i, field in enumerate(column.type):
        yield from _fields(f"{path}.{field.name}", column.field(i))


def _page_rows(sample: pa.RecordBatch) -> int:
    """Return the rows of a page, the same number in all columns, so that pages align. A reader has a decoded
    page of every column in memory, a merge has that of every run: together they stay near 2 MB per run.
    """
    width = sample.nbytes // max(sample.num_rows, 1) + 1
    return int(min(max(_PAGE_BYTES // width, _PAGE_ROWS[0]), _PAGE_ROWS[1]))
