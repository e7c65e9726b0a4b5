"""This module converts columns of a fixed width without nulls to numpy arrays, to pick and put values without
building arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["plain_array", "plain_values"]

_WIDTHS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def plain_values(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Return the values, without a copy except for booleans, or None for nulls, text, bytes and nested types.

    Numbers and booleans are those of numpy, dates and times whole numbers. Decimals only move: their 16 bytes
    are in the place of a complex number.
    """
    data_type = column.type
    if column.null_count:
        return None
    if pa.types.is_boolean(data_type) or pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_date(data_type) or pa.types.is_time(data_type) or pa.types.is_timestamp(data_type):
        return _view(column, _WIDTHS[data_type.bit_width // 8])
    return _view(column, np.complex128) if pa.types.is_decimal128(data_type) else None


def plain_array(values: np.ndarray[Any, Any], data_type: pa.DataType) -> pa.Array:
    """Return the column of such values; `values` must not change any more."""
    if pa.types.is_boolean(data_type):
        return pa.array(values, data_type)
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(values)])


def _view(column: pa.Array, dtype: Any) -> np.ndarray[Any, Any]:
    end = len(column) + column.offset
    return np.frombuffer(column.buffers()[1], dtype, end)[column.offset :]
