"""This module encodes Arrow columns as rows in Paimon's compact form, many at once; `compact_rows` has the
layout. Arrays, maps and vectors are encoded value by value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.lookup_file.varints import Ints, encode_varints
from lakecore.row.binary_layout import COMPACT_MILLIS, FIXED_FORMATS, MAX_COMPACT_DECIMAL
from lakecore.row.binary_row import encode_binary_row
from lakecore.row.values import array_values, normal_array
from lakecore.types.datatypes import AtomicType, DataField, DataType, RowType, TypeRoot

__all__ = ["ByteRows", "encode_compact_rows", "joined_bytes"]

_NUMPY = {"?": "<i1", "b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8"}
_DECIMAL_BYTES = 16
_UNIT_PER_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}
_NANOS = 1_000_000
_SLOT = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class ByteRows:
    """These are some bytes for each row, one after the other."""

    data: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)


def encode_compact_rows(columns: Sequence[pa.Array], data_type: RowType) -> ByteRows:
    """Return the rows of `columns`, one array for each field of `data_type`; all of them are inserts."""
    count = len(columns[0]) if columns else 0
    arrays = [normal_array(one, field.type) for one, field in zip(columns, data_type.fields, strict=True)]
    head = np.zeros((count, (len(data_type.fields) + 15) // 8), np.uint8)
    parts = [ByteRows(head.reshape(-1), np.full(count, head.shape[1]))]
    for number, (array, field) in enumerate(zip(arrays, data_type.fields, strict=True)):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        head[~valid, (number + 8) // 8] |= 1 << number % 8
        parts += _field(array, valid, field.type)
    return joined_bytes(parts)


def joined_bytes(parts: Sequence[ByteRows]) -> ByteRows:
    """Return for each row its bytes in all parts, one after the other."""
    sizes = np.sum([part.sizes for part in parts], axis=0)
    ends = np.cumsum(sizes)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    at = ends - sizes
    for part in parts:
        data[_places(at, part.sizes)] = part.data
        at = at + part.sizes
    return ByteRows(data, sizes)


def _places(starts: Ints, sizes: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, … (sizes[0] numbers), then those of row 1, and so on."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _field(array: pa.Array, valid: Ints, data_type: DataType) -> Iterator[ByteRows]:
    """Yield the bytes of one field; null rows have none."""
    if isinstance(data_type, RowType):
        inner = [array.field(number) for number in range(array.type.num_fields)]
        present = [one.filter(pa.array(valid)) for one in inner]
        yield from _with_sizes(_spread(encode_compact_rows(present, data_type), valid), valid)
    elif not isinstance(data_type, AtomicType):
        yield from _with_sizes(_nested_rows(array, data_type), valid)
    elif data_type.root is TypeRoot.VARIANT:
        values = (array.field(name).filter(pa.array(valid)) for name in ("value", "metadata"))
        both = [part for one in values for part in _with_sizes(_bytes(one), np.ones(len(one), bool))]
        yield from _with_sizes(_spread(joined_bytes(both), valid), valid)
    elif data_type.root in FIXED_FORMATS:
        plain = array.cast(pa.int8()) if data_type.root is TypeRoot.BOOLEAN else array
        yield _fixed_rows(_values(plain, _NUMPY[FIXED_FORMATS[data_type.root]]), valid)
    elif data_type.root is TypeRoot.DECIMAL:
        yield from _decimals(array, valid, data_type)
    elif data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        yield from _timestamps(array, valid, data_type)
    else:
        yield from _with_sizes(_bytes(array), valid)


def _values(array: pa.Array, dtype: str) -> Ints:
    """Return the value buffer; values of null rows are arbitrary."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def _fixed_rows(values: Ints, valid: Ints) -> ByteRows:
    data = np.ascontiguousarray(values[valid]).view(np.uint8)
    return ByteRows(data, np.where(valid, values.dtype.itemsize, 0))


def _with_sizes(rows: ByteRows, valid: Ints) -> Iterator[ByteRows]:
    """Yield the sizes of the rows that are not null, and the rows."""
    yield _varints(rows.sizes, valid)
    yield rows


def _varints(values: Ints, valid: Ints) -> ByteRows:
    data, sizes = encode_varints(values[valid])
    return _spread(ByteRows(data, sizes), valid)


def _spread(rows: ByteRows, valid: Ints) -> ByteRows:
    """Return the bytes of the valid rows with rows without bytes between them."""
    sizes = np.zeros(len(valid), np.int64)
    sizes[valid] = rows.sizes
    return ByteRows(rows.data, sizes)


def _bytes(array: pa.Array) -> ByteRows:
    offsets = np.frombuffer(array.buffers()[1], "<i4", len(array) + 1, array.offset * 4).astype(np.int64)
    sizes = np.diff(offsets)
    stored = array.buffers()[2]
    data = np.zeros(0, np.uint8) if stored is None else np.frombuffer(stored, np.uint8)
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = 0
        return ByteRows(data[_places(offsets[:-1], sizes)], sizes)
    return ByteRows(data[offsets[0] : offsets[-1]], sizes)


def _decimals(array: pa.Array, valid: Ints, data_type: AtomicType) -> Iterator[ByteRows]:
    raw = np.frombuffer(
        array.buffers()[1], np.uint8, len(array) * _DECIMAL_BYTES, array.offset * _DECIMAL_BYTES
    )
    words = raw.reshape(-1, _DECIMAL_BYTES)
    if data_type.precision <= MAX_COMPACT_DECIMAL:
        yield _fixed_rows(np.ascontiguousarray(words[:, :8]).view("<i8").reshape(-1), valid)
        return
    big = words[valid, ::-1]
    negative = big[:, 0] >> 7
    # the shortest two's complement drops leading sign bytes, as long as the next byte keeps the sign
    droppable = (big[:, :-1] == (negative * 255)[:, None]) & (big[:, 1:] >> 7 == negative[:, None])
    first = np.cumprod(droppable, axis=1).sum(axis=1, dtype=np.int64)
    data = big[np.arange(_DECIMAL_BYTES) >= first[:, None]]
    yield from _with_sizes(_spread(ByteRows(data, _DECIMAL_BYTES - first), valid), valid)


def _timestamps(array: pa.Array, valid: Ints, data_type: AtomicType) -> Iterator[ByteRows]:
    ticks, per_milli = _values(array, "<i8"), _UNIT_PER_MILLI[array.type.unit]
    millis = np.floor_divide(ticks, per_milli)
    yield _fixed_rows(millis, valid)
    if data_type.precision > COMPACT_MILLIS:
        yield _varints((ticks - millis * per_milli) * (_NANOS // per_milli), valid)


def _nested_rows(array: pa.Array, data_type: DataType) -> ByteRows:
    """Return arrays, maps and vectors as BinaryRow stores them."""
    one = RowType((DataField(0, "f0", data_type),))
    parts = [b"" if value is None else _part(value, one) for value in array_values(array, data_type)]
    return ByteRows(
        np.frombuffer(b"".join(parts), np.uint8), np.fromiter(map(len, parts), np.int64, len(parts))
    )


def _part(value: object, one: RowType) -> bytes:
    row = encode_binary_row((value,), one)
    size, offset = _SLOT.unpack_from(row, 8)
    return row[offset : offset + size]
