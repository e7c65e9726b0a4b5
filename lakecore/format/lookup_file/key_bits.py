"""This module makes the bloom filter of a lookup file. Source: Paimon's BloomFilter and MurmurHashUtils."""

from __future__ import annotations

import math

import numpy as np

from lakecore.format.lookup_file.compact_values import ByteRows
from lakecore.format.lookup_file.varints import Ints

__all__ = ["KeyBits"]

_SEED = 42
_WORD = 4
_INT = np.uint32


class KeyBits:
    """It has some bits for each key."""

    def __init__(self, rows: int, fpp: float) -> None:
        """Begin without keys; `rows` of them are expected, `fpp` is the probability of a false positive."""
        size = math.ceil(int(-rows * math.log(fpp) / math.log(2) ** 2) / 8)
        self._bits = np.zeros(8 * max(size, 1), bool)
        self._probes = max(1, math.floor(len(self._bits) / rows * math.log(2) + 0.5))
        self.rows = rows
        """It is the number of rows that are expected."""

    @property
    def data(self) -> bytes:
        """Return the bits as bytes, the lowest bit first."""
        return np.packbits(self._bits, bitorder="little").tobytes()

    def add(self, keys: ByteRows) -> None:
        """Set the bits of these keys."""
        first = _murmur(keys)
        second = first >> _INT(16)
        for probe in range(1, self._probes + 1):
            mixed = (first + _INT(probe) * second).view(np.int32)
            self._bits[np.where(mixed < 0, ~mixed, mixed) % len(self._bits)] = True


def _murmur(keys: ByteRows) -> Ints:
    """Return Murmur3 of the bytes of each key: over words of four bytes, then over each byte that is left."""
    data = np.concatenate([keys.data, np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(keys.data) + 1,), "<u4", data, strides=(1,))
    starts = np.cumsum(keys.sizes) - keys.sizes
    code = np.full(len(keys), _SEED, _INT)
    whole = keys.sizes // _WORD
    for number in range(int(whole.max(initial=0))):
        has = number < whole
        code[has] = _mix(code[has], words[starts[has] + _WORD * number])
    rest = keys.sizes - _WORD * whole
    for number in range(_WORD - 1):
        has = number < rest
        octets = data[(starts + _WORD * whole)[has] + number].view(np.int8)
        code[has] = _mix(code[has], octets.astype(np.int32).view(_INT))
    code ^= keys.sizes.astype(_INT)
    code = (code ^ code >> _INT(16)) * _INT(0x85EBCA6B)
    code = (code ^ code >> _INT(13)) * _INT(0xC2B2AE35)
    return code ^ code >> _INT(16)


def _mix(code: Ints, word: Ints) -> Ints:
    word = _rotate(word.astype(_INT) * _INT(0xCC9E2D51), 15) * _INT(0x1B873593)
    return _rotate(code ^ word, 13) * _INT(5) + _INT(0xE6546B64)


def _rotate(value: Ints, by: int) -> Ints:
    return value << _INT(by) | value >> _INT(32 - by)
