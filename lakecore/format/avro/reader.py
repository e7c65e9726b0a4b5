"""This module reads Avro data files: records are decoded through fastavro, then whole columns through Arrow.

The schema in the header is replaced before decoding by one without logical types and maps (a map has the
bytes of an array of key-value records), so that fastavro makes no Python value that Arrow cannot take whole.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from lakecore.format.avro.columns import AvroColumn, decoding_schema
from lakecore.format.corruption import corrupt_data_errors
from lakecore.fs.file_io import FileIO

__all__ = ["HEADER_SCHEMA", "AvroReader"]

_SYNC_SIZE = 16
_EXPANSION = 8
_READ_CHUNK = 1 << 20
HEADER_SCHEMA = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC_SIZE}},
    ],
}


class AvroReader:
    """It reads one avro container. A column costs about a microsecond a value; there is no seeking."""

    row_groups = 1

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = _BoundedFile(file_io.open_input(path))
        with corrupt_data_errors(path):
            self._header = fastavro.schemaless_reader(self._source, HEADER_SCHEMA, None)
            self._body = int(self._source.tell())
            root = fastavro.schema.parse_schema(_json_schema(self._header))
            record = _root_record(root)
            self._nullable = isinstance(root, list)
            self._columns = {field["name"]: AvroColumn.of(field) for field in record["fields"]}
            self._decoding = decoding_schema(record)
            self.schema = pa.schema([column.field for column in self._columns.values()])

    @cached_property
    def num_rows(self) -> int:
        """Return the number of rows, counted from the block headers."""
        with corrupt_data_errors(self._path):
            self._source.seek(self._body)
            return sum(_block_counts(self._source))

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """Estimate from the size of the first block, which is assumed to be compressed to an eighth."""
        with corrupt_data_errors(self._path):
            self._source.seek(self._body)
            count, size = _varint(self._source) or 1, _varint(self._source) or 0
        return size * _EXPANSION // count + 1

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in file order; see DataFileReader."""
        if row_groups is not None and len(row_groups) == 0:
            return
        names = list(self._columns if columns is None else columns)
        schema = pa.schema([self._columns[name].field for name in names])
        with corrupt_data_errors(self._path):
            records = self._records(None if columns is None else set(names))
            while chunk := list(islice(records, batch_size)):
                arrays = [self._columns[name].array([row[name] for row in chunk]) for name in names]
                yield _batch(arrays, schema, len(chunk))

    def close(self) -> None:
        self._source.close()

    def _records(self, columns: set[str] | None) -> Iterator[dict[str, Any]]:
        header = dict(self._header)
        header["meta"] = header["meta"] | {"avro.schema": _json_bytes(self._with_root_names(self._decoding))}
        reader_schema = None
        if columns is not None:
            fields = [field for field in self._decoding["fields"] if field["name"] in columns]
            reader_schema = self._with_root_names(self._decoding | {"fields": fields})
        self._source.seek(self._body)
        stream = fastavro.reader(_SplicedFile(_header_bytes(header), self._source), reader_schema)
        return iter(stream)

    def _with_root_names(self, record: dict[str, Any]) -> Any:
        """Return the record as it is written. Rule of the format: records behind a union carry the number of
        their branch.
        """
        return ["null", record] if self._nullable else record


class _BoundedFile:
    """A file that refuses lengths beyond its end: damage must not ask for memory."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._size = int(source.size())

    def read(self, size: int) -> bytes:
        rest = self._size - self.tell()
        if not 0 <= size <= max(rest, 1):
            raise EOFError(f"a value claims {size} bytes, but {rest} are left")
        return bytes(self._source.read(size))

    def seek(self, position: int) -> None:
        self._source.seek(position)

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        self._source.close()


class _SplicedFile:
    """A file that begins with other bytes: what fastavro needs, only `read`."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def read(self, size: int) -> bytes:
        part = self._head.read(size)
        return part if len(part) == size else part + self._rest.read(size - len(part))


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _json_schema(header: dict[str, Any]) -> Any:
    return json.loads(header["meta"]["avro.schema"])


def _json_bytes(schema: Any) -> bytes:
    return json.dumps(schema).encode()


def _header_bytes(header: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, HEADER_SCHEMA, header)
    return out.getvalue()


def _root_record(schema: Any) -> dict[str, Any]:
    """Return the record of the root schema: vector files (and all files before 0.9) have a union with null
    there.
    """
    branches = schema if isinstance(schema, list) else [schema]
    for branch in branches:
        if isinstance(branch, dict) and branch.get("type") == "record":
            return branch
    raise ValueError("the avro schema has no record at its root")


def _block_counts(source: Any) -> Iterator[int]:
    while (count := _varint(source)) is not None:
        size = _varint(source)
        if count < 0 or size is None or size < 0:
            raise ValueError("the header of a block is damaged")
        yield count
        source.seek(source.tell() + size + _SYNC_SIZE)


def _varint(source: Any) -> int | None:
    """Return the next zigzag integer, or None at the end of the file."""
    value = shift = 0
    while byte := source.read(1):
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return int((value >> 1) ^ -(value & 1))
        shift += 7
    return None
