"""This module writes Avro data files: it converts whole columns to raw Python values, then records through
fastavro.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.write import Writer

from lakecore.errors import UnsupportedError
from lakecore.format.avro.columns import decoding_schema
from lakecore.format.avro.reader import HEADER_SCHEMA
from lakecore.format.avro.types import avro_schema, raw_values
from lakecore.format.bounds import ArrowBounds
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import OutputFile

__all__ = ["AvroWriter"]

_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "none": "null",
    "null": "null",
    "uncompressed": "null",
}
_BLOCK_BYTES = 64_000
_MAGIC = b"Obj\x01"
_RECORDS = 1024


class AvroWriter:
    """It writes one avro container. It costs some microseconds per value."""

    def __init__(self, output: OutputFile, schema: pa.Schema, options: WriterOptions) -> None:
        if options.compression not in _CODECS:
            raise UnsupportedError(
                f"option file.compression={options.compression!r}: avro files take " + ", ".join(_CODECS)
            )
        codec = _CODECS[options.compression]
        self._output = output
        self._schema = schema
        self._bounds = ArrowBounds(schema)
        self._rows = 0
        record = avro_schema(schema)
        sync = hashlib.md5(output.path.encode(), usedforsecurity=False).digest()
        self._sink = _Body(output)
        self._writer = Writer(
            self._sink,
            fastavro.parse_schema(decoding_schema(record)),
            codec,
            sync_interval=_BLOCK_BYTES,
            sync_marker=sync,
            compression_level=options.zstd_level if codec == "zstandard" else None,
        )
        self._sink.open(_header(record, codec, sync))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are those of the schema, in its order."""
        self._bounds.add(batch)
        names = self._schema.names
        for start in range(0, batch.num_rows, _RECORDS):
            part = batch.slice(start, _RECORDS)
            columns = [raw_values(column) for column in part.columns]
            for values in zip(*columns, strict=True):
                self._writer.write(dict(zip(names, values, strict=True)))
        self._rows += batch.num_rows

    @property
    def size_estimate(self) -> int:
        """Return the bytes written; the open block is left out."""
        return self._sink.written

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        self._writer.flush()
        size = self._output.tell()
        self._output.close()
        return WrittenFile(size, self._rows, self._bounds.finish())

    def abort(self) -> None:
        """Remove what was written."""
        self._output.abort()


class _Body:
    """What fastavro writes to. Its own header, which says nothing of logical types, is swallowed."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._opened = False
        self.written = 0

    def open(self, header: bytes) -> None:
        """Write `header`, and let all later bytes reach the file."""
        self._opened = True
        self.write(header)

    def write(self, data: Any) -> int:
        if self._opened:
            self._output.write(data)
            self.written += len(data)
        return len(data)

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""


def _header(record: dict[str, Any], codec: str, sync: bytes) -> bytes:
    out = io.BytesIO()
    meta = {"avro.schema": json.dumps(record).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(out, HEADER_SCHEMA, {"magic": _MAGIC, "meta": meta, "sync": sync})
    return out.getvalue()
