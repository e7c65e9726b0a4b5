"""This module has the current state of buckets: where sequence numbers continue, and how many buckets a
partition has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Protocol

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.snapshot import Snapshot

__all__ = ["BucketState", "TableBuckets"]


class TableBuckets(Protocol):
    """It is what a write knows of the buckets of its table. Partitions are serialised rows."""

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot whose state it is; None means an empty table."""
        ...

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the next sequence number of a bucket; 0 in an empty one."""
        ...

    def total(self, partition: bytes) -> int | None:
        """Return how many buckets the files of a partition record; None without such files."""
        ...

    def buckets(self, partition: bytes) -> tuple[int, ...]:
        """Return the buckets of a partition that have files."""
        ...

    def hash_files_of(self, partition: bytes) -> Mapping[int, IndexFile]:
        """Return the files of the hash index of a partition, by bucket."""
        ...


@dataclass(frozen=True, slots=True)
class BucketState:
    """This is the state at `snapshot`, by serialised partition (and bucket). It is empty without files, or
    when everything is overwritten.
    """

    next_sequences: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    totals: Mapping[bytes, int] = field(default_factory=dict)
    hash_files: Mapping[bytes, Mapping[int, IndexFile]] = field(default_factory=dict)
    snapshot: Snapshot | None = None

    @classmethod
    def of(cls, live: ManifestEntries, index_files: Sequence[IndexFile] = ()) -> BucketState:
        """Compute the state from all live files of a snapshot. Vectorised: one row per bucket is made."""
        hash_files = _by_partition(index_files)
        if len(live) == 0:
            return cls(hash_files=hash_files)
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
        return cls(next_sequences, totals, hash_files)

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

    def total(self, partition: bytes) -> int | None:
        """Return how many buckets the files of a partition record; None without such files."""
        return self.totals.get(partition)

    def hash_files_of(self, partition: bytes) -> Mapping[int, IndexFile]:
        """Return the files of the hash index of a partition, by bucket."""
        return self.hash_files.get(partition, {})

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the next sequence number. Rule of the format: the highest number of a live file of the
        bucket plus one; 0 in an empty bucket.
        """
        return self.next_sequences.get((partition, bucket), 0)


def _by_partition(files: Sequence[IndexFile]) -> dict[bytes, dict[int, IndexFile]]:
    def partition_of(file: IndexFile) -> bytes:
        return file.partition

    hashed = sorted((file for file in files if file.index_type == HASH_INDEX), key=partition_of)
    return {
        partition: {file.bucket: file for file in group} for partition, group in groupby(hashed, partition_of)
    }
