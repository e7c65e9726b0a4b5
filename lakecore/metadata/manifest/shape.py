"""This module describes the live files of a table before a compaction, after it, and as planned picks
would leave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = ["PlannedChange", "Shape", "planned_shape", "sum_of"]

Ints = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """These are the live files of a table or of selected partitions: their bytes, their physical rows, and
    their number by level.
    """

    files: int = 0
    sorted_runs: int = 0
    """The sorted runs of all buckets together; an append table that is not clustered has as many as files."""
    levels: Mapping[int, int] = field(default_factory=dict)
    bytes: int = 0
    rows: int = 0
    snapshots: int | None = None
    """The number of the table's snapshots; it is counted for dry runs only."""

    @classmethod
    def of(cls, entries: ManifestEntries, *, keyed: bool) -> Shape:
        """Compute the shape from live entries."""
        levels, counts = np.unique(entries.level, return_counts=True)
        return cls(
            files=len(entries),
            sorted_runs=_sorted_runs(entries) if keyed else len(entries),
            levels=dict(zip(levels.tolist(), counts.tolist(), strict=True)),
            bytes=int(entries.file_size.sum()),
            rows=int(entries.row_count.sum()),
        )

    def __add__(self, other: Shape) -> Shape:
        """Return the shape of the files of both, which are of different buckets."""
        levels = {level: self.levels.get(level, 0) for level in sorted({*self.levels, *other.levels})}
        return Shape(
            files=self.files + other.files,
            sorted_runs=self.sorted_runs + other.sorted_runs,
            levels={level: count + other.levels.get(level, 0) for level, count in levels.items()},
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
        )


def sum_of(shapes: Iterable[Shape]) -> Shape:
    """Return the files of several groups of buckets together."""
    return sum(shapes, Shape())


class _Place(Protocol):
    """It is a bucket."""

    @property
    def partition(self) -> bytes: ...
    @property
    def bucket(self) -> int: ...


class PlannedChange(Protocol):
    """A pick, in numbers: some files of a bucket become others, or only change their level. Sizes are in
    bytes.
    """

    @property
    def place(self) -> _Place: ...
    @property
    def output_level(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def moved_rows(self) -> int: ...
    @property
    def moved_size(self) -> int: ...
    @property
    def moves(self) -> Mapping[int, int]:
        """Return how many files only change their level, by their level then."""
        ...

    @property
    def names(self) -> npt.NDArray[np.uint64]:
        """Return the hashes of the names of all these files."""
        ...


def planned_shape(
    entries: ManifestEntries, picks: Sequence[PlannedChange], target_size: int, *, keyed: bool
) -> Shape:
    """Return the shape that `picks` would make of live `entries`. Bytes and rows are upper bounds: rows that
    replace each other, and better compression, are not known before. Cost: a sort of all names by hash.
    """
    names = np.sort(np.concatenate([np.zeros(0, np.uint64), *(pick.names for pick in picks)]))
    ends = (np.searchsorted(names, entries.name_hash, side) for side in ("left", "right"))
    unchanged = entries.select(np.equal(*ends))
    shape = Shape.of(unchanged, keyed=keyed)
    levels = dict(shape.levels)
    codes = {partition: code for code, partition in enumerate(unchanged.partitions)}
    runs = set(zip(*(column.tolist() for column in _levels(unchanged)), strict=True))
    fresh = 0
    for pick in picks:
        outputs = -(-pick.size // target_size) if pick.rows else 0
        for level, count in ((pick.output_level, outputs), *pick.moves.items()):
            levels[level] = levels.get(level, 0) + count
            run = (codes.get(pick.place.partition, -1), pick.place.bucket, level)
            fresh += bool(count) and (level == 0 or run not in runs)
            runs.add(run)
    files = sum(levels.values())
    return replace(
        shape,
        files=files,
        sorted_runs=shape.sorted_runs + fresh if keyed else files,
        levels={level: count for level, count in sorted(levels.items()) if count},
        bytes=shape.bytes + sum(pick.size + pick.moved_size for pick in picks),
        rows=shape.rows + sum(pick.rows + pick.moved_rows for pick in picks),
    )


def _sorted_runs(entries: ManifestEntries) -> int:
    upper = entries.select(entries.level > 0)
    return len(entries) - len(upper) + len(_levels(upper)[0])


def _levels(entries: ManifestEntries) -> tuple[Ints, Ints, Ints]:
    """Return the levels of buckets that have a file: partition (as its code), bucket and level of each."""
    columns = entries.partition, entries.bucket, entries.level
    order = np.lexsort(columns)
    partition, bucket, level = (column[order] for column in columns)
    first = np.ones(len(order), np.bool_)
    first[1:] = False
    for column in (partition, bucket, level):
        first[1:] |= column[1:] != column[:-1]
    return partition[first], bucket[first], level[first]
