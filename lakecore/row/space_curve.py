"""This module computes positions on space-filling curves: columns of words to words that order rows. It
does no IO.

A position is a list of word columns, the most significant first; rows compare word by word, unsigned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["HILBERT_BITS", "WORD_BITS", "Words", "hilbert", "interleave"]

Words = npt.NDArray[np.uint64]

WORD_BITS = 64
HILBERT_BITS = 63
_ONE = np.uint64(1)


def interleave(columns: Sequence[Sequence[Words]], widths: Sequence[int]) -> list[Words]:
    """Return the z-order: bits of all columns in turn, the highest first.

    `columns` has the words of each column, the most significant first, with values left-aligned; `widths` is
    the number of bits of each that count. A column without bits left is passed over. The cost is four passes
    over the rows per bit.
    """
    return _gather(
        (columns[number][bit // WORD_BITS], WORD_BITS - 1 - bit % WORD_BITS)
        for bit in range(max(widths))
        for number, width in enumerate(widths)
        if bit < width
    )


def hilbert(points: Sequence[Words], bits: int = HILBERT_BITS) -> list[Words]:
    """Return the position on the Hilbert curve through points of `bits` bits per column, by Skilling's
    transposition.

    The method is that of "Programming the Hilbert curve" by John Skilling (AIP Conference Proceedings 707,
    2004). Cost: about 14 passes over the rows a bit and column.
    """
    axes = [point & np.uint64((1 << bits) - 1) for point in points]
    _undo_excess_work(axes, bits)
    _gray_encode(axes, bits)
    return _gather((axis, bit) for bit in range(bits - 1, -1, -1) for axis in axes)


def _undo_excess_work(axes: list[Words], bits: int) -> None:
    for bit in range(bits - 1, 0, -1):
        shift, low = np.uint64(bit), np.uint64((1 << bit) - 1)
        for number, axis in enumerate(axes):
            inverted = (axis >> shift) & _ONE
            flip = inverted * low
            if number == 0:
                axes[0] = axis ^ flip
                continue
            swap: Words = (axes[0] ^ axis) & (low ^ flip)
            axes[0] = axes[0] ^ flip ^ swap
            axes[number] = axis ^ swap


def _gray_encode(axes: list[Words], bits: int) -> None:
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    flips: Words = np.zeros_like(axes[-1])
    for bit in range(bits - 1, 0, -1):
        flips ^= ((axes[-1] >> np.uint64(bit)) & _ONE) * np.uint64((1 << bit) - 1)
    for number, axis in enumerate(axes):
        axes[number] = axis ^ flips


def _gather(bits: Iterator[tuple[Words, int]]) -> list[Words]:
    """Return bits (each a column of words and the place of a bit in them), the most significant first, as
    words.
    """
    words: list[Words] = []
    for count, (source, place) in enumerate(bits):
        if count % WORD_BITS == 0:
            words.append(np.zeros(len(source), np.uint64))
        words[-1] |= ((source >> np.uint64(place)) & _ONE) << np.uint64(WORD_BITS - 1 - count % WORD_BITS)
    return words
