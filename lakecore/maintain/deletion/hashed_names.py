"""This module stores sets of names as sorted arrays of hashes: a million of them take 8 MB and a fraction of
a second.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["NO_NAMES", "Hashes", "name_set", "within"]

Hashes = npt.NDArray[np.uint64]

NO_NAMES: Hashes = np.zeros(0, np.uint64)


def name_set(parts: Iterable[Hashes]) -> Hashes:
    """Return the distinct hashes of all parts, sorted. (Sorting is faster than numpy's own `unique`, which
    hashes again.)
    """
    names = np.concatenate([NO_NAMES, *parts])
    names.sort()
    fresh = np.ones(len(names), np.bool_)
    np.not_equal(names[1:], names[:-1], out=fresh[1:])
    return names[fresh]


def within(hashes: Hashes, names: Hashes) -> npt.NDArray[np.bool_]:
    """Return which of the hashes are in the sorted set `names`."""
    if not len(names):
        return np.zeros(len(hashes), np.bool_)
    place = np.searchsorted(names, hashes)
    place[place == len(names)] = 0
    return np.equal(names[place], hashes)
