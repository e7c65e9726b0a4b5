"""This module packs the state of the buckets of a table, which one process has read, for its writers in other
processes: each of them decodes the partitions of its rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Set
from typing import Any

from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.write.buckets.bucket_state import BucketState

__all__ = ["PackedState"]


class PackedState:
    """This is a `BucketState` in parts, one for each partition, as bytes. It can be pickled.

    To unpickle it costs a copy of the bytes: 10 to 20 for each bucket, some 150 more where the bucket has a
    hash index. The bytes are a pickle, which only the process that reads the table makes: they are never
    read from storage.
    """

    def __init__(self, state: BucketState) -> None:
        self.snapshot: Snapshot | None = state.snapshot
        """This is the snapshot whose state it is."""
        sequences: dict[bytes, dict[int, int]] = {}
        for (partition, bucket), number in state.next_sequences.items():
            sequences.setdefault(partition, {})[bucket] = number
        partitions: Set[bytes] = sequences.keys() | state.totals.keys() | state.hash_files.keys()
        self._parts = {
            partition: pickle.dumps((
                sequences.get(partition, {}),
                state.totals.get(partition),
                state.hash_files.get(partition, {}),
            ))
            for partition in partitions
        }  # fmt: skip
        self._decoded: dict[bytes, BucketState] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle, without decoded parts."""
        return {**self.__dict__, "_decoded": {}}

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the next sequence number of a bucket; see `BucketState.next_sequence`."""
        return self._of(partition).next_sequence(partition, bucket)

    def total(self, partition: bytes) -> int | None:
        """Return how many buckets the files of a partition record; None without such files."""
        return self._of(partition).total(partition)

    def buckets(self, partition: bytes) -> tuple[int, ...]:
        """Return the buckets of a partition that have files."""
        return self._of(partition).buckets(partition)

    def hash_files_of(self, partition: bytes) -> Mapping[int, IndexFile]:
        """Return the files of the hash index of a partition, by bucket."""
        return self._of(partition).hash_files_of(partition)

    def _of(self, partition: bytes) -> BucketState:
        state = self._decoded.get(partition)
        if state is None:
            state = self._decoded[partition] = self._decode(partition)
        return state

    def _decode(self, partition: bytes) -> BucketState:
        part = self._parts.get(partition)
        if part is None:
            return BucketState()
        sequences, total, files = pickle.loads(part)
        return BucketState(
            {(partition, bucket): number for bucket, number in sequences.items()},
            {} if total is None else {partition: total},
            {partition: files},
        )
