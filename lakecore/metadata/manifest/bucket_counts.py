"""This module divides the files of a snapshot into groups that are planned one after the other, so that the
memory of a plan does not grow with the table. It is pure.

A group has some whole partitions, or some buckets of one large partition. A bucket is never divided, because
its rows are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = ["GROUP_FILES", "BucketCounts", "BucketGroup", "in_groups"]

T = TypeVar("T")

GROUP_FILES = 1 << 20
"""A group has at most so many entries of manifests, unless one bucket has more. Its plan takes 0.7 GB."""


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """These are some buckets of some partitions."""

    partitions: frozenset[bytes]
    """These are their serialised rows."""
    buckets: frozenset[int] | None = None
    """These are the numbers of the buckets, or None for all."""


class BucketCounts:
    """It counts the entries of each bucket, ADD and DELETE, in the order in which buckets appear.

    It takes some 200 bytes a bucket.
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, dict[int, int]] = {}

    def add(self, entries: ManifestEntries) -> None:
        """Count the entries of some manifests. It costs a sort of numbers."""
        if not len(entries):
            return
        places = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
        _, first, counts = np.unique(places, return_index=True, return_counts=True)
        order = np.argsort(first)
        for lane, count in zip(first[order].tolist(), counts[order].tolist(), strict=True):
            buckets = self._counts.setdefault(entries.partition_of(lane), {})
            bucket = int(entries.bucket[lane])
            buckets[bucket] = buckets.get(bucket, 0) + count

    def groups(self, most: int) -> Iterator[BucketGroup]:
        """Yield groups that together have the counted entries, each once.

        None has more than `most` entries, unless they are of one bucket.
        """
        sizes = ((partition, sum(buckets.values())) for partition, buckets in self._counts.items())
        for partitions in in_groups(sizes, most):
            buckets = self._counts[partitions[0]]
            if len(partitions) > 1 or sum(buckets.values()) <= most:
                yield BucketGroup(frozenset(partitions))
                continue
            for numbers in in_groups(sorted(buckets.items()), most):
                yield BucketGroup(frozenset(partitions), frozenset(numbers))


def in_groups(sizes: Iterable[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """Yield neighbouring items, each given with its size, in groups of at most `most`; an item that is larger
    is a group of its own.
    """
    group: list[T] = []
    total = 0
    for item, size in sizes:
        if group and total + size > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
