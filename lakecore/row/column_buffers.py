"""This module makes Arrow columns of values that were decoded with numpy, for the decoders of many rows at
once.

`valid` marks the rows that are not null; values of other rows are arbitrary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["bytes_column", "decimal_column", "fixed_column", "small_decimal_column", "timestamp_column"]

Ints = np.ndarray[Any, Any]

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_DECIMAL_BYTES = 16
_PER_MILLI = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}
_NANOS = 1_000_000
_MOST_BYTES = 0x7FFFFFFF


def fixed_column(values: Ints, valid: Ints, data_type: AtomicType) -> pa.Array:
    """Return a column of values that have the width of their Arrow type; booleans are bytes."""
    if data_type.root is TypeRoot.BOOLEAN:
        return pa.array(values != 0, mask=~valid)
    return _array(values, valid, arrow_type(data_type))


def bytes_column(data: Ints, starts: Ints, sizes: Ints, valid: Ints, data_type: AtomicType) -> pa.Array:
    """Return a column of texts or bytes, which `data` has. Sizes of null rows are 0. Raises ValueError for
    what is no text in UTF-8, and for more than 2 GiB.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if offsets[-1] > _MOST_BYTES:
        raise ValueError("the texts of a batch take more than 2 GiB")
    places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    target = pa.string() if data_type.root in _TEXTS else pa.binary()
    buffers = [_mask(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[places])]
    array = pa.Array.from_buffers(target, len(valid), buffers)
    array.validate(full=True)
    return array


def small_decimal_column(values: Ints, valid: Ints, data_type: AtomicType) -> pa.Array:
    """Return a column of decimals of up to 18 digits, given as 64-bit integers. Raises ValueError for one
    that has too many digits.
    """
    words = np.zeros((len(valid), 2), "<i8")
    words[:, 0] = np.where(valid, values, 0)
    words[:, 1] = words[:, 0] >> 63
    return _decimals(words, valid, data_type)


def decimal_column(data: Ints, starts: Ints, sizes: Ints, valid: Ints, data_type: AtomicType) -> pa.Array:
    """Return a column of decimals, of which `data` has the big-endian bytes. Raises ValueError for one that
    has no bytes or too many, or too many digits.
    """
    if (sizes[valid] > _DECIMAL_BYTES).any() or (sizes[valid] <= 0).any():
        raise ValueError("a decimal has another number of bytes than 1 to 16")
    starts, sizes = np.where(valid, starts, 0), np.where(valid, sizes, 0)
    sign = np.where(valid & (data[starts] >= 0x80), 0xFF, 0).astype(np.uint8)
    octets = np.repeat(sign, _DECIMAL_BYTES).reshape(-1, _DECIMAL_BYTES)
    for place in range(_DECIMAL_BYTES):
        has = sizes > place
        octets[has, place] = data[(starts + sizes - 1 - place)[has]]
    return _decimals(octets.view("<i8"), valid, data_type)


def timestamp_column(millis: Ints, nanos: Ints | None, valid: Ints, data_type: AtomicType) -> pa.Array:
    """Return a column of timestamps: milliseconds since 1970, and nanoseconds of the millisecond where there
    are any. Raises ValueError for one that its type cannot hold.
    """
    target = arrow_type(data_type)
    scale = _PER_MILLI[target.unit]
    values = np.where(valid, millis, 0)
    most = np.iinfo(np.int64).max // scale - 1 if scale else 0
    if not scale or (values > most).any() or (values < -most).any():
        raise ValueError("a timestamp is outside of what its type holds")
    values = values * scale
    if nanos is not None:
        nanos = np.where(valid, nanos, 0)
        if ((nanos < 0) | (nanos >= _NANOS)).any():
            raise ValueError("a timestamp has more than a million nanoseconds")
        values += nanos * scale // _NANOS
    return _array(values, valid, target)


def _decimals(words: Ints, valid: Ints, data_type: AtomicType) -> pa.Array:
    buffers = [_mask(valid), pa.py_buffer(np.ascontiguousarray(words))]
    array = pa.Array.from_buffers(arrow_type(data_type), len(valid), buffers)
    array.validate(full=True)
    return array


def _array(values: Ints, valid: Ints, target: Any) -> pa.Array:
    return pa.Array.from_buffers(
        target, len(values), [_mask(valid), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _mask(valid: Ints) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
