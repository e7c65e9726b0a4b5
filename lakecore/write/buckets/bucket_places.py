"""This module finds the dynamic bucket of a key: the one that has its hash, else the first with room. It
is pure.

Spec: a hash that a bucket has stays there for ever; a new one goes to the lowest bucket with less than
`target` hashes, else to a new bucket. When no new bucket is allowed, Paimon picks one at random; here the
hash picks, so that repetitions agree.

Several assigners may share the buckets of a partition, each with its own hashes and buckets (`BucketShare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option

__all__ = ["BucketPlaces", "BucketShare", "PlaceRules"]

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int16]

TARGET_ROWS = Option("dynamic-bucket.target-row-num", int, 2_000_000, "Keys of a dynamic bucket.")
MAX_BUCKETS = Option("dynamic-bucket.max-buckets", int, -1, "Most buckets of a partition; -1 as many as fit.")
_UNLIMITED = -1
_MOST = 32_767
_MERGE_SHARE = 8


@dataclass(frozen=True, slots=True)
class PlaceRules:
    """This is the capacity of a bucket and the largest number of buckets."""

    target_rows: int
    max_buckets: int

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> PlaceRules:
        """Read the rules from options. Raises InvalidOptionError naming the option and its value."""
        target, most = TARGET_ROWS.read(raw), MAX_BUCKETS.read(raw)
        if target < 1:
            raise InvalidOptionError(f"option {TARGET_ROWS.key}={target}: must be at least 1")
        if most != _UNLIMITED and most < 1:
            raise InvalidOptionError(f"option {MAX_BUCKETS.key}={most}: must be -1 or at least 1")
        return cls(target, most)


@dataclass(frozen=True, slots=True)
class BucketShare:
    """It is what one of `count` assigners of a partition has: the hashes whose remainder, without its sign,
    is `number`, and the buckets whose remainder is `number`.

    A hash that the partition has stays in its bucket, whatever assigner has that bucket: other writers had
    other numbers of assigners.
    """

    number: int = 0
    count: int = 1

    @staticmethod
    def numbers(hashes: Hashes, count: int) -> npt.NDArray[np.int64]:
        """Return the number of the share that has each hash."""
        return np.abs(np.fmod(hashes.astype(np.int64), count))

    def has_bucket(self, bucket: int) -> bool:
        """Return whether new hashes of the share may go to the bucket."""
        return bucket % self.count == self.number

    def select(self, hashes: Hashes) -> Hashes:
        """Return the hashes of the share."""
        if self.count == 1:
            return hashes
        selected: Hashes = hashes[self.numbers(hashes, self.count) == self.number]
        return selected


_WHOLE = BucketShare()


class BucketPlaces:
    """These are the hashes of one partition, or of one share of it. They take 6 bytes a hash, at most twice
    that while they grow.
    """

    def __init__(
        self, rules: PlaceRules, hashes_of: Mapping[int, Hashes], share: BucketShare = _WHOLE
    ) -> None:
        """Start with the hashes that each bucket of the partition has (`hashes_of`)."""
        self._rules = rules
        self._share = share
        self._counts = {
            bucket: len(hashes) for bucket, hashes in sorted(hashes_of.items()) if share.has_bucket(bucket)
        }
        hashes_of = {bucket: share.select(hashes) for bucket, hashes in hashes_of.items()}
        self._sorted = _SortedHashes.of(
            np.concatenate([*hashes_of.values(), np.zeros(0, np.int32)]).astype(np.int32),
            np.repeat(np.array([*hashes_of], np.int16), [len(hashes) for hashes in hashes_of.values()]),
        )
        self._recent = _SortedHashes.of(np.zeros(0, np.int32), np.zeros(0, np.int16))
        self._changed: set[int] = set()

    @property
    def changed(self) -> frozenset[int]:
        """Return the buckets that got new hashes."""
        return frozenset(self._changed)

    def place(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each row. New hashes are placed in the order in which they first come.

        Raises InvalidOptionError when every possible bucket is full.
        """
        unique, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = self._sorted.find(unique)
        recent = self._recent.find(unique)
        buckets = np.where(buckets < 0, recent, buckets)
        new = np.flatnonzero(buckets < 0)
        if len(new):
            new = new[np.argsort(first[new], kind="stable")]
            buckets[new] = self._room(unique[new])
            self._remember(unique[new], buckets[new])
        buckets_of_rows: Buckets = buckets[inverse]
        return buckets_of_rows

    def hashes(self, bucket: int) -> Hashes:
        """Return all hashes of a bucket, in order."""
        return np.sort(np.concatenate([part.of_bucket(bucket) for part in (self._sorted, self._recent)]))

    def _room(self, hashes: Hashes) -> Buckets:
        """Return buckets for hashes that have none: each is filled up before the next."""
        placed = np.empty(len(hashes), np.int16)
        start = 0
        for bucket in self._with_room():
            size = min(len(hashes) - start, self._rules.target_rows - self._counts.get(bucket, 0))
            placed[start : start + size] = bucket
            self._count(bucket, size)
            start += size
            if start == len(hashes):
                return placed
        if self._rules.max_buckets == _UNLIMITED:
            raise InvalidOptionError(
                f"option {TARGET_ROWS.key}={self._rules.target_rows}: all {len(self._counts)} buckets of an "
                "assigner of a partition are full and there can be no more; raise it"
            )
        self._overfill(placed[start:], hashes[start:])
        return placed

    def _with_room(self) -> Iterator[int]:
        target, most = self._rules.target_rows, self._rules.max_buckets
        yield from [bucket for bucket, count in sorted(self._counts.items()) if count < target]
        limit = _MOST if most == _UNLIMITED else most
        for bucket in range(self._share.number, limit, self._share.count):
            if bucket not in self._counts:
                yield bucket

    def _overfill(self, placed: Buckets, hashes: Hashes) -> None:
        there = np.array(sorted(self._counts), np.int16)
        placed[:] = there[hashes.astype(np.int64) // self._share.count % len(there)]
        for bucket, count in zip(*np.unique(placed, return_counts=True), strict=True):
            self._count(int(bucket), int(count))

    def _count(self, bucket: int, more: int) -> None:
        self._counts[bucket] = self._counts.get(bucket, 0) + more
        self._changed.add(bucket)

    def _remember(self, hashes: Hashes, buckets: Buckets) -> None:
        self._recent = self._recent.with_more(hashes, buckets)
        if len(self._recent.hashes) * _MERGE_SHARE > len(self._sorted.hashes):
            self._sorted = self._sorted.with_more(self._recent.hashes, self._recent.buckets)
            self._recent = _SortedHashes.of(np.zeros(0, np.int32), np.zeros(0, np.int16))


@dataclass(frozen=True, slots=True)
class _SortedHashes:
    """Hashes in order, and the bucket of each."""

    hashes: Hashes
    buckets: Buckets

    @classmethod
    def of(cls, hashes: Hashes, buckets: Buckets) -> _SortedHashes:
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], buckets[order])

    def find(self, hashes: Hashes) -> npt.NDArray[Any]:
        """Return the bucket of each hash, -1 where there is none."""
        if len(self.hashes) == 0:
            return np.full(len(hashes), -1, np.int16)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[at] == hashes, self.buckets[at], np.int16(-1))

    def of_bucket(self, bucket: int) -> Hashes:
        hashes: Hashes = self.hashes[self.buckets == bucket]
        return hashes

    def with_more(self, hashes: Hashes, buckets: Buckets) -> _SortedHashes:
        return _SortedHashes.of(
            np.concatenate([self.hashes, hashes]), np.concatenate([self.buckets, buckets])
        )
