"""Arrow batches to a data file of format `row` (`row_reader` has its layout), which has no statistics."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from backports import zstd

from lakecore.format.arrow_nested import view_as
from lakecore.format.bounds import ColumnBounds
from lakecore.format.row.encoding import Pieces, encode_rows
from lakecore.format.row.reader import FOOTER, MAGIC, VERSION
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import OutputFile

__all__ = ["RowWriter"]

_BLOCK_BYTES = 64 << 10
_PART_BYTES = 4 << 20


class RowWriter:
    """It writes one file. It always uses zstd (rule of the format), and holds one open block and the
    encoded rows of some 4 MB.
    """

    def __init__(self, output: OutputFile, schema: pa.Schema, options: WriterOptions) -> None:
        self._output = output
        self._schema = schema
        self._zstd: dict[int, int] = {
            zstd.CompressionParameter.compression_level: options.zstd_level,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._block_bytes = options.block_size or _BLOCK_BYTES
        self._rest = Pieces(np.zeros(0, np.uint8), np.zeros(0, np.int64))
        self._blocks: list[tuple[int, int, int]] = []  # bytes stored, bytes, first row
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are those of the schema, in its order."""
        step = max(_PART_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
        for at in range(0, batch.num_rows, step):
            part = batch.slice(at, step)
            columns = [view_as(col, kind) for col, kind in zip(part.columns, self._schema.types, strict=True)]
            rows = encode_rows(columns, part.num_rows)
            data = np.concatenate([self._rest.data, rows.data])
            self._rest = Pieces(data, np.concatenate([self._rest.sizes, rows.sizes]))
            self._write_blocks()

    @property
    def size_estimate(self) -> int:
        """Return the bytes written, and a quarter of the open block."""
        return sum(block[0] for block in self._blocks) + len(self._rest.data) // 4

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        if len(self._rest.sizes):
            self._write_block(self._rest)
        at = self._output.tell()
        index = b"".join(
            _varint(len(packed)) + packed
            for i in range(3)
            for packed in [_deltas([b[i] for b in self._blocks])]
        )
        self._output.write(index)
        self._output.write(FOOTER.pack(self._rows, len(self._blocks), at, len(index), VERSION, MAGIC))
        size = self._output.tell()
        self._output.close()
        return WrittenFile(size, self._rows, {name: ColumnBounds() for name in self._schema.names})

    def abort(self) -> None:
        """Remove what was written."""
        self._output.abort()

    def _write_blocks(self) -> None:
        """Write every block that has reached its size; the rows after them wait."""
        rows = self._rest
        ends = np.cumsum(rows.sizes)
        weights = ends + 4 * np.arange(1, len(ends) + 1) + 4
        first = before = 0
        while True:
            weight = int(weights[first - 1]) - 4 if first else 0
            last = int(np.searchsorted(weights, weight + self._block_bytes))
            if last >= len(ends):
                break
            self._write_block(Pieces(rows.data[before : ends[last]], rows.sizes[first : last + 1]))
            first, before = last + 1, int(ends[last])
        self._rest = Pieces(rows.data[before:], rows.sizes[first:])

    def _write_block(self, rows: Pieces) -> None:
        places = (np.cumsum(rows.sizes) - rows.sizes).astype("<i4")
        data = rows.data.tobytes() + places.tobytes() + struct.pack("<i", len(places))
        packed = zstd.compress(data, options=self._zstd)
        self._output.write(packed)
        self._blocks.append((len(packed), len(data), self._rows))
        self._rows += len(places)


def _deltas(numbers: list[int]) -> bytes:
    """Return the differences as zigzag varints."""
    steps = [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
    return b"".join(_varint(step << 1 if step >= 0 else (-step << 1) - 1) for step in steps)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
