"""This module encodes the row groups of one parquet file in several threads, each as a file in memory, and
writes them one behind the other: the file has the row groups that one thread would write.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from lakecore.format.encoders import Encoders
from lakecore.format.parquet.layout import FileLayout, GroupRows
from lakecore.format.parquet.splice.footer import read_splice_footer
from lakecore.format.parquet.splice.writer import SpliceWriter
from lakecore.fs.whole_file import BytesSource

__all__ = ["GroupEncoder"]

_WORTH_BYTES = 1 << 20
"""The bytes in memory that take some milliseconds to encode: a thread for less would not end earlier."""
_BLOCK = 4 << 20

_Encoded = tuple[bytes, Any]
"""A whole file with some rows, and its footer as pyarrow's metadata."""


class GroupEncoder:
    """It holds the rows of the next row group, the row groups that are being encoded, and the encoded bytes
    of the first row group, until it knows whether that is the whole file.

    `sink` is written to in the thread that calls, here or in a method of another user of `encoders`.
    """

    def __init__(self, sink: Any, layout: FileLayout, first: pa.RecordBatch, encoders: Encoders) -> None:
        self._sink = sink
        self._layout = layout
        self._encoders = encoders
        self._rows = GroupRows(layout, first)
        self._begun_bytes = 0
        self._taken_bytes = 0
        self._encoded_bytes = 0
        self._first = b""
        self._splice: SpliceWriter | None = None
        self._metadata: Any = None

    @property
    def metadata(self) -> Any:
        """Return the statistics of all row groups, once the file is closed, as pyarrow's metadata; offsets in
        it are not those of the file.
        """
        return self._metadata

    @property
    def size_estimate(self) -> int:
        """Return the bytes of what is encoded, and an estimate of the rest."""
        return self._encoded_bytes + self._rows.estimate(self._rows.bytes + self._begun_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch; a full row group begins to be encoded."""
        if self._rows.add(batch):
            self._begin()

    def note(self, key: bytes, value: bytes) -> None:
        """Raise ValueError, because every row group would need the note."""
        raise ValueError(f"a file of several threads takes no note {key!r}")

    def settle(self) -> None:
        """Wait for the row groups that are being encoded, so that `size_estimate` knows them."""
        self._encoders.finish(self)

    def begin_close(self) -> None:
        """Begin to encode the last row group; no rows may follow. A small one is encoded at once."""
        is_busy = self._encoders.is_busy_for(self)
        if not self._rows and (is_busy or self._metadata is not None):
            return
        if self._rows.bytes >= _WORTH_BYTES or is_busy:
            self._begin()
            return
        rows, size = self._rows.take()
        self._begun_bytes += size
        self._take(size, _encode(self._layout, rows))

    def close(self) -> None:
        """Write what is left of the file to the sink."""
        self.begin_close()
        self.settle()
        if self._splice is None:
            for start in range(0, len(self._first), _BLOCK):
                self._sink.write(self._first[start : start + _BLOCK])
        else:
            self._splice.close()

    def abort(self) -> None:
        """Wait for the threads; nothing more is written."""
        self._encoders.drop(self)

    def _begin(self) -> None:
        rows, size = self._rows.take()
        self._encoders.begin(self, partial(_encode, self._layout, rows), partial(self._take, size))
        self._begun_bytes += size

    def _take(self, size: int, encoded: _Encoded) -> None:
        data, metadata = encoded
        self._begun_bytes -= size
        self._taken_bytes += size
        self._encoded_bytes += _page_bytes(metadata)
        self._rows.set_ratio(self._encoded_bytes, self._taken_bytes)
        if self._metadata is None:
            self._first, self._metadata = data, metadata
            return
        self._metadata.append_row_groups(metadata)
        if self._splice is None:
            self._splice = SpliceWriter(self._sink)
            self._add(self._splice, self._first)
            self._first = b""
        self._add(self._splice, data)

    def _add(self, splice: SpliceWriter, data: bytes) -> None:
        source = BytesSource(data)
        splice.add(source, read_splice_footer(source, "encoded rows"))


def _page_bytes(metadata: Any) -> int:
    """Return the bytes of all pages: the rest of a file in memory does not go into the file on storage."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    columns = (group.column(leaf) for group in groups for leaf in range(metadata.num_columns))
    return sum(column.total_compressed_size for column in columns)


def _encode(layout: FileLayout, rows: pa.Table) -> _Encoded:
    sink, footers = pa.BufferOutputStream(), list[Any]()
    with layout.open(sink, footers) as writer:
        layout.write_group(writer, rows)
    return sink.getvalue().to_pybytes(), footers[0]
