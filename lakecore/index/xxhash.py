"""This module computes xxHash64 (seed 0) of many byte strings at once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["xxhash64"]

Words: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(value)
    for value in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32


def xxhash64(array: pa.Array) -> Words:
    """Return the hash of each value of a large binary array without nulls. The cost grows with the bytes,
    whatever the lengths.
    """
    offsets = np.frombuffer(array.buffers()[1], "<i8", len(array) + 1, 8 * array.offset)
    data = array.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    padded = np.concatenate([raw[: offsets[-1]], np.zeros(8, np.uint8)])
    start, length = offsets[:-1].copy(), np.diff(offsets)
    with np.errstate(over="ignore"):
        return _Hashing(padded, start, length).run()


class _Hashing:
    """The strings still to be read: where each goes on, and how many bytes are left of it."""

    def __init__(self, data: npt.NDArray[np.uint8], start: Ints, length: Ints) -> None:
        self._words = _view(data, "<u8")
        self._halves = _view(data, "<u4")
        self._bytes = data
        self._at = start
        self._remaining = length.copy()
        self._length = length

    def run(self) -> Words:
        hashes = self._stripes()
        hashes += self._length.astype(np.uint64)
        self._tail(hashes, 8, self._word)
        self._tail(hashes, 4, self._half)
        self._tail(hashes, 1, self._byte)
        return _avalanche(hashes)

    def _stripes(self) -> Words:
        hashes = np.full(len(self._at), _P5, np.uint64)
        long = np.flatnonzero(self._remaining >= _STRIPE)
        if not len(long):
            return hashes
        seeds = (_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1)
        lanes = [np.full(len(long), seed, np.uint64) for seed in seeds]
        live = np.arange(len(long))
        while len(live):
            rows = long[live]
            for i, lane in enumerate(lanes):
                lane[live] = _round(lane[live], self._words[self._at[rows] + 8 * i])
            self._at[rows] += _STRIPE
            self._remaining[rows] -= _STRIPE
            live = live[self._remaining[rows] >= _STRIPE]
        total: Words = np.zeros(len(long), np.uint64)
        for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
            total = total + _rotate(lane, bits)
        for lane in lanes:
            total = (total ^ _round(np.uint64(0), lane)) * _P1 + _P4
        hashes[long] = total
        return hashes

    def _tail(self, hashes: Words, size: int, mix: Any) -> None:
        live = np.flatnonzero(self._remaining >= size)
        while len(live):
            hashes[live] = mix(hashes[live], self._at[live])
            self._at[live] += size
            self._remaining[live] -= size
            live = live[self._remaining[live] >= size]

    def _word(self, hashes: Words, at: Ints) -> Words:
        return _rotate(hashes ^ _round(np.uint64(0), self._words[at]), 27) * _P1 + _P4

    def _half(self, hashes: Words, at: Ints) -> Words:
        return _rotate(hashes ^ self._halves[at].astype(np.uint64) * _P1, 23) * _P2 + _P3

    def _byte(self, hashes: Words, at: Ints) -> Words:
        return _rotate(hashes ^ self._bytes[at].astype(np.uint64) * _P5, 11) * _P1


def _view(data: npt.NDArray[np.uint8], dtype: str) -> Any:
    """Return a view of the value at every position."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))


def _rotate(values: Words, bits: int) -> Words:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _round(lane: Any, word: Words) -> Words:
    return _rotate(lane + word * _P2, 31) * _P1


def _avalanche(hashes: Words) -> Words:
    hashes = (hashes ^ hashes >> np.uint64(33)) * _P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * _P3
    return hashes ^ hashes >> np.uint64(32)
