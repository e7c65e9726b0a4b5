"""This module stores byte strings in numpy: rows of words for exact comparison, and hashes to find
candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass

__all__ = ["WORD_PADDING", "ByteWords", "hash_bytes", "hash_slices", "mix"]

U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]

WORD_PADDING = 8
"""A buffer must have so many spare bytes behind its last string."""

_SEED = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_CHUNK = 1 << 11
_ALL = (1 << 64) - 1
_FEW, _SHORT = 16, 4096
_ENDINGS_AT_ONCE = 1 << 15


def mix(state: U64, word: Any) -> U64:
    """Mix one word per element into `state`. It wraps, and the order of words matters."""
    state = (state ^ word) * _PRIME
    out: U64 = state ^ (state >> _SHIFT)
    return out


def _start_state(length: Ints) -> U64:
    return length.astype(np.uint64) + _SEED


@dataclass(frozen=True, slots=True, eq=False)
class ByteWords:
    """Row i of `words` is string i, which has `length[i]` bytes, little-endian and padded with zeros."""

    words: U64
    length: Ints

    def __len__(self) -> int:
        return len(self.length)

    @classmethod
    def from_bytes(cls, values: Sequence[bytes]) -> ByteWords:
        """Copy the strings; the result is as wide as the longest one."""
        length = np.fromiter(map(len, values), np.int32, len(values))
        width = (int(length.max(initial=0)) + 7) >> 3
        data = b"".join(value.ljust(8 * width, b"\0") for value in values)
        return cls(np.frombuffer(data, "<u8").reshape(len(values), width), length)

    @classmethod
    def from_slices(cls, buffer: npt.NDArray[np.uint8], start: I64, length: I64) -> ByteWords:
        """Gather `buffer[start:start+length]` for each element. It costs one gather per eight bytes of the
        longest.
        """
        words = np.ndarray((max(len(buffer) - 7, 0),), "<u8", buffer, strides=(1,))
        width = (int(length.max(initial=0)) + 7) >> 3
        out = np.zeros((len(start), width), np.uint64)
        for low in range(0, len(start), _CHUNK):
            part = slice(low, low + _CHUNK)
            for index in range(width):
                _gather(out[part, index], words, start[part] + 8 * index, length[part] - 8 * index)
        return cls(out, length.astype(np.int32))

    def select(self, index: Ints) -> ByteWords:
        return ByteWords(self.words[index], self.length[index])

    @property
    def memory(self) -> int:
        """Return how many bytes the strings hold."""
        return int(self.words.nbytes + self.length.nbytes)

    def hashes(self) -> U64:
        """Return the hashes that `hash_slices` and `hash_bytes` give for the same strings."""
        state = _start_state(self.length)
        if not len(state):
            return state
        whole = (int(self.length.min()) + 7) >> 3
        for index in range(self.words.shape[1]):
            if index < whole:
                state = mix(state, self.words[:, index])
            else:
                lanes = np.flatnonzero(self.length > 8 * index)
                state[lanes] = mix(state[lanes], self.words[lanes, index])
        return state

    def same(self, left: Ints, right: Ints) -> npt.NDArray[np.bool_]:
        """Return whether string `left[i]` equals string `right[i]`. The answer is exact."""
        equal: npt.NDArray[np.bool_] = self.length[left] == self.length[right]
        for index in range(self.words.shape[1]):
            column = self.words[:, index]
            equal &= column[left] == column[right]
        return equal

    def to_list(self) -> list[bytes]:
        """Return the strings."""
        width = 8 * self.words.shape[1]
        data = np.ascontiguousarray(self.words).tobytes()
        return [data[i * width : i * width + size] for i, size in enumerate(self.length.tolist())]

    def end_numbers(self, mark: bytes) -> I64:
        """Return a number for what comes after the first `mark` (one byte) of each string, the same for the
        same bytes; a string without it counts whole. It costs 0.1 us a string where few endings differ.
        """
        numbers: dict[bytes, int] = {}
        out = np.empty(len(self), np.int64)
        for low in range(0, len(self), _ENDINGS_AT_ONCE):
            part = slice(low, low + _ENDINGS_AT_ONCE)
            _number_endings(ByteWords(self.words[part], self.length[part]), mark, numbers, out[part])
        return out

    @classmethod
    def assemble(cls, size: int, parts: Sequence[tuple[Ints, ByteWords]]) -> ByteWords:
        """Put the strings of several sets at the given places of a set of `size`."""
        width = max((part.words.shape[1] for _, part in parts), default=0)
        out = cls(np.zeros((size, width), np.uint64), np.zeros(size, np.int32))
        for places, part in parts:
            out.words[places, : part.words.shape[1]] = part.words
            out.length[places] = part.length
        return out


def _gather(out: U64, words: U64, start: I64, remaining: I64) -> None:
    """Write the next word of each lane to `out`; lanes with less than a word are cut, or zero."""
    if int(remaining.min(initial=8)) >= 8:
        out[:] = words[start]
        return
    lanes = np.flatnonzero(remaining > 0)
    spare = np.maximum(64 - 8 * remaining[lanes], 0).astype(np.uint64)
    out[lanes] = (words[start[lanes]] << spare) >> spare


def _number_endings(strings: ByteWords, mark: bytes, numbers: dict[bytes, int], out: I64) -> None:
    """Write the numbers of the endings to `out`, new ones also to `numbers`."""
    data = np.ascontiguousarray(strings.words).view(np.uint8)
    data = np.concatenate([data, np.full((len(data), 1), mark[0], np.uint8)], 1)
    start = (data == mark[0]).argmax(1) + 1
    start[start > strings.length] = 0
    size = strings.length - start
    todo = np.arange(len(strings))
    for _ in range(_FEW):
        if not len(todo):
            return
        first = todo[0]
        ending = data[first, start[first] : strings.length[first]]
        lanes = todo[size[todo] == len(ending)]
        columns = start[lanes][:, None] + np.arange(len(ending))
        lanes = lanes[(data[lanes[:, None], columns] == ending).all(1)]
        out[lanes] = numbers.setdefault(ending.tobytes(), len(numbers))
        todo = np.setdiff1d(todo, lanes, assume_unique=True)
    for lane in todo.tolist():
        ending = data[lane, start[lane] : strings.length[lane]]
        out[lane] = numbers.setdefault(ending.tobytes(), len(numbers))


def hash_slices(buffer: npt.NDArray[np.uint8], start: I64, length: I64) -> U64:
    """Hash each `buffer[start:start+length]`, of any length, without keeping its words."""
    words = np.ndarray((max(len(buffer) - 7, 0),), "<u8", buffer, strides=(1,))
    state = _start_state(length)
    word = np.zeros(len(start), np.uint64)
    for index in range((int(length.max(initial=0)) + 7) >> 3):
        size = length - 8 * index
        lanes = np.flatnonzero(size > 0)
        if len(lanes) == len(start):
            _gather(word, words, start + 8 * index, size)
            state = mix(state, word)
            continue
        some = np.empty(len(lanes), np.uint64)
        _gather(some, words, start[lanes] + 8 * index, size[lanes])
        state[lanes] = mix(state[lanes], some)
    return state


def hash_bytes(values: Sequence[bytes]) -> U64:
    """Return the same hashes for strings that are not in a buffer."""
    if len(values) <= _FEW and sum(map(len, values)) <= _SHORT:
        return np.array([_hash_of(value) for value in values], np.uint64)
    length = np.fromiter(map(len, values), np.int64, len(values))
    start = np.cumsum(length) - length
    buffer = np.frombuffer(b"".join(values) + bytes(WORD_PADDING), np.uint8)
    return hash_slices(buffer, start, length)


def _hash_of(value: bytes) -> int:
    """Return the hash of one value, which is cheaper for a few values."""
    state = (len(value) + int(_SEED)) & _ALL
    for at in range(0, len(value), 8):
        state = (state ^ int.from_bytes(value[at : at + 8], "little")) * int(_PRIME) & _ALL
        state ^= state >> int(_SHIFT)
    return state
