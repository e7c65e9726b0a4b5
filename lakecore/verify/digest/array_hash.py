"""This module computes 64-bit hashes of the values of an Arrow array, the same for every representation of a
value. No IO.

Made canonical: integers and dates of any width and booleans (as 64-bit integers), times (milliseconds),
timestamps of any unit (nanoseconds modulo 2^64), floats (as doubles, one NaN), strings and bytes of any
offset width, dictionary arrays (by value), nulls (a constant). A decimal hashes with its unscaled value:
columns that may differ in scale are cast first. A list hashes with the order of its elements, a map without
the order of its pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import UnsupportedError
from lakecore.verify.digest.bytes_hash import Words, fold, hash_bytes, mix

__all__ = ["hash_array", "hash_unordered"]

_MASK = 0xFFFFFFFFFFFFFFFF
_NULL = np.uint64(0xA0761D6478BD642F)
_NAN = np.uint64(0x7FF8000000000000)
_HIGH = np.uint64(0xE7037ED1A0B428DB)
_VALUE = np.uint64(0x8EBC6AF09C88C6E3)
_ELEMENT = np.uint64(0x589965CC75374CC3)
_INTEGERS = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64,
    pa.uint8(): np.uint8, pa.uint16(): np.uint16, pa.uint32(): np.uint32, pa.date32(): np.int32,
}  # fmt: skip
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_MILLIS_DIVISOR = {"us": 1000, "ns": 1_000_000}
_DAY_MILLIS = 86_400_000


def hash_array(array: pa.Array, constant: int) -> Words:
    """Return one hash per value. `constant` must be odd and different for each column of a row.

    Raises UnsupportedError for Arrow types that no data type of the format maps to.
    """
    if pa.types.is_dictionary(array.type) and not _by_code(array):
        array = array.dictionary_decode()
    factor = np.uint64(constant)
    hashes = _nested_hashes(array, constant)
    if hashes is None:
        hashes = _flat_words(array) * factor
    else:
        hashes *= factor
    mix(hashes)
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        hashes[nulls] = np.uint64(int(_NULL) * constant & _MASK)
    return hashes


def hash_unordered(array: pa.Array, constant: int) -> Words:
    """Hash lists like `hash_array`, but without the order of their elements."""
    begin, end, bounds = _bounds(array)
    hashes = _sums(mix(hash_array(array.values[begin:end], _part(constant, 0))), bounds) * np.uint64(constant)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = np.uint64(int(_NULL) * constant & _MASK)
    return hashes


def _buffer(array: pa.Array, dtype: Any, index: int = 1) -> npt.NDArray[Any]:
    """Return the fixed-width values of `array` without a copy; slots of nulls are arbitrary."""
    buffer = array.buffers()[index]
    if buffer is None:
        return np.zeros(len(array), dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, len(array), array.offset * width)


def _flat_words(array: pa.Array) -> Words:
    data_type = array.type
    integer = _INTEGERS.get(data_type)
    if integer is not None:
        return _buffer(array, integer).astype(np.int64, copy=False).view(np.uint64)
    if pa.types.is_timestamp(data_type):
        return _buffer(array, np.uint64) * np.uint64(_NANOS[data_type.unit])
    if pa.types.is_floating(data_type):
        return _float_words(array)
    if pa.types.is_decimal128(data_type):
        return _decimal_words(array)
    if pa.types.is_boolean(data_type):
        return _buffer(array.cast(pa.uint8()), np.uint8).astype(np.uint64)
    if pa.types.is_temporal(data_type):
        return _time_words(array)
    if pa.types.is_null(data_type):
        return np.zeros(len(array), np.uint64)
    return _byte_words(array)


def _float_words(array: pa.Array) -> Words:
    if pa.types.is_float16(array.type):
        raise UnsupportedError(
            f"a column of Arrow type {array.type} has no digest: no data type of the format is "
            "stored in this type"
        )
    values = _buffer(array, np.float64 if pa.types.is_float64(array.type) else np.float32)
    words: Words = values.astype(np.float64, copy=False).view(np.uint64)
    odd = np.isnan(values)
    if odd.any():
        words = words.copy()
        words[odd] = _NAN
    return words


def _decimal_words(array: pa.Array) -> Words:
    buffer = array.buffers()[1]
    pairs = np.frombuffer(buffer, np.uint64, 2 * len(array), 16 * array.offset).reshape(-1, 2)
    words: Words = pairs[:, 1] * _HIGH
    words ^= pairs[:, 0]
    return words


def _time_words(array: pa.Array) -> Words:
    data_type = array.type
    if pa.types.is_date64(data_type):
        return (_buffer(array, np.int64) // _DAY_MILLIS).view(np.uint64)
    if not pa.types.is_time(data_type):
        raise UnsupportedError(f"digest of {data_type}: no data type of the format is stored like that")
    values = _buffer(array, np.int32 if pa.types.is_time32(data_type) else np.int64).astype(np.int64)
    millis = values * 1000 if data_type.unit == "s" else values // _MILLIS_DIVISOR.get(data_type.unit, 1)
    return millis.view(np.uint64)


def _byte_words(array: pa.Array) -> Words:
    data_type = array.type
    if pa.types.is_fixed_size_binary(data_type):
        return _byte_words(array.cast(pa.binary()))
    if data_type in (pa.string_view(), pa.binary_view()):
        return _byte_words(array.cast(pa.string() if data_type == pa.string_view() else pa.binary()))
    large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    if not (large or pa.types.is_string(data_type) or pa.types.is_binary(data_type)):
        raise UnsupportedError(f"digest of {data_type}: no data type of the format is stored like that")
    if not len(array):
        return np.zeros(0, np.uint64)
    _, bounds, data = array.buffers()
    width = np.int64 if large else np.int32
    offsets = np.frombuffer(bounds, width, len(array) + 1, array.offset * np.dtype(width).itemsize)
    return hash_bytes(offsets, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))


def _nested_hashes(array: pa.Array, constant: int) -> Words | None:
    """Return the hashes of values with parts, and of dictionary arrays; None for flat types."""
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        return _dictionary_words(array)
    if pa.types.is_struct(data_type):
        total = np.zeros(len(array), np.uint64)
        for position in range(data_type.num_fields):
            fold(total)
            total += hash_array(array.field(position), _part(constant, position))
        return total
    if pa.types.is_map(data_type):
        begin, end, bounds = _bounds(array)
        pairs = fold(hash_array(array.keys[begin:end], _part(constant, 0)))
        pairs += hash_array(array.items[begin:end], _part(constant, 1))
        return _sums(mix(pairs), bounds)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        begin, end, bounds = _bounds(array)
        return _list_words(array.values[begin:end], bounds, constant)
    if pa.types.is_fixed_size_list(data_type):
        bounds = np.arange(len(array) + 1, dtype=np.int64) * data_type.list_size
        elements = array.values[
            array.offset * data_type.list_size : (array.offset + len(array)) * data_type.list_size
        ]
        return _list_words(elements, bounds, constant)
    return None


def _part(constant: int, position: int) -> int:
    return (constant * (2 * position + 3) + int(_ELEMENT) * 2 * (position + 1)) & _MASK | 1


def _by_code(array: pa.Array) -> bool:
    """Return whether a dictionary array can be hashed by its distinct values."""
    return not array.dictionary.null_count and not pa.types.is_nested(array.type.value_type)


def _dictionary_words(array: pa.Array) -> Words:
    """Return the hashes of a dictionary array; each distinct value is hashed once."""
    codes = array.indices.fill_null(0) if array.indices.null_count else array.indices
    if not len(array.dictionary):
        return np.zeros(len(array), np.uint64)
    words: Words = _flat_words(array.dictionary).take(codes.to_numpy())
    return words


def _bounds(array: pa.Array) -> tuple[int, int, npt.NDArray[np.int64]]:
    offsets = array.offsets.to_numpy().astype(np.int64)
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return begin, end, offsets - begin


def _list_words(elements: pa.Array, bounds: npt.NDArray[np.int64], constant: int) -> Words:
    hashes = hash_array(elements, _part(constant, 0))
    sizes = np.diff(bounds)
    position = np.arange(len(elements), dtype=np.int64) - np.repeat(bounds[:-1], sizes)
    hashes += (position + 1).view(np.uint64) * _ELEMENT
    return _sums(mix(hashes), bounds)


def _sums(hashes: Words, bounds: npt.NDArray[np.int64]) -> Words:
    """Return size and wrapping sum of each range, from a running sum, so that empty ranges need no care."""
    running = np.zeros(len(hashes) + 1, np.uint64)
    np.cumsum(hashes, out=running[1:])
    total: Words = running[bounds[1:]] - running[bounds[:-1]]
    total += np.diff(bounds).view(np.uint64) * _VALUE
    return total
