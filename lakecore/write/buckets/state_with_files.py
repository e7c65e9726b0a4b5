"""This module keeps the state of buckets up to date with the changes of later snapshots, so that the files of
the table need not be read again. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.write.buckets.bucket_state import BucketState

__all__ = ["BucketStateWithFiles"]

Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class BucketStateWithFiles:
    """This is a state of buckets with the number of live files of each. Later changes are applied to both."""

    state: BucketState
    files: Mapping[Place, int]
    """These are the live files of each bucket, by serialised partition and bucket."""

    @classmethod
    def of(
        cls, live: ManifestEntries, index_files: Sequence[IndexFile], snapshot: Snapshot
    ) -> BucketStateWithFiles:
        """Compute the state from all live files of a snapshot."""
        return cls(replace(BucketState.of(live, index_files), snapshot=snapshot), _file_counts(live))

    def after(
        self, changes: ManifestEntries, index_files: Sequence[IndexFile], snapshot: Snapshot
    ) -> BucketStateWithFiles | None:
        """Return the state at a later snapshot; `changes` are the entries of all manifests of changes since.
        None where the changes do not continue this state, which must be read anew then.

        A sequence number may be higher than that of all live files, if the files that had it were removed:
        numbers that ascend are all that a bucket needs. It costs a copy of the state, one entry a bucket.
        """
        added = changes.select(changes.kind == int(EntryKind.ADD))
        removed = changes.select(changes.kind != int(EntryKind.ADD))
        files = dict(self.files)
        for place, count in _file_counts(added).items():
            files[place] = files.get(place, 0) + count
        for place, count in _file_counts(removed).items():
            files[place] = files.get(place, 0) - count
        if any(count < 0 for count in files.values()):
            return None
        files = {place: count for place, count in files.items() if count}
        newer = BucketState.of(added, index_files)
        partitions = {partition for partition, _ in files}
        totals = {key: total for key, total in self.state.totals.items() if key in partitions}
        if any(totals.get(partition, total) != total for partition, total in newer.totals.items()):
            return None
        sequences = {
            place: max(self.state.next_sequence(*place), newer.next_sequence(*place)) for place in files
        }
        newer_totals = {key: total for key, total in newer.totals.items() if key in partitions}
        return BucketStateWithFiles(
            BucketState(sequences, totals | newer_totals, newer.hash_files, snapshot), files
        )


def _file_counts(entries: ManifestEntries) -> dict[Place, int]:
    if not len(entries):
        return {}
    low = int(entries.bucket.min())
    width = int(entries.bucket.max()) - low + 1
    codes = entries.partition.astype(np.int64) * width + (entries.bucket - low)
    numbers, counts = np.unique(codes, return_counts=True)
    return {
        (entries.partitions[number // width], number % width + low): count
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    }
