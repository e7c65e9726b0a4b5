"""This module computes hashes of rows: Murmur3 over the BinaryRow (buckets, dynamic-bucket index) and the
hash of Hive tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakecore.errors import UnsupportedError
from lakecore.row.binary_batch import encode_batch
from lakecore.row.values import normal_array
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot

__all__ = ["hash_longs", "hash_rows", "hive_hash_rows"]

Hashes = NDArray[np.uint32]

_SEED = 42
_CHUNK = 1 << 15
_C1, _C2, _N = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_FIVE, _31 = np.uint32(5), np.uint32(31)


def hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], row_type: RowType) -> NDArray[np.int32]:
    """Return the 32-bit hash of each row of `columns` (one per field of `row_type`): Murmur3, seed 42, over
    the whole BinaryRow including padding. The cost is about 60 ns per row of one BIGINT, and more for
    strings.
    """
    arrays = [
        normal_array(column, field.type) for column, field in zip(columns, row_type.fields, strict=True)
    ]
    rows = len(arrays[0])
    out = np.empty(rows, np.uint32)
    for start in range(0, rows, _CHUNK):
        binary = encode_batch([array.slice(start, _CHUNK) for array in arrays], row_type)
        out[start : start + _CHUNK] = _murmur(binary.words, binary.starts)
    return out.view(np.int32)


def hash_longs(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the hash of each number alone, by which Spark shuffles rows of a BIGINT column: Murmur3, seed
    42, over its 8 bytes.
    """
    return _murmur(values.view(np.uint64), np.arange(len(values) + 1, dtype=np.int64)).view(np.int32)


def _murmur(words: NDArray[np.uint64], starts: NDArray[np.int64]) -> Hashes:
    halves = words.view("<u4")
    sizes = np.diff(starts) * 2
    low = int(sizes.min())
    hashes = np.full(len(sizes), _SEED, np.uint32)
    first = starts[:-1] * 2
    uniform = low == int(sizes.max())
    matrix = halves.reshape(-1, low) if uniform else None
    for i in range(low):
        _mix(hashes, halves[first + i] if matrix is None else matrix[:, i].copy())
    if not uniform:
        _mix_rest(hashes, halves, first, sizes)
    return _finish(hashes, (sizes * 4).astype(np.uint32))


def _mix_rest(hashes: Hashes, halves: Hashes, first: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    """Mix the words beyond the shortest row into the hashes: fewer rows take part in every step."""
    start = int(sizes.min())
    live = np.flatnonzero(sizes > start)
    while len(live):
        part = hashes[live]
        _mix(part, halves[first[live] + start])
        hashes[live] = part
        start += 1
        live = live[sizes[live] > start]


def _rotate(values: Hashes, bits: int) -> None:
    high = values >> np.uint32(32 - bits)
    values <<= np.uint32(bits)
    values |= high


def _mix(hashes: Hashes, block: Hashes) -> None:
    """Mix one 4-byte block into each hash; both arrays are changed in place."""
    block *= _C1
    _rotate(block, 15)
    block *= _C2
    hashes ^= block
    _rotate(hashes, 13)
    hashes *= _FIVE
    hashes += _N


def _finish(hashes: Hashes, lengths: Hashes) -> Hashes:
    hashes ^= lengths
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes


# --- Hive: h = 31 * h + hash of the field, from 0; a null counts as 0


def hive_hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], row_type: RowType) -> NDArray[np.int32]:
    """Return the hash of Hive tables for each row (`bucket-function.type` = hive). Raises UnsupportedError
    for nested keys.
    """
    out: Hashes | None = None
    for column, field in zip(columns, row_type.fields, strict=True):
        part = _hive_field(normal_array(column, field.type), field.type)
        out = part if out is None else out * _31 + part
    if out is None:
        raise UnsupportedError("a hive bucket needs a bucket key")
    return out.view(np.int32)


def _hive_field(array: pa.Array, data_type: DataType) -> Hashes:
    root = data_type.root if isinstance(data_type, AtomicType) else None
    if root in _HIVE_INTS:
        ints = array.cast(pa.int8()) if root is TypeRoot.BOOLEAN else array
        return _plain(ints, _HIVE_INTS[root]).astype(np.int32).view(np.uint32)
    if root is TypeRoot.BIGINT:
        return _fold(_plain(array, "<u8"))
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        numbers = _plain(array, "<f4" if root is TypeRoot.FLOAT else "<f8").copy()
        numbers[numbers == 0] = 0  # -0.0 hashes as 0.0
        return numbers.view(np.uint32) if root is TypeRoot.FLOAT else _fold(numbers.view(np.uint64))
    if root in _HIVE_BYTES:
        return _hive_bytes(array)
    if root is TypeRoot.DECIMAL:
        return np.array([_hive_decimal(value) for value in array.to_pylist()], np.uint32)
    raise UnsupportedError(f"bucket-function.type=hive over a column of type {data_type}")


_HIVE_INTS = {
    TypeRoot.BOOLEAN: "<i1",
    TypeRoot.TINYINT: "<i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
}
_HIVE_BYTES = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)


def _plain(array: pa.Array, dtype: str) -> NDArray[Any]:
    """Return the values, with 0 for null."""
    values = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)
    if array.null_count:
        values = np.where(array.is_null().to_numpy(zero_copy_only=False), np.zeros((), dtype), values)
    return values


def _fold(bits: NDArray[np.uint64]) -> Hashes:
    return (bits ^ bits >> np.uint64(32)).astype(np.uint32)


def _hive_bytes(array: pa.Array) -> Hashes:
    """Return the hash of each value: h = 31 * h + byte, where bytes are signed."""
    offsets = np.frombuffer(array.buffers()[1], "<i4", len(array) + 1, array.offset * 4).astype(np.int64)
    first, sizes = offsets[:-1], np.diff(offsets)
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    hashes = np.zeros(len(array), np.uint32)
    if not sizes.any():
        return hashes
    data = np.frombuffer(array.buffers()[2], np.int8)
    start = 0
    live = np.flatnonzero(sizes > 0)
    while len(live):
        hashes[live] = hashes[live] * _31 + data[first[live] + start].astype(np.int32).view(np.uint32)
        start += 1
        live = live[sizes[live] > start]
    return hashes


def _hive_decimal(value: Decimal | None) -> int:
    """Return 31 * hash(unscaled) + scale of the value without trailing zeros and with a scale of at least
    0.
    """
    if value is None:
        return 0
    sign, digits, exponent = value.as_tuple()
    number, scale = int("".join(map(str, digits))), -int(exponent)
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    if scale < 0:
        number, scale = number * 10**-scale, 0
    unscaled = 0
    for shift in range((number.bit_length() + 31) // 32 * 32 - 32, -32, -32):
        unscaled = (unscaled * 31 + (number >> shift & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (31 * (-unscaled if sign else unscaled) + scale) & 0xFFFFFFFF
