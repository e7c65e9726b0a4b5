"""This module has the current state of buckets: where sequence numbers continue, and how many buckets a
partition has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.snapshot import Snapshot

__all__ = ["BucketState"]


@dataclass(frozen=True, slots=True)
class BucketState:
    """This is the state at `snapshot`, by serialised partition (and bucket). It is empty without files, or
    when everything is overwritten.
    """

    next_sequences: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    totals: Mapping[bytes, int] = field(default_factory=dict)
    index_files: tuple[IndexFile, ...] = ()
    snapshot: Snapshot | None = None

    @classmethod
    def of(cls, live: ManifestEntries, index_files: tuple[IndexFile, ...] = ()) -> BucketState:
        """Compute the state from all live files of a snapshot. Vectorised: one row per bucket is made."""
        if len(live) == 0:
            return cls(index_files=index_files)
        low = int(live.bucket.min())
        codes = live.partition.astype(np.int64) * (int(live.bucket.max()) - low + 1) + (live.bucket - low)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        highest = np.full(len(first), -1, np.int64)
        np.maximum.at(highest, inverse, live.max_sequence)
        next_sequences = {
            (live.partitions[live.partition[at]], int(live.bucket[at])): int(top) + 1
            for at, top in zip(first.tolist(), highest.tolist(), strict=True)
        }
        fixed = np.flatnonzero(live.total_buckets > 0)
        _, some = np.unique(live.partition[fixed], return_index=True)
        totals = {
            live.partitions[live.partition[at]]: int(live.total_buckets[at]) for at in fixed[some].tolist()
        }
        return cls(next_sequences, totals, index_files)

    def after(self, sequences: Mapping[tuple[bytes, int], int], totals: Mapping[bytes, int]) -> BucketState:
        """Return the state after files that no snapshot has yet: `sequences` are the next numbers behind
        them, and `totals` their numbers of buckets.
        """
        highest = {place: max(number, self.next_sequence(*place)) for place, number in sequences.items()}
        return replace(
            self, next_sequences={**self.next_sequences, **highest}, totals={**totals, **self.totals}
        )

    def buckets(self, partition: bytes) -> tuple[int, ...]:
        """Return the buckets of a partition that have files."""
        return tuple(bucket for place, bucket in self.next_sequences if place == partition)

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the next sequence number. Rule of the format: the highest number of a live file of the
        bucket plus one; 0 in an empty bucket.
        """
        return self.next_sequences.get((partition, bucket), 0)
