"""This module assigns dynamic buckets while writing: it maintains the hash index of the partitions that
are written to.

It reads the hash files of a partition when its first row comes, and writes one new, complete file for each
bucket that got new keys. Memory: some 6 bytes a key of those partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.hashing import hash_rows
from lakecore.store.indexes import IndexStore
from lakecore.write.buckets.bucket_places import BucketPlaces, Buckets, BucketShare, Hashes, PlaceRules
from lakecore.write.buckets.bucket_state import TableBuckets

__all__ = ["DynamicBuckets", "no_hash_index"]


class DynamicBuckets:
    """These are the buckets of all partitions of one write. `state` lists the existing hash files.

    With `shares`, only rows of some shares of a partition come: the buckets are divided among so many
    assigners, and this one keeps the hashes of its shares.
    """

    def __init__(
        self, schema: TableSchema, indexes: IndexStore, state: TableBuckets, *, shares: int = 1
    ) -> None:
        self._shares = shares
        self._key_type = schema.key_type
        self._indexes = indexes
        self._rules = PlaceRules.from_options(schema.options)
        self._state = state
        self._places: dict[tuple[bytes, BucketShare], BucketPlaces] = {}
        self._written: list[IndexFile] = []

    def place(
        self, batch: pa.RecordBatch, codes: np.ndarray[Any, Any], partitions: Sequence[bytes]
    ) -> Buckets:
        """Return the bucket of each row; `codes` are the indices of their partitions in `partitions`."""
        columns = [batch.column(name) for name in self._key_type.names]
        hashes = hash_rows(columns, self._key_type)
        buckets = np.empty(batch.num_rows, np.int16)
        for code, partition in enumerate(partitions):
            rows = np.flatnonzero(codes == code) if len(partitions) > 1 else slice(None)
            buckets[rows] = self._of(partition, hashes[rows])
        return buckets

    @property
    def read_hash_files(self) -> Mapping[bytes, frozenset[str]]:
        """Return the hash files by which rows were placed, by partition: at the commit they must still be all
        that exist.
        """
        return {
            partition: frozenset(file.file_name for file in self._state.hash_files_of(partition).values())
            for partition, _ in self._places
        }

    def indexed(self, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
        """Return the messages of all buckets that got rows, with the hash files of those that got keys."""
        return tuple(map(self._index, messages))

    def _index(self, message: CommitMessage) -> CommitMessage:
        places = self._places[message.partition, BucketShare()]
        if message.bucket not in places.changed:
            return message
        new = self._indexes.write_hashes(message.partition, message.bucket, places.hashes(message.bucket))
        self._written.append(new)
        old = self._state.hash_files_of(message.partition).get(message.bucket)
        replaced = () if old is None else (old,)
        return replace(message, new_index_files=(new,), deleted_index_files=replaced)

    def abort(self) -> None:
        """Remove the files that `indexed` wrote."""
        self._indexes.discard(self._written)
        self._written.clear()

    def _of(self, partition: bytes, hashes: Hashes) -> Buckets:
        if self._shares == 1:
            return self._of_share(partition, BucketShare()).place(hashes)
        buckets = np.empty(len(hashes), np.int16)
        numbers = BucketShare.numbers(hashes, self._shares)
        for number in np.unique(numbers).tolist():
            rows = numbers == number
            buckets[rows] = self._of_share(partition, BucketShare(number, self._shares)).place(hashes[rows])
        return buckets

    def _of_share(self, partition: bytes, share: BucketShare) -> BucketPlaces:
        key = (partition, share)
        if key not in self._places:
            self._places[key] = BucketPlaces(self._rules, dict(self._load(partition)), share)
        return self._places[key]

    def _load(self, partition: bytes) -> Iterator[tuple[int, Hashes]]:
        files = self._state.hash_files_of(partition)
        for bucket in self._state.buckets(partition):
            if bucket not in files:
                raise no_hash_index(self._indexes, bucket)
        for bucket, file in files.items():
            yield bucket, self._indexes.read_hashes(file)


def no_hash_index(indexes: IndexStore, bucket: int) -> CorruptDataError:
    """Return the error of a bucket whose keys are not known."""
    return CorruptDataError(
        indexes.paths.table_path, f"bucket {bucket} of a partition has rows but no hash index"
    )
