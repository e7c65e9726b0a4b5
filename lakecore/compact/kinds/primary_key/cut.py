"""This module decides into how many units one large merge is cut by key ranges, and whether these cover the
keys without overlap. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakecore.metadata.key_order import comparable
from lakecore.read.file.key_range import KeyRange

__all__ = ["check_tiling", "unit_count"]

_UNITS_PER_CORE = 4


def unit_count(size: int, target_file_size: int, parallelism: int) -> int:
    """Return into how many units a merge of `size` input bytes is cut.

    A unit should yield about one target file; to use every core it may yield half of one, not less: smaller
    files would be merged again soon.
    """
    if parallelism <= 1:
        return 1
    halves = min(parallelism, 2 * size // target_file_size)
    return max(1, min(max(size // target_file_size, halves), _UNITS_PER_CORE * parallelism))


def check_tiling(ranges: Sequence[KeyRange]) -> None:
    """Raise ValueError unless every key is in exactly one of the ranges, given in order."""
    cuts = [after.low for after in ranges[1:]]
    open_ended = bool(ranges) and ranges[0].low is None and ranges[-1].high is None
    if not open_ended or cuts != [before.high for before in ranges[:-1]]:
        raise ValueError(f"ranges do not tile the key space: {ranges}")
    keys = [tuple(map(comparable, cut)) for cut in cuts if cut is not None]
    if len(keys) < len(cuts) or any(left >= right for left, right in pairwise(keys)):
        raise ValueError(f"ranges are not in key order: {ranges}")
