"""This module writes ORC data files. TIME is stored as int; instants as `timestamp with local time zone`,
not shifted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakecore.errors import UnsupportedError
from lakecore.format.arrow_nested import view_as
from lakecore.format.bounds import ArrowBounds
from lakecore.format.orc.footers import read_tail
from lakecore.format.orc.stripes import BufferedTail, OrcStripes, is_early
from lakecore.format.orc.tail import with_footer_metadata
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import OutputFile
from lakecore.types.arrow import FIELD_ID_KEY

__all__ = ["OrcWriter"]

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "zlib": "zlib",
    "lz4": "lz4",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
_STRIPE_BYTES = 64 << 20
_ID_KEY = b"paimon.id"
_RATIO = 0.5
_DICTIONARY_SHARE = 0.8


class OrcWriter:
    """It writes one ORC file and holds one stripe. From the first time on that pyarrow stores as Java
    cannot read it, stripes are made by `orc_stripes`.
    """

    def __init__(self, output: OutputFile, schema: pa.Schema, options: WriterOptions) -> None:
        if options.compression not in _CODECS:
            raise UnsupportedError(
                f"option file.compression={options.compression!r}: orc files take " + ", ".join(_CODECS)
            )
        self._output = output
        self._stored = pa.schema([_stored_field(field) for field in schema])
        self._bounds = ArrowBounds(schema)
        self._notes: dict[bytes, bytes] = {}
        self._rows = 0
        self._pending = 0
        self._position = 0
        self._sink = _Sink(output)
        self._codec = _CODECS[options.compression]
        self._stripe_bytes = options.block_size or _STRIPE_BYTES
        self._writer = self._make(self._sink, self._stripe_bytes)
        self._stripes: OrcStripes | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are those of the schema, in its order."""
        columns = [
            view_as(_whole(column), field.type)
            for column, field in zip(batch.columns, self._stored, strict=True)
        ]
        if self._stripes is None and any(map(is_early, columns)):
            self._stripes = self._split()
        self._bounds.add(batch)
        self._rows += batch.num_rows
        if self._stripes is not None:
            self._stripes.add(pa.RecordBatch.from_arrays(columns, schema=self._stored))
            return
        self._writer.write(pa.Table.from_arrays(columns, schema=self._stored))
        self._sink.check()
        self._note(batch.nbytes)

    def note(self, key: bytes, value: bytes) -> None:
        """Put a key and its value into the footer. The last stripe is then in memory once more."""
        self._notes[key] = value

    @property
    def size_estimate(self) -> int:
        """Return the bytes written, and half of what waits in memory for its stripe."""
        if self._stripes is not None:
            return self._stripes.written + int(self._stripes.pending * _RATIO)
        return self._sink.written + int(self._pending * _RATIO)

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        if self._stripes is not None:
            end = self._stripes.end()
            self._output.write(with_footer_metadata(end, self._notes) if self._notes else end)
        elif self._notes:
            self._output.write(with_footer_metadata(self._last_bytes(), self._notes))
        else:
            self._end()
        size = self._output.tell()
        self._output.close()
        return WrittenFile(size, self._rows, self._bounds.finish())

    def abort(self) -> None:
        """Remove what was written."""
        self._writer.is_open = False  # or pyarrow finishes the file, and prints what goes wrong with that
        if self._stripes is not None:
            self._stripes.abort()
        self._output.abort()

    def _make(self, sink: Any, stripe_bytes: int) -> Any:
        return orc.ORCWriter(
            sink,
            compression=self._codec,
            stripe_size=stripe_bytes,
            dictionary_key_size_threshold=_DICTIONARY_SHARE,
        )

    def _end(self) -> None:
        if self._rows == 0:
            self._writer.write(self._stored.empty_table())
        self._writer.close()
        self._sink.check()

    def _last_bytes(self) -> bytes:
        """Return the last stripe and the end of the file, which are not written."""
        self._sink.hold()
        self._end()
        return self._sink.pending()

    def _split(self) -> OrcStripes:
        """End the stripe."""
        start = self._sink.written
        rows = self._last_bytes()
        head = read_tail(BufferedTail(start, rows))
        self._output.write(rows[: head.start - start])
        return OrcStripes(self._output.write, head, self._make, self._stripe_bytes)

    def _note(self, size: int) -> None:
        """Count the bytes that wait for their stripe. A stripe that reached the sink no longer waits."""
        self._pending = 0 if self._sink.written > self._position else self._pending + size
        self._position = self._sink.written


class _Sink:
    """The file pyarrow writes to: it must not close the output, which can still be aborted.

    A failure is kept for `check`: pyarrow's ORC writer ends the process when a sink raises while it closes.
    """

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._failure: Exception | None = None
        self._buffer: list[bytes] | None = None
        self.written = 0

    def write(self, data: Any) -> int:
        size = len(data)
        self.written += size
        if self._buffer is not None:
            self._buffer.append(bytes(data))
        elif self._failure is None:
            try:
                self._output.write(data)
            except Exception as err:  # noqa: BLE001 - raised again by `check`
                self._failure = err
        return size

    def hold(self) -> None:
        """Keep what is written from now on."""
        self._buffer = []

    def pending(self) -> bytes:
        return b"".join(self._buffer or ())

    def check(self) -> None:
        """Raise what storage raised."""
        if self._failure is not None:
            raise self._failure

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the file's writer closes the output."""


def _whole(column: pa.Array) -> pa.Array:
    """Return a copy if a row type in the column is a slice, because pyarrow's ORC writer takes nulls of other
    rows for its own.
    """
    return column.take(pa.array(np.arange(len(column)))) if _is_cut(column) else column


def _is_cut(column: pa.Array) -> bool:
    data_type = column.type
    if pa.types.is_struct(data_type):
        return column.offset > 0 or any(_is_cut(column.field(i)) for i in range(data_type.num_fields))
    if pa.types.is_map(data_type):
        return _is_cut(column.keys) or _is_cut(column.items)
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return _is_cut(column.values)
    return False


def _stored_field(field: pa.Field) -> pa.Field:
    """Return the field as ORC stores it: field ids are attributes in ORC, and ORC has no TIME."""
    ids = {_ID_KEY: field.metadata[FIELD_ID_KEY]} if field.metadata else None
    return pa.field(field.name, _stored_type(field.type), field.nullable, ids)


def _stored_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_time(data_type):
        return pa.int32()
    if pa.types.is_struct(data_type):
        return pa.struct([_stored_field(field) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_stored_field(data_type.key_field), _stored_field(data_type.item_field))
    if pa.types.is_fixed_size_list(data_type) or pa.types.is_list(data_type):
        return pa.list_(_stored_field(data_type.value_field))
    return data_type
