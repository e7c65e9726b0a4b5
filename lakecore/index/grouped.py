"""This module serialises the bitmaps of many groups of rows at once, in the portable Roaring form.

Rules of the form: rows lie in containers by their upper 16 bits, each a sorted array of the lower ones; a
container of more than 4,096 rows is a bit set, and one whose runs take fewer bytes holds runs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakecore.row.roaring.bitmap32 import MAX_ARRAY, PLAIN, encode_roaring

__all__ = ["encode_groups"]

Ints: TypeAlias = npt.NDArray[np.int64]

_HEAD_WORDS = 4
_CONTAINER_WORDS = 4


def encode_groups(rows: npt.NDArray[np.uint32], counts: Ints) -> tuple[bytes, Ints]:
    """Return one bitmap per group, joined, and the number of bytes of each. Group i has the next `counts[i]`
    (not 0) rows of `rows`, which are in order within it.

    Groups of arrays only are made by array operations, the others one by one: these are long, or few.
    """
    if not len(rows):
        return b"", np.zeros(0, np.int64)
    groups = np.repeat(np.arange(len(counts)), counts)
    key = rows >> 16
    opens = np.append(True, (groups[1:] != groups[:-1]) | (key[1:] != key[:-1]))
    starts = np.flatnonzero(opens)
    sizes = np.diff(starts, append=len(rows))
    breaks = opens.copy()
    breaks[1:] |= rows[1:] != rows[:-1] + np.uint32(1)
    runs = np.add.reduceat(breaks.astype(np.int64), starts)
    other = np.zeros(len(counts), bool)
    other[groups[starts[(sizes > MAX_ARRAY) | (2 * runs < sizes)]]] = True
    if not other.any():
        return _arrays(rows, counts, starts, sizes)
    is_single, plain = ~other[groups], ~other[groups[starts]]
    places = np.cumsum(is_single) - 1
    body, lengths = _arrays(rows[is_single], counts[~other], places[starts[plain]], sizes[plain])
    return _mix(rows, counts, other, body, lengths)


def _arrays(rows: npt.NDArray[np.uint32], counts: Ints, starts: Ints, sizes: Ints) -> tuple[bytes, Ints]:
    """Return the bitmaps of groups whose containers (`starts` in `rows`, `sizes`) are all arrays, as 16-bit
    words.
    """
    firsts = np.cumsum(counts) - counts
    group = np.searchsorted(firsts, starts, side="right") - 1
    containers = np.bincount(group, minlength=len(counts))
    lengths = _HEAD_WORDS + _CONTAINER_WORDS * containers + counts
    at = np.cumsum(lengths) - lengths
    words = np.zeros(int(lengths.sum()), "<u2")
    words[at] = PLAIN
    _put_long(words, at + 2, containers)
    number = np.arange(len(group)) - (np.cumsum(containers) - containers)[group]
    head = at[group] + _HEAD_WORDS + 2 * number
    words[head] = rows[starts] >> 16
    words[head + 1] = sizes - 1
    data = _HEAD_WORDS + _CONTAINER_WORDS * containers
    _put_long(words, head + 2 * containers[group], 2 * (data[group] + starts - firsts[group]))
    words[np.arange(len(rows)) + np.repeat(at + data - firsts, counts)] = rows & 0xFFFF
    return words.tobytes(), 2 * lengths


def _put_long(words: Any, places: Ints, numbers: Ints) -> None:
    """Write 32-bit numbers as two words, the lower half first."""
    words[places] = numbers & 0xFFFF
    words[places + 1] = numbers >> 16


def _mix(
    rows: npt.NDArray[np.uint32], counts: Ints, other: npt.NDArray[np.bool_], body: bytes, lengths: Ints
) -> tuple[bytes, Ints]:
    """Return the bitmaps of all groups: `body` has those of groups that are not in `other`, and the bitmaps
    of `other` are put between them.
    """
    out = np.zeros(len(counts), np.int64)
    out[~other] = lengths
    before = np.append(0, np.cumsum(out))
    bounds = np.append(0, np.cumsum(counts))
    parts: list[bytes] = []
    cut = 0
    for group in np.flatnonzero(other).tolist():
        parts.append(body[cut : before[group]])
        parts.append(encode_roaring(BitMap(rows[bounds[group] : bounds[group + 1]])))
        cut = int(before[group])
        out[group] = len(parts[-1])
    return b"".join((*parts, body[cut:])), out
