"""This module reads and writes INT96 timestamps (precision above 6) exactly.

pyarrow wraps INT96 silently outside 1677..2262, and cannot tell such a value from one before 1970 as
parquet-mr writes it (a negative time of day). So the footer is rewritten: the same bytes are read as 12-byte
values, and these are converted here with a check.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.format.arrow_nested import map_children, map_leaves, map_type
from lakecore.format.parquet.footer_bytes import MAGIC, ended, metadata_of
from lakecore.format.parquet.nullable_keys import without_nullable_key_maps
from lakecore.format.parquet.thrift_compact import Field, Struct, WireType, decode_struct, encode_struct

__all__ = [
    "FooterSink",
    "as_bytes",
    "has_nanos",
    "stored_batch",
    "stored_schema",
    "timestamps",
    "with_groups",
]

_INT96, _FIXED = 3, 7
_WIDTH = 12
_EPOCH_JULIAN_DAY = 2440588
_NANOS_PER_DAY = 86_400_000_000_000
_RAW = pa.binary(_WIDTH)
# ids of parquet.thrift: FileMetaData, SchemaElement, RowGroup, ColumnChunk, ColumnMetaData
_SCHEMA, _ROW_GROUPS = 2, 4
_ELEMENT_TYPE, _ELEMENT_LENGTH, _ELEMENT_CONVERTED, _ELEMENT_LOGICAL = 1, 2, 6, 10
_COLUMNS, _META_DATA = 1, 3
_META_TYPE, _META_STATISTICS = 1, 12
_COLUMN_INDEX = (6, 7)
_FOOTER_WRITES = 3


def as_bytes(footer: bytes) -> Any | None:
    """Return the footer as pyarrow FileMetaData with INT96 columns as 12-byte values, or None when there are
    none.
    """
    meta = decode_struct(footer)
    elements: list[Struct] = meta[_SCHEMA].value.values
    touched = [e for e in elements if _ELEMENT_TYPE in e and e[_ELEMENT_TYPE].value == _INT96]
    if not touched:
        return None
    without_nullable_key_maps(elements)
    for element in touched:
        element[_ELEMENT_TYPE].value = _FIXED
        element[_ELEMENT_LENGTH] = Field(WireType.I32, _WIDTH)
    for group in meta[_ROW_GROUPS].value.values:
        for column in group[_COLUMNS].value.values:
            _retype(column[_META_DATA].value)
    return metadata_of(encode_struct(meta))


def with_groups(footer: bytes) -> Any | None:
    """Return the footer as pyarrow FileMetaData with maps of nullable keys as groups, or None when there are
    none.
    """
    meta = decode_struct(footer)
    return metadata_of(encode_struct(meta)) if without_nullable_key_maps(meta[_SCHEMA].value.values) else None


def _retype(chunk: Struct) -> None:
    if chunk[_META_TYPE].value == _INT96:
        chunk[_META_TYPE].value = _FIXED
        chunk.pop(_META_STATISTICS, None)


def timestamps(array: pa.Array) -> pa.Array:
    """Return 12-byte leaves as timestamp[ns], or as timestamp[us] where nanoseconds cannot represent all
    values of a leaf.

    Digits are cut then: a column of nine digits is refused (`canonical`), one of fewer has none to lose. The
    format writes no other fixed-size binary of 12 bytes. Raises OverflowError for values beyond all years.
    """
    if array.type == _RAW:
        return _decode(array)
    if not pa.types.is_nested(array.type) or map_type(array.type, _replace) == array.type:
        return array
    return map_leaves(array, timestamps)


def _replace(data_type: pa.DataType) -> pa.DataType:
    return pa.timestamp("ns") if data_type == _RAW else map_type(data_type, _replace)


def _decode(array: pa.Array) -> pa.Array:
    rows = len(array)
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    cells = raw[array.offset * _WIDTH : (array.offset + rows) * _WIDTH].reshape(rows, _WIDTH)
    time_of_day = np.ascontiguousarray(cells[:, :8]).view("<i8").ravel()
    days = np.ascontiguousarray(cells[:, 8:]).view("<i4").ravel().astype(np.int64) - _EPOCH_JULIAN_DAY
    null = array.is_null().to_numpy(zero_copy_only=False)
    days, time_of_day = np.where(null, 0, days), np.where(null, 0, time_of_day)
    value = days * _NANOS_PER_DAY + time_of_day
    rough = days.astype(np.float64) * _NANOS_PER_DAY + time_of_day
    if not np.any(np.abs(rough - value) > _NANOS_PER_DAY):
        return pa.array(value, pa.int64(), mask=null).view(pa.timestamp("ns"))
    micros = days * (_NANOS_PER_DAY // 1000) + time_of_day // 1000
    if np.any(np.abs(rough / 1000 - micros) > _NANOS_PER_DAY):
        raise OverflowError("a timestamp does not fit into 64 bits")
    return pa.array(micros, pa.int64(), mask=null).view(pa.timestamp("us"))


def has_nanos(data_type: pa.DataType) -> bool:
    """Return whether a type contains nanosecond timestamps. The format stores them as INT96."""
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit == "ns")
    return (
        any(has_nanos(data_type.field(i).type) for i in range(data_type.num_fields))
        if data_type.num_fields
        else False
    )


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every nanosecond timestamp as 12 bytes."""
    return pa.schema([field.with_type(_stored_type(field.type)) for field in schema])


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the types of `stored_schema`."""
    return pa.RecordBatch.from_arrays([_encode(column) for column in batch.columns], schema=schema)


class FooterSink:
    """It passes writes on but holds back the last ones: the footer, which says 12 bytes where INT96 is
    meant.
    """

    closed = False

    def __init__(self, output: Any) -> None:
        self._output = output
        self._tail: deque[bytes] = deque()

    def write(self, data: Any) -> int:
        self._tail.append(bytes(data))
        while len(self._tail) > _FOOTER_WRITES:
            self._output.write(self._tail.popleft())
        return len(self._tail[-1])

    def finish(self) -> None:
        """Write the footer with INT96. Raises ValueError when the last writes were not one."""
        footer, length, magic = self._tail
        if magic != MAGIC or length != struct.pack("<I", len(footer)):
            raise ValueError("the parquet writer did not end with a footer")
        self._output.write(ended(_int96_footer(footer)))


def _int96_footer(footer: bytes) -> bytes:
    """Return the footer in which 12-byte columns are INT96, without statistics, because INT96 has no
    order.
    """
    meta = decode_struct(footer)
    for element in meta[_SCHEMA].value.values:
        if (
            _ELEMENT_LENGTH in element
            and element[_ELEMENT_LENGTH].value == _WIDTH
            and not _annotated(element)
        ):
            element[_ELEMENT_TYPE].value = _INT96
            del element[_ELEMENT_LENGTH]
    leaves = [e for e in meta[_SCHEMA].value.values if _ELEMENT_TYPE in e]
    for group in meta[_ROW_GROUPS].value.values:
        for leaf, column in zip(leaves, group[_COLUMNS].value.values, strict=True):
            if leaf[_ELEMENT_TYPE].value == _INT96:
                column[_META_DATA].value[_META_TYPE].value = _INT96
                column[_META_DATA].value.pop(_META_STATISTICS, None)
                for key in _COLUMN_INDEX:
                    column.pop(key, None)
    return encode_struct(meta)


def _annotated(element: Struct) -> bool:
    """Return whether a column is annotated: decimals of 12 bytes are, timestamps stored here are not."""
    return _ELEMENT_CONVERTED in element or _ELEMENT_LOGICAL in element


def _stored_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type) and data_type.unit == "ns":
        return _RAW
    return map_type(data_type, _stored_type)


def _encode(array: pa.Array) -> pa.Array:
    data_type = array.type
    if not has_nanos(data_type):
        return array
    if pa.types.is_timestamp(data_type):
        numbers = array.view(pa.int64())
        null = array.is_null().to_numpy(zero_copy_only=False)
        days, time_of_day = np.divmod(numbers.fill_null(0).to_numpy(zero_copy_only=False), _NANOS_PER_DAY)
        cells = np.zeros((len(array), _WIDTH), np.uint8)
        cells[:, :8] = time_of_day.astype("<i8").view(np.uint8).reshape(-1, 8)
        cells[:, 8:] = (days + _EPOCH_JULIAN_DAY).astype("<i4").view(np.uint8).reshape(-1, 4)
        mask = None if not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
        return pa.Array.from_buffers(_RAW, len(array), [mask, pa.py_buffer(cells)])
    return map_children(array, _stored_type(data_type), lambda child, _: _encode(child))
