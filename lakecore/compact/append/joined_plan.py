"""Which files of a table with data evolution are joined: columns of the same rows, small neighbours. Pure.

Rule of the format: neighbouring row ranges become one file of all columns until they pass the target size; a
range that passes it alone stays alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from lakecore.compact.append.plan import JoinPick, JoinRequest
from lakecore.compact.work import Place, Strategy
from lakecore.metadata.data_file import DataFile
from lakecore.metadata.entries import ManifestEntries

__all__ = ["plan_ranges", "row_ranges"]

_FULL_MIN_FILES = 2

Range = tuple[DataFile, ...]
"""Files of the same rows."""


def plan_ranges(entries: ManifestEntries, request: JoinRequest) -> tuple[JoinPick, ...]:
    """Picks in all buckets of live `entries`, all of which have row ids; at least `min_files` files each.

    FULL also picks two. Cost: every file becomes an object.
    """
    place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    lanes = np.argsort(place, kind="stable")
    picks: list[JoinPick] = []
    for members in np.split(lanes, np.flatnonzero(np.diff(place[lanes])) + 1) if len(lanes) else ():
        part = entries.select(members)
        where = Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0]))
        least = _FULL_MIN_FILES if request.strategy is Strategy.FULL else request.policy.min_files
        packs = _packs(row_ranges(part.files()), request)
        worth = (files for files in packs if len(files) >= max(least, _FULL_MIN_FILES))
        picks += [JoinPick(where, files, (None,) * len(files)) for files in worth]
    return tuple(picks)


def row_ranges(files: Sequence[DataFile]) -> list[Range]:
    """Files of the same rows together, in the order of row ids."""
    ordered = sorted(files, key=_first)
    return [tuple(group) for _, group in groupby(ordered, key=_first)]


def _packs(ranges: Sequence[Range], request: JoinRequest) -> Iterator[tuple[DataFile, ...]]:
    policy = request.policy
    waiting: list[DataFile] = []
    weight, stop = 0, -1
    for files in ranges:
        own = sum(max(file.file_size, policy.open_file_cost) for file in files)
        alone = own > policy.target_file_size
        if alone or _first(files[0]) != stop or weight > policy.target_file_size:
            yield tuple(waiting)
            waiting, weight = [], 0
        stop = _first(files[0]) + files[0].row_count
        if alone:
            yield files
        else:
            waiting += files
            weight += own
    yield tuple(waiting)


def _first(file: DataFile) -> int:
    return -1 if file.first_row_id is None else file.first_row_id
