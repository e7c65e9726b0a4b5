"""This module decodes single columns of many serialised rows at once, as Arrow arrays. In doubt a value is
null.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.row.binary_layout import COMPACT_MILLIS, FIXED_FORMATS, MAX_COMPACT_DECIMAL, null_bits_size
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataType, TypeRoot

__all__ = ["arities", "row_column"]

I64: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

_PREFIX = 4
_NUMPY = {"b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8", "?": "<i1"}
_INLINE = 0x80
_MAX_MILLIS = (1 << 63) // 1_000_000 - 1


def arities(buffer: Bytes, start: I64, length: I64) -> I64:
    """Return how many fields each row has; -1 if the bytes are too few to hold them."""
    out = np.full(len(start), -1, np.int64)
    lanes = np.flatnonzero(length >= _PREFIX)
    out[lanes] = _view(buffer, ">i4")[start[lanes]]
    for arity in np.unique(out).tolist():
        if arity >= 0:
            needed = _PREFIX + null_bits_size(arity) + 8 * arity
            out[(out == arity) & (length < needed)] = -1
    return out


def row_column(
    buffer: Bytes, start: I64, length: I64, *, arity: int, index: int, data_type: DataType
) -> pa.Array | None:
    """Return field `index` of rows of `arity` fields; None for types whose bounds are not used.

    `buffer` must end with eight spare bytes, and each row must be long enough for its fixed part (see
    `arities`).
    """
    if not isinstance(data_type, AtomicType):
        return None
    row = start + _PREFIX
    nulls = (buffer[row + (index + 8) // 8] >> (index % 8) & 1).astype(np.bool_)
    slot = row + null_bits_size(arity) + 8 * index
    if data_type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return _strings(buffer, row, length - _PREFIX, slot, nulls)
    if data_type.root is TypeRoot.DECIMAL:
        return _decimals(buffer, slot, nulls, data_type)
    if data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _timestamps(buffer, row, length - _PREFIX, slot, nulls, data_type)
    if data_type.root not in FIXED_FORMATS:
        return None
    code = "b" if data_type.root is TypeRoot.BOOLEAN else FIXED_FORMATS[data_type.root]
    values = _view(buffer, _NUMPY[code])[slot]
    if data_type.root is TypeRoot.BOOLEAN:
        return pa.array(values != 0, mask=nulls)
    target = arrow_type(data_type)
    if pa.types.is_date(target) or pa.types.is_time(target):
        return pa.array(values, pa.int32(), mask=nulls).view(target)
    return pa.array(values, target, mask=nulls)


def _view(buffer: Bytes, dtype: str) -> npt.NDArray[Any]:
    """Return a view of the value at every position of the buffer."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((max(len(buffer) - size + 1, 0),), dtype, buffer, strides=(1,))


def _decimals(buffer: Bytes, slot: I64, nulls: Mask, data_type: AtomicType) -> pa.Array | None:
    if data_type.precision > MAX_COMPACT_DECIMAL:
        return None
    words = np.empty((len(slot), 2), np.int64)
    words[:, 0] = _view(buffer, "<i8")[slot]
    words[:, 1] = words[:, 0] >> 63
    valid = pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(arrow_type(data_type), len(slot), [valid, pa.py_buffer(words)])


def _timestamps(
    buffer: Bytes, row: I64, size: I64, slot: I64, nulls: Mask, data_type: AtomicType
) -> pa.Array | None:
    target = arrow_type(data_type)
    raw = _view(buffer, "<i8")[slot]
    if data_type.precision <= COMPACT_MILLIS:
        return pa.array(raw, pa.int64(), mask=nulls).view(target)
    offset, nanos = raw >> 32, raw & 0xFFFFFFFF
    nulls = nulls | (offset < 0) | (offset + 8 > size)
    millis = _view(buffer, "<i8")[np.where(nulls, row, row + offset)]
    nulls = nulls | (np.abs(millis) > _MAX_MILLIS)
    millis = np.where(nulls, 0, millis)
    micros = target.unit == "us"
    ticks = millis * 1000 + nanos // 1000 if micros else millis * 1_000_000 + nanos
    return pa.array(ticks, pa.int64(), mask=nulls).view(target)


def _strings(buffer: Bytes, row: I64, size: I64, slot: I64, nulls: Mask) -> pa.Array | None:
    raw = _view(buffer, "<i8")[slot]
    mark = buffer[slot + 7]
    inline = (mark & _INLINE) != 0
    start = np.where(inline, slot, row + (raw >> 32))
    length = np.where(inline, mark & 0x7F, raw & 0xFFFFFFFF)
    nulls = nulls | (~inline & (((raw >> 32) < 0) | ((raw >> 32) + length > size))) | (inline & (length > 7))
    length = np.where(nulls, 0, length)
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    at = np.repeat(start - (ends - length), length) + np.arange(total)
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [pa.array(~nulls).buffers()[1], pa.py_buffer(offsets), pa.py_buffer(buffer[at])]
    strings = pa.Array.from_buffers(pa.large_string(), len(slot), buffers)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings.cast(pa.string())
