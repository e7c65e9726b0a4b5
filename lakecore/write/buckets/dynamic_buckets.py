"""This module assigns dynamic buckets while writing: it maintains the hash index of the partitions that
are written to.

It reads the hash files of a partition when its first row comes, and writes one new, complete file for each
bucket that got new keys. Memory: some 6 bytes a key of those partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.hashing import hash_rows
from lakecore.store.indexes import IndexStore
from lakecore.write.buckets.bucket_places import BucketPlaces, Buckets, Hashes, PlaceRules
from lakecore.write.buckets.bucket_state import BucketState

__all__ = ["DynamicBuckets"]


class DynamicBuckets:
    """These are the buckets of all partitions of one write. `state` lists the existing hash files."""

    def __init__(self, schema: TableSchema, indexes: IndexStore, state: BucketState) -> None:
        self._key_type = schema.key_type
        self._indexes = indexes
        self._rules = PlaceRules.from_options(schema.options)
        self._state = state
        self._files = _by_partition(state.index_files)
        self._places: dict[bytes, BucketPlaces] = {}
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
            buckets[rows] = self._of(partition).place(hashes[rows])
        return buckets

    @property
    def read_hash_files(self) -> Mapping[bytes, frozenset[str]]:
        """Return the hash files by which rows were placed, by partition: at the commit they must still be all
        that exist.
        """
        return {
            partition: frozenset(file.file_name for file in self._files.get(partition, {}).values())
            for partition in self._places
        }

    def indexed(self, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
        """Return the messages of all buckets that got rows, with the hash files of those that got keys."""
        return tuple(map(self._index, messages))

    def _index(self, message: CommitMessage) -> CommitMessage:
        places = self._places[message.partition]
        if message.bucket not in places.changed:
            return message
        new = self._indexes.write_hashes(message.partition, message.bucket, places.hashes(message.bucket))
        self._written.append(new)
        old = self._files.get(message.partition, {}).get(message.bucket)
        replaced = () if old is None else (old,)
        return replace(message, new_index_files=(new,), deleted_index_files=replaced)

    def abort(self) -> None:
        """Remove the files that `indexed` wrote."""
        self._indexes.discard(self._written)
        self._written.clear()

    def _of(self, partition: bytes) -> BucketPlaces:
        if partition not in self._places:
            self._places[partition] = BucketPlaces(self._rules, dict(self._load(partition)))
        return self._places[partition]

    def _load(self, partition: bytes) -> Iterator[tuple[int, Hashes]]:
        files = self._files.get(partition, {})
        for bucket in self._state.buckets(partition):
            if bucket not in files:
                raise CorruptDataError(
                    self._indexes.paths.table_path,
                    f"bucket {bucket} of a partition has rows but no hash index",
                )
        for bucket, file in files.items():
            yield bucket, self._indexes.read_hashes(file)


def _by_partition(files: Sequence[IndexFile]) -> dict[bytes, dict[int, IndexFile]]:
    def partition_of(file: IndexFile) -> bytes:
        return file.partition

    hashed = sorted((file for file in files if file.index_type == HASH_INDEX), key=partition_of)
    return {
        partition: {file.bucket: file for file in group} for partition, group in groupby(hashed, partition_of)
    }
