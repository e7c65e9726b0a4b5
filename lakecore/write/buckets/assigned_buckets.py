"""This module writes rows whose dynamic buckets other processes have assigned: it maintains the hash index of
the buckets that get rows.

It reads the hash file of such a bucket at the end, and writes a new, complete one if the bucket got new keys.
Memory: 4 bytes a row, and 4 bytes a key of one bucket at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.hashing import hash_rows
from lakecore.store.indexes import IndexStore
from lakecore.write.buckets.bucket_places import Hashes
from lakecore.write.buckets.bucket_state import TableBuckets
from lakecore.write.buckets.dynamic_buckets import no_hash_index

__all__ = ["WrittenHashes"]

_HASH_BITS = 32
_BUCKET_BITS = 15


class WrittenHashes:
    """These are the hashes of the keys that one writer got. `state` is that by which the assigners placed
    them.
    """

    def __init__(self, schema: TableSchema, indexes: IndexStore, state: TableBuckets) -> None:
        self._key_type = schema.key_type
        self._indexes = indexes
        self._state = state
        self._hashes: dict[tuple[bytes, int], list[Hashes]] = {}
        self._written: list[IndexFile] = []
        self.buckets: np.ndarray[Any, Any] = np.empty(0, np.int16)
        """These are the buckets of the rows that come next."""

    def place(
        self, batch: pa.RecordBatch, codes: np.ndarray[Any, Any], partitions: Sequence[bytes]
    ) -> np.ndarray[Any, Any]:
        """Return the bucket of each row, which was assigned before, and remember its hash."""
        columns = [batch.column(name) for name in self._key_type.names]
        hashes = hash_rows(columns, self._key_type).view(np.uint32).astype(np.int64)
        places = (codes.astype(np.int64) << _BUCKET_BITS) + self.buckets
        groups, numbers = np.unique(places, return_inverse=True)
        distinct = np.unique((numbers.astype(np.int64) << _HASH_BITS) | hashes)
        bounds = np.searchsorted(distinct >> _HASH_BITS, np.arange(len(groups) + 1))
        for number, place in enumerate(groups.tolist()):
            code, bucket = divmod(place, 1 << _BUCKET_BITS)
            part = distinct[bounds[number] : bounds[number + 1]].astype(np.uint32).view(np.int32)
            self._hashes.setdefault((partitions[code], bucket), []).append(part)
        return self.buckets

    @property
    def read_hash_files(self) -> Mapping[bytes, frozenset[str]]:
        """Return the hash files by which the rows were placed, by partition: at the commit they must still be
        all that exist.
        """
        return {
            partition: frozenset(file.file_name for file in self._state.hash_files_of(partition).values())
            for partition, _ in self._hashes
        }

    def indexed(self, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
        """Return the messages of the buckets that got rows, with the hash files of those that got keys.

        Raises CorruptDataError for a bucket with rows whose hash file is missing.
        """
        return tuple(map(self._index, messages))

    def _index(self, message: CommitMessage) -> CommitMessage:
        old = self._state.hash_files_of(message.partition).get(message.bucket)
        if old is None and message.bucket in self._state.buckets(message.partition):
            raise no_hash_index(self._indexes, message.bucket)
        before = np.empty(0, np.int32) if old is None else self._indexes.read_hashes(old)
        came = np.concatenate(self._hashes[message.partition, message.bucket])
        after = np.union1d(before, came)
        if len(after) == len(np.unique(before)):
            return message
        new = self._indexes.write_hashes(message.partition, message.bucket, after)
        self._written.append(new)
        return replace(message, new_index_files=(new,), deleted_index_files=() if old is None else (old,))

    def abort(self) -> None:
        """Remove the files that `indexed` wrote."""
        self._indexes.discard(self._written)
        self._written.clear()
