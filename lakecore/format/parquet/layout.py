"""This module chooses how pyarrow lays out a parquet file: dictionaries where they pay, aligned pages of a
size that readers can hold, page indexes, checksums. No IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.format.writer_options import WriterOptions
from lakecore.row.binary_layout import MAX_COMPACT_DECIMAL

__all__ = ["FileLayout", "GroupRows", "check_codec"]

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
_PAGE_ROWS = (1, 20_000)
_SAMPLE_ROWS = 1 << 13
_DICTIONARY_SHARE = 0.2
_DICTIONARY_TYPES = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_floating,
)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """This is the layout of one file, which its first rows suggest."""

    schema: pa.Schema
    arguments: Mapping[str, Any]
    """These are the arguments of pyarrow's writer."""
    group_bytes: int
    """A row group is encoded once it has so many bytes in memory."""

    @classmethod
    def of(cls, schema: pa.Schema, options: WriterOptions, first: pa.RecordBatch) -> FileLayout:
        """Choose the layout by the first batch of a file."""
        sample = _sample(first)
        codec = _CODECS[options.compression]
        dictionary = options.dictionary_columns
        arguments = {
            "compression": codec,
            "compression_level": options.zstd_level if codec == "zstd" else None,
            "use_dictionary": list(_worth_dictionary(sample) if dictionary is None else dictionary),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
            "write_time_adjusted_to_utc": True,
            "max_rows_per_page": _page_rows(sample),
            "data_page_size": _PAGE_BYTES * 4,
        }
        return cls(schema, arguments, options.block_size or _ROW_GROUP_BYTES)

    def open(self, sink: Any, footers: list[Any] | None = None) -> pq.ParquetWriter:
        """Open pyarrow's writer, which adds the footer to `footers` when it closes."""
        return pq.ParquetWriter(sink, self.schema, metadata_collector=footers, **self.arguments)

    def write_group(self, writer: pq.ParquetWriter, rows: pa.Table) -> None:
        """Write the rows as a row group; as two, if they are more than a million."""
        writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)

    def is_group(self, rows: int, size: int) -> bool:
        """Return whether so many rows of `size` bytes are enough for a row group."""
        return size >= self.group_bytes or rows >= _ROW_GROUP_ROWS

    def sample_ratio(self, first: pa.RecordBatch) -> float:
        """Return how many bytes a byte of the first rows of a batch becomes. It costs their encoding."""
        sink, sample = pa.BufferOutputStream(), _sample(first)
        with self.open(sink) as writer:
            writer.write_batch(sample)
        return float(sink.tell() / max(sample.nbytes, 1))


class GroupRows:
    """These are the rows of the next row group of a file, and what a byte of its rows becomes in the file."""

    def __init__(self, layout: FileLayout, first: pa.RecordBatch) -> None:
        self._layout = layout
        self._sample: pa.RecordBatch | None = first
        self._ratio = 0.0
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self.bytes = 0
        """The rows have so many bytes in memory."""

    def __bool__(self) -> bool:
        """Return whether there are rows."""
        return bool(self._batches)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Add a batch, and return whether the rows are enough for a row group."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self.bytes += batch.nbytes
        return self._layout.is_group(self._rows, self.bytes)

    def take(self) -> tuple[pa.Table, int]:
        """Return the rows, and their bytes in memory; the next row group begins without rows."""
        rows, size = pa.Table.from_batches(self._batches, self._layout.schema), self.bytes
        self._batches, self._rows, self.bytes = [], 0, 0
        return rows, size

    def set_ratio(self, encoded: int, size: int) -> None:
        """Take that rows of `size` bytes in memory have become `encoded` bytes."""
        self._ratio, self._sample = encoded / max(size, 1), None

    def estimate(self, size: int) -> int:
        """Return how many bytes rows of `size` bytes become: before the first row group is encoded by the
        ratio of the first rows, which are encoded for it.
        """
        if size and self._sample is not None:
            self._ratio, self._sample = self._layout.sample_ratio(self._sample), None
        return int(size * self._ratio)


def check_codec(options: WriterOptions) -> None:
    """Raise UnsupportedError for a codec that parquet files do not have."""
    if options.compression not in _CODECS:
        raise UnsupportedError(
            f"option file.compression={options.compression!r}: parquet files take " + ", ".join(_CODECS)
        )


def _sample(first: pa.RecordBatch) -> pa.RecordBatch:
    return first.slice(0, _SAMPLE_ROWS)


def _worth_dictionary(sample: pa.RecordBatch) -> list[str]:
    """Return the columns that repeat themselves, with few distinct values among the first rows; for rows,
    paths of fields.
    """
    return [
        path
        for name, column in zip(sample.schema.names, sample.columns, strict=True)
        for path, leaf in _fields(name, column)
        if _may_have_dictionary(leaf.type)
        and pc.count_distinct(leaf).as_py() <= _DICTIONARY_SHARE * sample.num_rows
    ]


def _may_have_dictionary(kind: pa.DataType) -> bool:
    """Return whether values of a type may have a dictionary. Long decimals are stored as bytes: Java before
    2.0 looks for the value of a filter in their dictionary as bytes of another length, and so leaves out row
    groups that have it. In its own files they have none.
    """
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= MAX_COMPACT_DECIMAL)
    return any(of(kind) for of in _DICTIONARY_TYPES)


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
