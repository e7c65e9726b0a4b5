"""This module computes 64-bit hashes of strings and byte strings, vectorised over a block of values. No IO.

A value is cut into 8-byte little-endian words, the last one padded with zeros. Its hash is the length times a
constant plus the sum over its words of `fold(mix(word * P + position * Q))`. The sum lets words be hashed
in any order: a position at a time over many short values, or all words of long values in one flat array.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["MIX", "Words", "fold", "hash_bytes", "mix"]

Words: TypeAlias = npt.NDArray[np.uint64]

MIX = np.uint64(0x94D049BB133111EB)
_SHIFT = np.uint64(32)
_FOLD_SHIFT = np.uint64(29)
_LENGTH = np.uint64(0xD6E8FEB86659FD93)
_WORD = np.uint64(0x9E3779B97F4A7C15)
_POSITION = np.uint64(0xBF58476D1CE4E5B9)
_WIDTH = 8
_NEAR_WORDS = 8
"""Words of a value that are hashed a position at a time; those after them go through the flat path."""
_BLOCK_BYTES = 4 << 20
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WIDTH + 1)], dtype=np.uint64)


def mix(words: Words) -> Words:
    """Return `words` with every bit spread over the upper half; the array is changed in place."""
    words ^= words >> _SHIFT
    words *= MIX
    return words


def fold(words: Words) -> Words:
    """Return `words` with their upper half in the lower one, too; the array is changed in place.

    Sums need it before the next value that was only mixed: the highest bits of two values (the signs of two
    floats) change mixed words by the same amount, and would cancel out half of the time.
    """
    words ^= words >> _FOLD_SHIFT
    return words


def hash_bytes(offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8]) -> Words:
    """Return the hash of each value i = data[offsets[i]:offsets[i + 1]]. Cost: about 7 ns a word; memory a
    few times 4 MB.
    """
    count = len(offsets) - 1
    size = int(offsets[-1] - offsets[0])
    if size > _BLOCK_BYTES and count > 1:
        half = count // 2
        return np.concatenate([hash_bytes(offsets[: half + 1], data), hash_bytes(offsets[half:], data)])
    lengths = np.diff(offsets).astype(np.int64, copy=False)
    hashes = lengths.view(np.uint64) * _LENGTH
    if not size:
        return hashes
    start = int(offsets[0])
    block = data[start : start + size]
    if int(lengths[0]) * count == size and (lengths == lengths[0]).all():
        return _add_equal(hashes, block.reshape(count, -1))
    padded = np.zeros(size + _WIDTH, np.uint8)
    padded[:size] = block
    starts = (offsets[:-1] - start).astype(np.int64, copy=False)
    _add_near(hashes, padded, starts, lengths)
    _add_far(hashes, padded, starts, lengths)
    return hashes


def _word_hashes(words: Words, positions: Any) -> Words:
    words *= _WORD
    words += positions
    return fold(mix(words))


def _position(index: int) -> np.uint64:
    return np.uint64((index + 1) * int(_POSITION) & 0xFFFFFFFFFFFFFFFF)


def _add_equal(hashes: Words, rows: npt.NDArray[np.uint8]) -> Words:
    """Add the hashes of values of one length, which are a matrix of words, so nothing is gathered."""
    count, length = rows.shape
    width = -(-length // _WIDTH)
    padded = np.zeros((count, width * _WIDTH), np.uint8)
    padded[:, :length] = rows
    positions = np.arange(1, width + 1, dtype=np.uint64) * _POSITION
    words = _word_hashes(padded.view(np.uint64), positions)
    for index in range(width) if width <= _NEAR_WORDS else ():
        hashes += words[:, index]
    return hashes if width <= _NEAR_WORDS else hashes + words.sum(axis=1, dtype=np.uint64)


def _words_at_every_byte(padded: npt.NDArray[np.uint8]) -> Words:
    """Return a view with one word starting at every byte."""
    return np.ndarray((len(padded) - _WIDTH + 1,), np.uint64, padded.data, strides=(1,))


def _add_near(
    hashes: Words,
    padded: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    words = _words_at_every_byte(padded)
    longest = int(lengths.max())
    for index in range(min(_NEAR_WORDS, -(-longest // _WIDTH))):
        start = index * _WIDTH
        rows = np.flatnonzero(lengths > start)
        everyone = len(rows) == len(lengths)
        at = starts + start if everyone else starts[rows] + start
        sizes = np.minimum((lengths if everyone else lengths[rows]) - start, _WIDTH)
        word_hashes = _word_hashes(words[at] & _MASKS.take(sizes), _position(index))
        if everyone:
            hashes += word_hashes
        else:
            hashes[rows] += word_hashes


def _add_far(
    hashes: Words,
    padded: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    """Add the words after the near ones, for all long values at once."""
    near = _NEAR_WORDS * _WIDTH
    rows = np.flatnonzero(lengths > near)
    if not len(rows):
        return
    counts = -(-(lengths[rows] - near) // _WIDTH)
    ends = np.cumsum(counts)
    index = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts) + _NEAR_WORDS
    start = index * _WIDTH
    at = np.repeat(starts[rows], counts) + start
    sizes = np.minimum(np.repeat(lengths[rows], counts) - start, _WIDTH)
    words = _words_at_every_byte(padded)[at] & _MASKS.take(sizes)
    word_hashes = _word_hashes(words, (index + 1).view(np.uint64) * _POSITION)
    hashes[rows] += np.add.reduceat(word_hashes, ends - counts)
