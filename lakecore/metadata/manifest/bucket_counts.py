"""This module divides the files of a snapshot into groups that are planned one after the other, so that the
memory of a plan does not grow with the table. It is pure.

A group has some whole partitions, or some buckets of one large partition. A bucket is never divided, because
its rows are merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = ["GROUP_FILES", "BucketCounts", "BucketGroup"]

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
        partitions: list[bytes] = []
        total = 0
        for partition, buckets in self._counts.items():
            size = sum(buckets.values())
            if partitions and total + size > most:
                yield BucketGroup(frozenset(partitions))
                partitions, total = [], 0
            if size <= most:
                partitions.append(partition)
                total += size
                continue
            for numbers in _bucket_sets(buckets, most):
                yield BucketGroup(frozenset((partition,)), numbers)
        if partitions:
            yield BucketGroup(frozenset(partitions))


def _bucket_sets(buckets: dict[int, int], most: int) -> Iterator[frozenset[int]]:
    """Yield the buckets of one partition in groups, in order of their numbers."""
    group: list[int] = []
    total = 0
    for bucket in sorted(buckets):
        if group and total + buckets[bucket] > most:
            yield frozenset(group)
            group, total = [], 0
        group.append(bucket)
        total += buckets[bucket]
    if group:
        yield frozenset(group)
