"""File index `bloom-filter`: can a value be in the file at all?

Bytes: number of hash functions (int32), then the bit set, bit i in byte i >> 3. Nulls are not in it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.index.query import Among, Query
from lakecore.index.values import float_bits, stored_numbers, stored_texts, width_of
from lakecore.index.xxhash import xxhash64
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["BloomFilterRules", "BloomFilterWriter", "search"]

Hashes: TypeAlias = npt.NDArray[np.int64]

_HEAD = struct.Struct(">i")
_MAX_BITS = (1 << 31) - 9
_MOST_VALUES = 32
_FEW = 4096
_SMALL_BITS = 1 << 23


@dataclass(frozen=True, slots=True)
class BloomFilterRules:
    """It has the number of different values that a file is expected to have, and the share of false
    answers at that number.
    """

    items: int = 1_000_000
    fpp: float = 0.1

    @property
    def bits(self) -> int:
        """Return the number of bits: a multiple of 8, always some more than asked for (rule of the
        format).
        """
        bit_count = int(-self.items * math.log(self.fpp) / (math.log(2) * math.log(2)))
        return bit_count + (8 - bit_count % 8)

    @property
    def functions(self) -> int:
        return max(1, math.floor(self.bits / self.items * math.log(2) + 0.5))

    def check(self, key: str) -> None:
        """Raise InvalidOptionError that names `key`, the prefix of the options, if a rule is out of range."""
        if self.items <= 0 or not 0 < self.fpp < 1:
            raise InvalidOptionError(
                f"option {key}: items={self.items} must be above 0, fpp={self.fpp} between 0 and 1"
            )
        if self.bits > _MAX_BITS:
            raise InvalidOptionError(
                f"option {key}: items={self.items} with fpp={self.fpp} needs {self.bits} bits, but at most "
                f"{_MAX_BITS} can be stored; lower items, or raise fpp"
            )


class BloomFilterWriter:
    """It writes the filter of one column, to which batches are added. It needs the memory of the filter,
    `bits / 8` bytes whatever the number of rows; for a small filter, one byte for each bit.
    """

    def __init__(self, data_type: AtomicType, rules: BloomFilterRules) -> None:
        self._kind = data_type
        self._functions = rules.functions
        self._bits = rules.bits
        self._small = rules.bits <= _SMALL_BITS
        self._set = np.zeros(rules.bits if self._small else rules.bits // 8, np.uint8)

    def add(self, array: pa.Array) -> None:
        values = array.drop_null()
        if len(values):
            for positions in _positions(_column_hashes(values, self._kind), self._functions, self._bits):
                if self._small:
                    self._set[positions] = 1
                else:
                    np.bitwise_or.at(self._set, positions >> 3, _bit(positions))

    def encode(self) -> bytes:
        packed = np.packbits(self._set, bitorder="little") if self._small else self._set
        return _HEAD.pack(self._functions) + packed.tobytes()


def search(data: bytes, data_type: AtomicType, query: Query, path: str) -> BitMap | None:
    """Return no rows where none of the values can be in the file, and None (unknown) otherwise.

    Raises CorruptDataError.
    """
    if not isinstance(query, Among):
        return None
    if len(data) <= _HEAD.size:
        raise CorruptDataError(path, f"contains a bloom filter of {len(data)} bytes, which is not possible")
    (functions,) = _HEAD.unpack_from(data)
    if not 0 < functions <= len(data) * 8:
        raise CorruptDataError(
            path, f"contains a bloom filter with {functions} hash functions, which is not possible"
        )
    if not query.values:
        return BitMap()
    if len(query.values) == 1:
        bit_positions = _bits_of_one(query.values, data_type, functions, 8 * (len(data) - _HEAD.size))
        return None if all(data[at] & bit for at, bit in bit_positions) else BitMap()
    bits = np.frombuffer(data, np.uint8, offset=_HEAD.size)
    if functions * len(query.values) <= _FEW:
        places, value_bits = _value_bits(query.values, data_type, functions, 8 * len(bits))
        return None if (bits[places] & value_bits != 0).all(axis=0).any() else BitMap()
    may = np.ones(len(query.values), bool)
    for positions in _positions(_value_hashes(query.values, data_type), functions, len(bits) * 8):
        may &= (bits[positions >> 3] & _bit(positions)) != 0
        if not may.any():
            return BitMap()
    return None


@lru_cache(_MOST_VALUES)
def _value_bits(
    values: tuple[Any, ...], data_type: AtomicType, functions: int, bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return, for each function and value, the byte that has its bit, and the bit in it. They are the same
    for many files.
    """
    positions = np.stack(list(_positions(_value_hashes(values, data_type), functions, bits)))
    return positions >> 3, _bit(positions)


@lru_cache(_MOST_VALUES)
def _bits_of_one(
    values: tuple[Any, ...], data_type: AtomicType, functions: int, bits: int
) -> tuple[tuple[int, int], ...]:
    """Return the same as `_value_bits` for one value, by the bytes of the whole blob: without numpy a search
    takes a microsecond.
    """
    places, value_bits = _value_bits(values, data_type, functions, bits)
    return tuple(zip((places[:, 0] + _HEAD.size).tolist(), value_bits[:, 0].tolist(), strict=True))


def _bit(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (positions & 7).astype(np.uint8))


def _positions(hashes: Hashes, functions: int, bits: int) -> Iterator[Hashes]:
    """Yield, for each hash function in turn, the bit of each hash, by 32-bit arithmetic that wraps around."""
    first = hashes.astype(np.int32)
    second = (hashes >> np.int64(32)).astype(np.int32)
    combined = first.copy()
    for _ in range(functions):
        combined = combined + second
        yield (np.where(combined < 0, ~combined, combined).view(np.uint32) % np.uint32(bits)).astype(np.int64)


def _column_hashes(array: pa.Array, data_type: AtomicType) -> Hashes:
    if width_of(data_type) is None:
        return xxhash64(stored_texts(array, data_type)).view(np.int64)
    return _long_hash(_raw(stored_numbers(array, data_type)[0], data_type))


def _value_hashes(values: tuple[Any, ...], data_type: AtomicType) -> Hashes:
    """Return the hashes of stored values."""
    if width_of(data_type) is None:
        return xxhash64(pa.array(values, pa.large_binary())).view(np.int64)
    return _long_hash(_raw(np.array(values, np.int64), data_type))


def _raw(numbers: Hashes, data_type: AtomicType) -> Hashes:
    """Return what is hashed: the number, or the bits of a float as a signed number."""
    if data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return float_bits(numbers, data_type).astype(np.int64)
    return numbers


def _long_hash(keys: Hashes) -> Hashes:
    """Return Thomas Wang's hash of 64-bit integers, with signed shifts (rule of the format)."""
    with np.errstate(over="ignore"):
        keys = ~keys + (keys << 21)
        keys = keys ^ (keys >> 24)
        keys = keys + (keys << 3) + (keys << 8)
        keys = keys ^ (keys >> 14)
        keys = keys + (keys << 2) + (keys << 4)
        keys = keys ^ (keys >> 28)
        return keys + (keys << 31)
