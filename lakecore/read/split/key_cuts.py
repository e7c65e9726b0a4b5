"""Keys at which sorted runs are cut, so that their shares can be merged at the same time.

The keys are found in footers and page indexes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.key_range import KeyRange, cut_points

__all__ = ["boundaries", "ranges", "sample_cuts"]

Key = tuple[Any, ...]
_BLIND_SHARE = 0.05


def sample_cuts(
    reading: ReadContext, bucket_dir: str, files: Sequence[DataFile], count: int
) -> tuple[Key, ...]:
    """Return keys that cut `files` into `count` shares of about equal bytes; fewer or none where that is
    impossible.

    Files without page index are decoded from their start by every unit: with more than a few of them a cut
    costs more than it gains, and there is none. Cost: two small reads a file.
    """
    points: list[tuple[Key, float]] = []
    blind = 0
    for file in files:
        cuts = cut_points(reading, bucket_dir, file)
        if cuts is None:
            blind += file.file_size
        else:
            row_bytes = file.file_size / max(file.row_count, 1)
            points += [(key, rows * row_bytes) for key, rows in cuts]
    if blind > _BLIND_SHARE * sum(file.file_size for file in files):
        return ()
    return boundaries(points, count)


def boundaries(points: Iterable[tuple[Key, float]], count: int) -> tuple[Key, ...]:
    """Return at most `count` - 1 keys (or prefixes) that cut into shares of about equal weight, strictly
    increasing.

    `points` are the first keys of pages and the weights of the pages.
    """
    ranked = sorted(points, key=lambda point: _order(point[0]))
    total = sum(weight for _, weight in ranked)
    keys: list[Key] = []
    passed = 0.0
    for key, weight in ranked:
        share = len(keys) + 1
        if passed >= total * share / count and share < count and _rises(keys, key):
            keys.append(key)
        passed += weight
    return tuple(keys)


def ranges(cuts: Sequence[Key]) -> tuple[KeyRange, ...]:
    """Return the ranges between `cuts`; the first and the last are unbounded."""
    return tuple(KeyRange(low, high) for low, high in pairwise((None, *cuts, None)))


def _rises(cuts: Sequence[Key], key: Key) -> bool:
    return not cuts or _order(cuts[-1]) < _order(key)


def _order(key: Key) -> Key:
    return tuple(map(comparable, key))
