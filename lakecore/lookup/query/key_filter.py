"""This module has the bloom filter of a local copy: it tells which keys the file certainly does not have.

All bits of a key are in one word of 64 bits, so that a test reads one word. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["KeyFilter"]

Words = np.ndarray[Any, Any]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_SIX_BITS = np.uint64(63)
_MARGIN = 1.35
"""Words fill unevenly: so many more bits give the probability of a filter without words."""


class KeyFilter:
    """It has the hashes of the keys of one file. It can answer for keys by their hashes only."""

    def __init__(self, hashes: Iterable[Words], count: int, fpp: float) -> None:
        """Enter hashes of 64 bits. `count` is their number, `fpp` the probability of a false positive.

        Memory: about 8 bits a key at a probability of 0.05.
        """
        bits = max(1.0, -math.log(fpp) / math.log(2) ** 2) * _MARGIN
        self._probes = max(1, round(bits / _MARGIN * math.log(2)))
        self._words = np.zeros(max(1, math.ceil(count * bits / 64)), np.uint64)
        for part in hashes:
            mixed = _mix(part)
            np.bitwise_or.at(self._words, self._places(mixed), self._masks(mixed))

    @classmethod
    def of_words(cls, words: Words, probes: int) -> KeyFilter:
        """Return the filter that has these words and this number of probes."""
        out = cls((), 0, 0.5)
        out._words, out._probes = words, probes
        return out

    @property
    def words(self) -> Words:
        """Return its words, which together with the number of probes are all it has."""
        return self._words

    @property
    def probes(self) -> int:
        """Return how many bits a key sets."""
        return self._probes

    @property
    def size(self) -> int:
        """Return the bytes that it takes."""
        return int(self._words.nbytes)

    def may_have(self, hashes: Words) -> Words:
        """Return for each hash whether its key may be in the file."""
        mixed = _mix(hashes)
        masks = self._masks(mixed)
        return np.asarray(self._words[self._places(mixed)] & masks == masks)

    def _places(self, mixed: Words) -> Words:
        return ((mixed >> np.uint64(32)) * np.uint64(len(self._words)) >> np.uint64(32)).astype(np.int64)

    def _masks(self, mixed: Words) -> Words:
        masks = np.zeros(len(mixed), np.uint64)
        bits = mixed * _SECOND
        for _ in range(self._probes):
            masks |= np.uint64(1) << (bits & _SIX_BITS)
            bits >>= np.uint64(6)
        return masks


def _mix(hashes: Words) -> Words:
    mixed = hashes.astype(np.uint64, copy=False) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    return mixed * _SECOND
