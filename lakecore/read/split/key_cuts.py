"""Keys at which sorted runs are cut, so that their shares can be merged at the same time.

The keys are found in footers and page indexes only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.key_range import KeyRange, cut_points

__all__ = ["boundaries", "ranges", "sample_cuts"]

Key = tuple[Any, ...]
_BLIND_SHARE = 0.05
_MOST_MOVED = 0.25
"""So much of a share a cut may move, so that row groups are not cut."""


def sample_cuts(
    reading: ReadContext,
    bucket_dir: str,
    files: Sequence[DataFile],
    count: int,
    kept_whole: Sequence[DataFile] = (),
) -> tuple[Key, ...]:
    """Return keys that cut `files` into `count` shares of about equal bytes; fewer or none where that is
    impossible. Where a row group of one of the files `kept_whole` begins near a cut, the cut is there.

    Files without page index are decoded from their start by every unit: with more than a few of them a cut
    costs more than it gains, and there is none. Cost: two small reads a file.
    """
    points: list[tuple[Key, float]] = []
    begins = set[Key]()
    blind = 0
    for file in files:
        cuts = cut_points(reading, bucket_dir, file, begins if file in kept_whole else None)
        if cuts is None:
            blind += file.file_size
        else:
            row_bytes = file.file_size / max(file.row_count, 1)
            points += [(key, rows * row_bytes) for key, rows in cuts]
    if blind > _BLIND_SHARE * sum(file.file_size for file in files):
        return ()
    return boundaries(points, count, begins)


def boundaries(
    points: Iterable[tuple[Key, float]], count: int, preferred: Collection[Key] = ()
) -> tuple[Key, ...]:
    """Return at most `count` - 1 keys (or prefixes) that cut into shares of about equal weight, strictly
    increasing.

    `points` are the first keys of pages and the weights of the pages. One of the keys `preferred` is taken
    where it makes a share larger or smaller by a quarter at most.
    """
    ranked = sorted(points, key=lambda point: _order(point[0]))
    total = sum(weight for _, weight in ranked)
    keys: list[Key] = []
    passed = 0.0
    nearest = _nearest(ranked, total / count, preferred)
    for key, weight in ranked:
        share = len(keys) + 1
        late = _MOST_MOVED if share in nearest else 0
        is_there = passed >= total * (share + late) / count or nearest.get(share) == key
        if is_there and share < count and _rises(keys, key):
            keys.append(key)
        passed += weight
    return tuple(keys)


def _nearest(
    ranked: Iterable[tuple[Key, float]], size: float, preferred: Collection[Key]
) -> Mapping[int, Key]:
    """Return for each cut, by its number, the preferred key that is nearest to it; none where it is too far
    away. `size` is that of a share.
    """
    nearest: dict[int, tuple[float, Key]] = {}
    passed = 0.0
    for key, weight in ranked:
        cut = round(passed / size) if size else 0
        away = abs(passed - cut * size)
        if key in preferred and away <= size * _MOST_MOVED and away < nearest.get(cut, (size, key))[0]:
            nearest[cut] = away, key
        passed += weight
    return {cut: key for cut, (_, key) in nearest.items()}


def ranges(cuts: Sequence[Key]) -> tuple[KeyRange, ...]:
    """Return the ranges between `cuts`; the first and the last are unbounded."""
    return tuple(KeyRange(low, high) for low, high in pairwise((None, *cuts, None)))


def _rises(cuts: Sequence[Key], key: Key) -> bool:
    return not cuts or _order(cuts[-1]) < _order(key)


def _order(key: Key) -> Key:
    return tuple(map(comparable, key))
