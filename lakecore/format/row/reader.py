"""This module reads data files of format `row`: blocks of whole rows, for lookups by the number of a row.

Spec, all little-endian: blocks, each one zstd frame; the index; a footer of 32 bytes. The index is three
lists, each with a varint of its length in bytes in front: compressed sizes, sizes and first rows of the
blocks, as differences in zigzag varints. The footer: rows (int64), blocks (int32), where the index begins
(int64), its length (int32), the version (one byte, then three of nothing), the magic number. A block: the
rows, then an int32 for each with its place in the block, then the number of rows.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from backports import zstd

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.row.columns import Bytes, Ints, decode_columns
from lakecore.fs.file_io import FileIO
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import RowType

__all__ = ["FOOTER", "MAGIC", "VERSION", "RowReader"]

FOOTER = struct.Struct("<qiqiB3xI")
MAGIC, VERSION = 0x524F5753, 1
_INT = struct.Struct("<i")
_EXPANSION = 4


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The place of each block, its sizes in the file and in memory, and its rows."""

    starts: Ints
    packed: Ints
    sizes: Ints
    rows: Ints


class RowReader:
    """It reads one file. It decodes all fields up to the last wanted one, with some numpy calls per field
    and batch.
    """

    row_groups = 1

    def __init__(self, file_io: FileIO, path: str, columns: RowType | None) -> None:
        """Open the file. `columns` are those it stores (`row_layout`); None: only its counts are needed."""
        self._path = path
        self._fields = [] if columns is None else [(field.name, field.type) for field in columns.fields]
        self._source = file_io.open_input(path)
        self.schema = pa.schema([(name, arrow_type(kind)) for name, kind in self._fields])
        try:
            with corrupt_data_errors(path):
                self.num_rows, self._blocks = _open(self._source, path)
        except BaseException:
            self._source.close()
            raise

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """Return the bytes of a row by the size of the blocks, of whole rows; decoding takes several times as
        much.
        """
        return int(self._blocks.sizes.sum()) * _EXPANSION // max(self.num_rows, 1) + 1

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order; see DataFileReader."""
        if row_groups is not None and len(row_groups) == 0:
            return
        names = list(self.schema.names if columns is None else columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        with corrupt_data_errors(self._path):
            for data, rows, ends in self._runs(batch_size):
                for at in range(0, len(rows), batch_size):
                    part = slice(at, at + batch_size)
                    yield self._batch(data, rows[part], ends[part], schema)

    def close(self) -> None:
        self._source.close()

    def _batch(self, data: Bytes, rows: Ints, ends: Ints, schema: pa.Schema) -> pa.RecordBatch:
        if not len(schema):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        try:
            arrays = decode_columns(data, (rows, ends), self._fields, schema.names)
        except OverflowError as err:
            raise UnsupportedError(
                f"{self._path}: {err} cannot be read with nanosecond precision; store such values with "
                "precision 6 or less"
            ) from err
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def _runs(self, batch_size: int) -> Iterator[tuple[Bytes, Ints, Ints]]:
        """Yield blocks of at least `batch_size` rows together, where their rows begin, and where these
        end.
        """
        parts: list[Bytes] = []
        starts: list[Ints] = []
        ends: list[Ints] = []
        size = count = 0
        for number in range(len(self._blocks.rows)):
            data = self._block(number)
            rows = int(self._blocks.rows[number])
            end = len(data) - _INT.size
            if _INT.unpack_from(data, end)[0] != rows or rows * _INT.size > end:
                raise ValueError(f"block {number} does not have the {rows} rows that the index records")
            at = np.frombuffer(data, "<i4", rows, end - rows * _INT.size).astype(np.int64)
            after = np.append(at, end - rows * _INT.size)
            if rows and (at[0] < 0 or (np.diff(after) <= 0).any()):
                raise ValueError(f"block {number} has a row outside of it, or before the previous row")
            parts.append(np.frombuffer(data, np.uint8))
            starts.append(at + size)
            ends.append(after[1:] + size)
            size, count = size + len(data), count + rows
            if count >= batch_size or number == len(self._blocks.rows) - 1:
                yield np.concatenate(parts), np.concatenate(starts), np.concatenate(ends)
                parts, starts, ends, size, count = [], [], [], 0, 0

    def _block(self, number: int) -> bytes:
        self._source.seek(int(self._blocks.starts[number]))
        packed = self._source.read(int(self._blocks.packed[number]))
        size = int(self._blocks.sizes[number])
        frame = zstd.ZstdDecompressor()
        data = frame.decompress(packed, max_length=size + 1)  # (one more, so that it looks at the checksum)
        if len(data) != size or size < _INT.size or not frame.eof:
            raise ValueError(f"block {number} has {len(data)} bytes, but the index records {size}")
        return data


def _open(source: Any, path: str) -> tuple[int, _Blocks]:
    size = int(source.size())
    if size < FOOTER.size:
        raise ValueError(f"it has {size} bytes, too few for a file of format row")
    source.seek(size - FOOTER.size)
    rows, count, index_at, index_size, version, magic = FOOTER.unpack(source.read(FOOTER.size))
    if magic != MAGIC:
        raise ValueError("it is not a file of format row: it does not end with the magic number")
    if version != VERSION:
        raise UnsupportedError(
            f"{path}: the file has version {version} of format row, but this release reads version 1"
        )
    if min(index_at, index_size) < 0 or index_at + index_size + FOOTER.size > size:
        raise ValueError("its index lies outside of the file")
    source.seek(index_at)
    packed, sizes, firsts = _lists(source.read(index_size))
    if not len(packed) == len(sizes) == len(firsts) == count or rows < 0:
        raise ValueError(f"its index does not have the {count} blocks that its footer records")
    ends, row_counts = np.cumsum(packed), np.diff(np.append(firsts, rows))
    odd = count and (min(packed.min(), sizes.min(), row_counts.min()) < 0 or packed.max() > index_at)
    if count and (odd or ends[-1] > index_at or firsts[0] != 0):
        raise ValueError("its index names blocks that do not exist")
    return int(rows), _Blocks(ends - packed, packed, sizes, row_counts)


def _lists(data: bytes) -> Iterator[Ints]:
    at = 0
    for _ in range(3):
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("its index is cut off")
        yield _numbers(data[at : at + length])
        at += length


def _numbers(data: bytes) -> Ints:
    """Return the numbers whose differences are zigzag varints."""
    raw = np.frombuffer(data, np.uint8).astype(np.uint64)
    last = np.flatnonzero(raw < 128)
    if not len(raw):
        return np.zeros(0, np.int64)
    if not len(last) or last[-1] != len(raw) - 1:
        raise ValueError("its index is cut off")
    first = np.append(0, last[:-1] + 1)
    shift = np.arange(len(raw)) - np.repeat(first, last - first + 1)
    if shift.max() > 9:
        raise ValueError("a number takes more than ten bytes")
    parts = (raw & np.uint64(127)) << (shift * 7).astype(np.uint64)
    zigzag = np.add.reduceat(parts, first)
    deltas = (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)
    return np.cumsum(deltas)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
