"""This module converts column values to the form that indexes store: whole numbers of a fixed width, or
bytes.

Rules of the format: TIMESTAMP and TIMESTAMP WITH LOCAL TIME ZONE as milliseconds (precision up to 3) or
microseconds, DECIMAL as its unscaled value (precision up to 18), floats by their bits, with one NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.row.values import normal_array
from lakecore.types.arrow import arrow_type, arrow_values
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = [
    "COARSE_DIGITS",
    "Numbers",
    "decode_numbers",
    "encode_numbers",
    "float_bits",
    "is_text",
    "stored_numbers",
    "stored_texts",
    "stored_value",
    "width_of",
]

Numbers: TypeAlias = npt.NDArray[np.int64]

COARSE_DIGITS = 6
"""An index can hold so many digits of a timestamp's fraction."""

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DECIMAL: 8,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
_MICROS_PER_NANO = 1000
_FLOAT_ORDER = {4: (np.int32, np.int32(0x7FFFFFFF)), 8: (np.int64, np.int64(0x7FFFFFFFFFFFFFFF))}


def is_text(data_type: AtomicType) -> bool:
    return data_type.root in _TEXTS


def width_of(data_type: AtomicType) -> int | None:
    """Return the bytes of a value, or None for text and bytes. It never raises KeyError, because other types
    have no index.
    """
    return _WIDTHS.get(data_type.root)


def stored_numbers(array: pa.Array, data_type: AtomicType) -> tuple[Numbers, npt.NDArray[np.bool_] | None]:
    """Return the values in the order of their type, with 0 for null, and which rows have one (None: all)."""
    array = normal_array(array, data_type)
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    return _numbers(array, data_type), valid


def _numbers(array: pa.Array, data_type: AtomicType) -> Numbers:
    root = data_type.root
    if root is TypeRoot.DECIMAL:
        return _unscaled_words(array)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        values = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
        canonical = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        return _flip(canonical.view(_FLOAT_ORDER[values.itemsize][0])).astype(np.int64)
    if root is TypeRoot.BOOLEAN:
        array = array.cast(pa.int8())
    elif pa.types.is_date(array.type) or pa.types.is_time(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        coarse = array.type.unit == "ns"
        numbers = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return np.asarray(np.floor_divide(numbers, _MICROS_PER_NANO) if coarse else numbers, np.int64)
    return np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), np.int64)


def _flip(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of floats as numbers in the same order (-0.0 before 0.0, NaN last), and such numbers as
    bits.
    """
    mask = _FLOAT_ORDER[bits.itemsize][1]
    return np.where(bits < 0, bits ^ mask, bits)


def float_bits(numbers: Numbers, data_type: AtomicType) -> npt.NDArray[Any]:
    """Return the bits of floats, from their numbers in order."""
    return _flip(numbers.astype(_FLOAT_ORDER[_WIDTHS[data_type.root]][0]))


def _unscaled_words(array: pa.Array) -> Numbers:
    """Return the low halves of 128-bit decimals. Raises OverflowError for a value that does not fit into 64
    bits.
    """
    words = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
    low = words[:, 0].copy()
    wide = words[:, 1] != low >> 63
    if array.null_count:
        valid = np.asarray(array.is_valid())
        low[~valid] = 0
        wide &= valid
    if wide.any():
        raise OverflowError("a decimal needs more than 64 bits")
    return low


def stored_texts(array: pa.Array, data_type: AtomicType) -> pa.Array:
    """Return text and bytes as large binary."""
    return normal_array(array, data_type).cast(pa.binary()).cast(pa.large_binary())


def stored_value(value: Any, data_type: AtomicType) -> Any:
    """Return one value of a predicate (see `predicate.tree`) as an index stores it."""
    array = arrow_values([value], arrow_type(data_type))
    if width_of(data_type) is None:
        return stored_texts(array, data_type)[0].as_py()
    return int(stored_numbers(array, data_type)[0][0])


def encode_numbers(numbers: Numbers | Sequence[int], data_type: AtomicType) -> bytes:
    """Return the numbers as big-endian bytes, one after another."""
    width = _WIDTHS[data_type.root]
    values = np.asarray(numbers, np.int64)
    if data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return float_bits(values, data_type).astype(f">i{width}").tobytes()
    return values.astype(f">i{width}").tobytes()


def decode_numbers(stored: npt.NDArray[Any], data_type: AtomicType) -> Numbers:
    """Return numbers in order, from big-endian values of the width of `data_type`."""
    native = stored.astype(stored.dtype.newbyteorder("="))
    if data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        native = _flip(native)
    return native.astype(np.int64)
