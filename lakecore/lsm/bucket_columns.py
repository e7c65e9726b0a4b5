"""This module has the files of all buckets of a table with levels as columns, and their sorted runs. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.lsm.run_columns import RunColumns, run_columns
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = ["BucketColumns"]

Ints: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class BucketColumns:
    """Bucket `i` has the files `order[bounds[i]:bounds[i + 1]]`, which are places in `entries`."""

    entries: ManifestEntries
    order: Ints
    bounds: Ints
    runs: RunColumns
    """Its places are places in `order`."""

    @classmethod
    def of(cls, entries: ManifestEntries) -> BucketColumns:
        """Find the buckets of live entries. It costs two sorts."""
        place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
        order = np.argsort(place, kind="stable")
        first = np.ones(len(order), np.bool_)
        first[1:] = place[order][1:] != place[order][:-1]
        files = entries.select(order)
        runs = run_columns(
            np.cumsum(first) - 1, files.level, files.file_size, files.min_sequence, files.max_sequence
        )
        return cls(entries, order, np.append(np.flatnonzero(first), len(order)), runs)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def lanes(self, bucket: int) -> Ints:
        """Return the places of the files of a bucket."""
        return self.order[self.bounds[bucket] : self.bounds[bucket + 1]]

    def newest(self, bucket: int, count: int) -> Ints:
        """Return the places of the files of the newest `count` runs of a bucket."""
        return self.order[self.runs.files(bucket, 0, count)]

    def older(self, bucket: int, count: int) -> Ints:
        """Return the places of the files of the other runs."""
        return self.order[self.runs.files(bucket, count)]

    def is_one_of(self, bucket: int, places: Collection[tuple[bytes, int]]) -> bool:
        """Return whether a bucket, as its partition and number, is among `places`."""
        lane = int(self.order[self.bounds[bucket]])
        return bool(places) and (self.entries.partition_of(lane), int(self.entries.bucket[lane])) in places
