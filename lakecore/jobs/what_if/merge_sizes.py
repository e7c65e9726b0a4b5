"""This module estimates what a merge leaves of its inputs, from what the merges of the history left.

Without keys a merge leaves the same part each time. With keys the part depends on the inputs: two small files
have fewer keys in common than a small and a large one. A merge of the history says how many keys there are
to choose from, if each sorted run chose its keys at random: of `k` keys, runs with `a` and `b` rows have
`k * (1 - (1 - a/k) * (1 - b/k))` different ones. The merge that is nearest in time, in the same bucket where
there is one, says it for a merge of the replay.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from lakecore.compact.engine.work import Place
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, ManifestEntry

__all__ = ["MergeRatio", "MergeSizes", "PastMerge", "merges_of"]

_DOUBLINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRatio:
    """These are the parts of the bytes and rows of its inputs that a merged file has."""

    bytes: float = 1.0
    rows: float = 1.0
    compactions: int = 0
    """They are from so many compactions of the history; 0 means that nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMerge:
    """It is what a compaction of the history rewrote of one bucket."""

    place: Place
    time_ms: int
    runs: tuple[int, ...]
    """These are the rows of each sorted run of the inputs."""
    rows_out: int
    bytes_in: int
    bytes_out: int


def merges_of(places: Iterable[tuple[Place, Sequence[ManifestEntry]]], time_ms: int) -> Iterable[PastMerge]:
    """Yield what a compaction rewrote of each bucket, without files that only changed their level."""
    for place, entries in places:
        removed = {one.file.file_name: one.file for one in entries if one.kind is EntryKind.DELETE}
        added = {one.file.file_name: one.file for one in entries if one.kind is EntryKind.ADD}
        inputs = [file for name, file in removed.items() if name not in added]
        outputs = [file for name, file in added.items() if name not in removed]
        yield PastMerge(
            place=place,
            time_ms=time_ms,
            runs=_rows_of_runs(inputs),
            rows_out=sum(file.row_count for file in outputs),
            bytes_in=sum(file.file_size for file in inputs),
            bytes_out=sum(file.file_size for file in outputs),
        )


class MergeSizes:
    """These are the estimates of a history. Without merges in it, a merged file has what its inputs have."""

    def __init__(self, merges: Iterable[PastMerge], *, keyed: bool) -> None:
        rewriting = sorted((one for one in merges if one.bytes_in), key=lambda one: one.time_ms)
        self.keyed = keyed
        self.average = _average(rewriting)
        """This is what all merges of the history left together."""
        self._width = _width(rewriting)
        self._keys: dict[Place | None, tuple[list[int], list[float]]] = {}
        for one in rewriting if keyed else ():
            number = _key_space(one.runs, one.rows_out)
            for key in (one.place, None):
                times, numbers = self._keys.setdefault(key, ([], []))
                times.append(one.time_ms)
                numbers.append(number)

    def ratio(self, place: Place, files: Collection[DataFile], time_ms: int) -> MergeRatio:
        """Return the estimate for a merge of these files of a bucket at a moment."""
        if not self._keys:
            return self.average
        runs = _rows_of_runs(files)
        keys = max(self._keys_at(place, time_ms), float(max(runs)))
        rows = _different_keys(runs, keys) / max(1, sum(runs))
        return MergeRatio(bytes=rows * self._width, rows=rows, compactions=self.average.compactions)

    def _keys_at(self, place: Place, time_ms: int) -> float:
        """Return how many keys there are to choose from, by the merge that is nearest in time."""
        times, numbers = self._keys.get(place, self._keys[None])
        later = bisect_left(times, time_ms)
        near = [number for number in (later - 1, later) if 0 <= number < len(times)]
        return numbers[min(near, key=lambda number: abs(times[number] - time_ms))]


def _average(merges: Sequence[PastMerge]) -> MergeRatio:
    if not merges:
        return MergeRatio()
    size = sum(one.bytes_out for one in merges) / sum(one.bytes_in for one in merges)
    rows = sum(one.rows_out for one in merges) / max(1, sum(sum(one.runs) for one in merges))
    count = len({one.time_ms for one in merges})
    return MergeRatio(bytes=round(size, 4), rows=round(rows, 4), compactions=count)


def _width(merges: Sequence[PastMerge]) -> float:
    """Return how wide a row is after a merge, divided by how wide it was before."""
    expected = sum(one.bytes_in * one.rows_out / max(1, sum(one.runs)) for one in merges)
    return sum(one.bytes_out for one in merges) / expected if expected else 1.0


def _rows_of_runs(files: Iterable[DataFile]) -> tuple[int, ...]:
    """Return the rows of each sorted run: files of level 0 are runs of their own."""
    fresh, levels = [], dict[int, int]()
    for file in files:
        if file.level:
            levels[file.level] = levels.get(file.level, 0) + file.row_count
        else:
            fresh.append(file.row_count)
    return (*fresh, *levels.values())


def _different_keys(runs: Sequence[int], keys: float) -> float:
    """Return how many different keys runs have that each chose from so many; `keys` is at least the largest
    run.
    """
    if math.isinf(keys):
        return float(sum(runs))
    return keys * -math.expm1(sum(math.log1p(-run / keys) if run < keys else -math.inf for run in runs))


def _key_space(runs: Sequence[int], rows_out: int) -> float:
    """Return of how many keys runs chose, if so many different ones were left."""
    least, whole = max(runs, default=0), sum(runs)
    if rows_out >= whole:
        return math.inf
    if rows_out <= least:
        return float(max(1, least))
    low, high = 1.0, 2.0
    while _different_keys(runs, least * high) < rows_out and high < 2.0**_DOUBLINGS:
        low, high = high, high * 2
    for _ in range(_DOUBLINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _different_keys(runs, least * middle) < rows_out else (low, middle)
    return least * high
