"""Where one large merge is cut into units by key ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from lakecore.metadata.key_order import comparable
from lakecore.read.key_range import KeyRange

__all__ = ["boundaries", "check_tiling", "ranges", "unit_count"]

Key = tuple[Any, ...]
_UNITS_PER_CORE = 4


def unit_count(size: int, target_file_size: int, parallelism: int) -> int:
    """Into how many units a merge of `size` input bytes is cut.

    A unit should yield about one target file; to use every core it may yield half of one, not less: smaller
    files would be merged again soon.
    """
    if parallelism <= 1:
        return 1
    halves = min(parallelism, 2 * size // target_file_size)
    return max(1, min(max(size // target_file_size, halves), _UNITS_PER_CORE * parallelism))


def boundaries(points: Iterable[tuple[Key, float]], count: int) -> tuple[Key, ...]:
    """At most `count` - 1 keys (or prefixes) that cut into shares of about equal weight, strictly increasing.

    `points`: the first keys of pages and what the pages weigh.
    """
    ranked = sorted(points, key=lambda point: _order(point[0]))
    total = sum(weight for _, weight in ranked)
    found: list[Key] = []
    passed = 0.0
    for key, weight in ranked:
        share = len(found) + 1
        if passed >= total * share / count and share < count and _rises(found, key):
            found.append(key)
        passed += weight
    return tuple(found)


def ranges(cuts: Sequence[Key]) -> tuple[KeyRange, ...]:
    """The ranges between `cuts`, the first and the last without an end."""
    return tuple(KeyRange(low, high) for low, high in pairwise((None, *cuts, None)))


def check_tiling(found: Sequence[KeyRange]) -> None:
    """Raises ValueError unless every key lies in exactly one of the ranges, given in order."""
    cuts = [after.low for after in found[1:]]
    open_ended = bool(found) and found[0].low is None and found[-1].high is None
    if not open_ended or cuts != [before.high for before in found[:-1]]:
        raise ValueError(f"ranges do not tile the key space: {found}")
    keys = [_order(cut) for cut in cuts if cut is not None]
    if len(keys) < len(cuts) or any(left >= right for left, right in pairwise(keys)):
        raise ValueError(f"ranges are not in key order: {found}")


def _rises(found: Sequence[Key], key: Key) -> bool:
    return not found or _order(found[-1]) < _order(key)


def _order(key: Key) -> Key:
    return tuple(map(comparable, key))
