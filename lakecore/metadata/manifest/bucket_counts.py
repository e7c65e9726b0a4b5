"""This module divides the files of a snapshot into groups that are planned one after the other, so that the
memory of a plan does not grow with the table. It is pure.

A group has some whole partitions, or some buckets of one large partition. A bucket is never divided, because
its rows are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.block_spans import BlockSpans, GroupBlocks
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = ["GROUP_FILES", "BucketCounts", "BucketGroup", "in_groups"]

T = TypeVar("T")

GROUP_FILES = 1 << 20
"""A group has at most so many entries of manifests, unless one bucket has more. Its plan takes 0.7 GB."""
_LOWEST_BUCKET = 1 << 31


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """These are some buckets of some partitions."""

    partitions: frozenset[bytes]
    """These are their serialised rows."""
    buckets: frozenset[int] | None = None
    """These are the numbers of the buckets, or None for all."""
    blocks: GroupBlocks | None = field(default=None, compare=False, repr=False)
    """These are the blocks of the counted manifests that can have their entries."""


class BucketCounts:
    """It counts the entries of each bucket, ADD and DELETE, in the order in which buckets appear, and keeps
    in which blocks of manifests they lie.

    It takes some 200 bytes a bucket, and 16 bytes a block (64 KB of entries).
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, dict[int, int]] = {}
        self._codes: dict[bytes, int] = {}
        self._spans = BlockSpans()

    def add(self, entries: ManifestEntries, read: ManifestEntries | None = None) -> None:
        """Count the entries of some manifests. `read` are all that were read of these, where `entries` are
        selected ones. It costs a sort of numbers.
        """
        whole = entries if read is None else read
        self._spans.add(whole.block_spans(self._numbers(whole)))
        if len(entries):
            places = self._numbers(entries)
            _, first, counts = np.unique(places, return_index=True, return_counts=True)
            order = np.argsort(first)
            for lane, count in zip(first[order].tolist(), counts[order].tolist(), strict=True):
                buckets = self._counts.setdefault(entries.partition_of(lane), {})
                bucket = int(entries.bucket[lane])
                buckets[bucket] = buckets.get(bucket, 0) + count

    def _numbers(self, entries: ManifestEntries) -> npt.NDArray[np.int64]:
        """Return a number for the bucket of each entry: by partition in the order in which they appear, then
        by bucket.
        """
        present, first = np.unique(entries.partition, return_index=True)
        codes = np.zeros(len(entries.partitions), np.int64)
        for local in present[np.argsort(first)].tolist():
            codes[local] = self._codes.setdefault(entries.partitions[local], len(self._codes))
        return (codes[entries.partition] << 32) | (entries.bucket.astype(np.int64) + _LOWEST_BUCKET)

    def groups(self, most: int) -> Iterator[BucketGroup]:
        """Yield groups that together have the counted entries, each once.

        None has more than `most` entries, unless they are of one bucket.
        """
        sizes = ((partition, sum(buckets.values())) for partition, buckets in self._counts.items())
        for partitions in in_groups(sizes, most):
            buckets = self._counts[partitions[0]]
            codes = [self._codes[partition] for partition in partitions]
            if len(partitions) > 1 or sum(buckets.values()) <= most:
                blocks = self._spans.blocks_of(min(codes) << 32, (max(codes) << 32) | 0xFFFFFFFF)
                yield BucketGroup(frozenset(partitions), None, blocks)
                continue
            for numbers in in_groups(sorted(buckets.items()), most):
                ends = ((codes[0] << 32) | (bucket + _LOWEST_BUCKET) for bucket in (numbers[0], numbers[-1]))
                yield BucketGroup(frozenset(partitions), frozenset(numbers), self._spans.blocks_of(*ends))


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
