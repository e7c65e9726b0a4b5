"""This module has a placement of rows for each way in which a table divides its rows into buckets.

A placement is chosen by `placement_of`, and a write asks it for everything that depends on the bucket mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lakecore.commit.partitions import SpecFilter
from lakecore.commit.request import Overwrite, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.options import POSTPONE_BUCKET, BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.store.table_stores import TableStores
from lakecore.write.buckets.assigned_buckets import WrittenHashes
from lakecore.write.buckets.bucket_state import BucketState, TableBuckets
from lakecore.write.buckets.cross_partition import (
    CrossPartition,
    Emptied,
    KeyLimits,
    LiveKeys,
    OverwrittenPartitions,
)
from lakecore.write.buckets.dynamic_buckets import DynamicBuckets
from lakecore.write.buckets.key_moves import KeyMoves
from lakecore.write.buckets.postpone import PartitionBuckets, writes_real_buckets
from lakecore.write.buckets.routing import Router, Share
from lakecore.write.rows.incoming import Rows

__all__ = ["KnownBuckets", "Placement", "WriteTarget", "asks_for_buckets", "placement_of"]

_NOT_BUCKETED = -1
_Index = TypeVar("_Index", DynamicBuckets, WrittenHashes)


@dataclass(frozen=True)
class WriteTarget:
    """It says which table is written to, and how."""

    stores: TableStores
    """The schema is the one that rows are written with."""
    spill_io: FileIO = field(default_factory=lambda: LocalFileIO(sync=False))
    """This is the local storage for full sort buffers."""
    file_prefix: str | None = None
    """The names of data files begin with it, before the table's own prefix; None means the table's prefix
    alone.
    """
    live_keys: Callable[[Snapshot | None], LiveKeys] | None = None
    """It reads the live keys of a snapshot, for tables whose keys may move between partitions."""
    key_limits: KeyLimits = field(default_factory=KeyLimits)
    moves: bool = False
    """The rows are the table's own, and their blobs are in its packs already: references are kept."""
    one_flush: bool = False
    """A key is written once, however full buffers are: they are spilled."""
    assigned: bool = False
    """It tells whether rows come with dynamic buckets (`Rows.buckets`), which other processes assigned; and,
    where keys may move between partitions, with the partitions and kinds that follow from it.
    """
    threads: int = 1
    """This is the number of threads that encode parquet files while the calling one goes on. With 1 there is
    none: the calling thread encodes.
    """


class KnownBuckets:
    """It loads the state of the table's buckets when it is first asked for. `load` is None where nothing of
    the table counts: it is overwritten, or has no buckets.
    """

    def __init__(self, load: Callable[[], TableBuckets] | None) -> None:
        self._load = load
        self._state: TableBuckets | None = None

    @property
    def state(self) -> TableBuckets:
        """Return the state; loading it raises what `load` raises."""
        if self._state is None:
            self._state = BucketState() if self._load is None else self._load()
        return self._state

    @property
    def is_read(self) -> bool:
        """Return whether rows may have been placed by the state."""
        return self._state is not None

    @property
    def is_of_table(self) -> bool:
        """Return whether the state is that of the table, which other commits may change."""
        return self._load is not None


class Placement(Protocol):
    """It assigns the rows of one write to buckets. Methods with a body here are needed by some ways only."""

    buckets: KnownBuckets
    postpones: bool = False
    """It tells whether rows are stored as they came, because their buckets are assigned later."""

    def split(self, rows: Rows) -> Sequence[Share]:
        """Return shares in order of partition and bucket; every row is in one of them, or waits for
        `drain`.
        """
        ...

    def total(self, partition: bytes) -> int:
        """Return how many buckets a partition (a serialised row) has, as its files record it."""
        ...

    def drain(self) -> Iterable[Sequence[Share]]:
        """Yield the shares of rows that waited; called once, after the last row."""
        return ()

    def first_sequence(self, share: Share) -> int:
        """Return where the sequence numbers of a share begin."""
        return self.buckets.state.next_sequence(share.partition, share.bucket)

    def indexed(self, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
        """Return the messages with the index files that belong to the placed rows."""
        return tuple(messages)

    @property
    def preconditions(self) -> Preconditions | None:
        """Return the state that determined where rows were placed, if it must not change before they are
        committed.
        """
        return None

    @property
    def overwrite(self) -> Overwrite | None:
        """Return what the write overwrites, where only its rows tell."""
        return None

    def abort(self) -> None:
        """Remove every file that the placement created."""
        return


def asks_for_buckets(schema: TableSchema) -> bool:
    """Return whether the rows of a table are placed by the state of its buckets, unless they replace it."""
    mode = TableOptions.from_schema(schema).bucket_mode
    if mode is BucketMode.POSTPONE:
        return writes_real_buckets(schema.options)
    return mode is not BucketMode.BUCKET_UNAWARE


def placement_of(
    target: WriteTarget, load: Callable[[], TableBuckets] | None, replaced: Overwrite | None
) -> Placement:
    """Return the placement of a table. `load` reads the state of its buckets, None: everything is
    overwritten. `replaced`: what is overwritten of a table whose keys may move between partitions, where that
    is not all of it.
    """
    schema = target.stores.schema
    options = TableOptions.from_schema(schema)
    match options.bucket_mode:
        case BucketMode.HASH_FIXED:
            return FixedBuckets(target.stores, options, KnownBuckets(load))
        case BucketMode.HASH_DYNAMIC if target.assigned:
            return AssignedBuckets(target.stores, options, KnownBuckets(load))
        case BucketMode.HASH_DYNAMIC:
            return HashIndexed(target.stores, options, KnownBuckets(load))
        case BucketMode.KEY_DYNAMIC if target.assigned:
            return AssignedKeys(target.stores, options, KnownBuckets(load))
        case BucketMode.KEY_DYNAMIC if target.live_keys is not None:
            return KeyIndexed(target, target.live_keys, KnownBuckets(load), replaced)
        case BucketMode.POSTPONE if writes_real_buckets(schema.options):
            return PartitionCounts(target.stores, options, KnownBuckets(load))
        case BucketMode.POSTPONE:
            return PostponedPlacement(target.stores, options)
        case _:
            return OneBucket(target.stores, options)


class OneBucket(Placement):
    """All rows of a partition are in bucket 0, which has no meaning."""

    def __init__(self, stores: TableStores, options: TableOptions) -> None:
        self.buckets = KnownBuckets(None)
        self._router = Router(stores.schema, options)

    def split(self, rows: Rows) -> Sequence[Share]:
        return self._router.split(rows)

    def total(self, partition: bytes) -> int:
        return _NOT_BUCKETED


class _BucketsByCount(Placement):
    """The bucket is a hash of the bucket key, and depends on the number of buckets of the partition."""

    @property
    def preconditions(self) -> Preconditions | None:
        if not self.buckets.is_read:
            return None
        return Preconditions(read_snapshot=self.buckets.state.snapshot, same_counts=self.buckets.is_of_table)


class FixedBuckets(_BucketsByCount):
    """The bucket is a hash of the bucket key, and all partitions have the same number of buckets."""

    def __init__(self, stores: TableStores, options: TableOptions, buckets: KnownBuckets) -> None:
        self.buckets = buckets
        self._router = Router(stores.schema, options)
        self._total = options.bucket

    def split(self, rows: Rows) -> Sequence[Share]:
        return self._router.split(rows)

    def total(self, partition: bytes) -> int:
        return self._total


class _IndexPlacement(Placement, Generic[_Index]):
    """It asks an index of keys for the bucket of each row. The index is made with the first row."""

    def __init__(self, stores: TableStores, options: TableOptions, buckets: KnownBuckets) -> None:
        self.buckets = buckets
        self.stores = stores
        self._router = Router(stores.schema, options, self.index)
        self._index: _Index | None = None

    def new_index(self) -> _Index:
        """Return an index with the known keys."""
        raise NotImplementedError

    def index(self) -> _Index:
        """Return the index of this write."""
        if self._index is None:
            self._index = self.new_index()
        return self._index

    def split(self, rows: Rows) -> Sequence[Share]:
        return self._router.split(rows)

    def total(self, partition: bytes) -> int:
        return _NOT_BUCKETED

    def indexed(self, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
        return tuple(messages) if self._index is None else self._index.indexed(messages)

    @property
    def preconditions(self) -> Preconditions | None:
        index = self._index
        return None if index is None else Preconditions(hash_indexes=index.read_hash_files)

    def abort(self) -> None:
        if self._index is not None:
            self._index.abort()


class HashIndexed(_IndexPlacement[DynamicBuckets]):
    """A hash index remembers the bucket of each key; new keys fill buckets one after the other."""

    def new_index(self) -> DynamicBuckets:
        return DynamicBuckets(self.stores.schema, self.stores.indexes, self.buckets.state)


class AssignedBuckets(_IndexPlacement[WrittenHashes]):
    """It places rows in buckets that other processes assigned, by the state that this one continues."""

    def new_index(self) -> WrittenHashes:
        return WrittenHashes(self.stores.schema, self.stores.indexes, self.buckets.state)

    def split(self, rows: Rows) -> Sequence[Share]:
        if rows.buckets is None:
            raise AssertionError("rows whose buckets were assigned come with them")
        self.index().buckets = rows.buckets
        return super().split(rows)


class AssignedKeys(Placement):
    """Other processes have looked up the keys that may move between partitions: rows come with the partitions
    and buckets where they belong.
    """

    def __init__(self, stores: TableStores, options: TableOptions, buckets: KnownBuckets) -> None:
        self.buckets = buckets
        self._router = Router(stores.schema, options, lambda: self)
        self._assigned = np.empty(0, np.int32)

    def split(self, rows: Rows) -> Sequence[Share]:
        if rows.buckets is None:
            raise AssertionError("rows whose buckets were assigned come with them")
        self._assigned = rows.buckets
        return self._router.split(rows)

    def place(
        self, batch: pa.RecordBatch, codes: np.ndarray[Any, Any], partitions: Sequence[bytes]
    ) -> np.ndarray[Any, Any]:
        """Return the bucket of each row of the batch that is split."""
        return self._assigned

    def total(self, partition: bytes) -> int:
        return _NOT_BUCKETED

    @property
    def preconditions(self) -> Preconditions | None:
        if not self.buckets.is_read:
            return None
        return Preconditions(read_snapshot=self.buckets.state.snapshot, whole_table=True)


class KeyIndexed(Placement):
    """Keys may move between partitions: the place of each live key is looked up among all keys."""

    def __init__(
        self,
        target: WriteTarget,
        live_keys: Callable[[Snapshot | None], LiveKeys],
        buckets: KnownBuckets,
        replaced: Overwrite | None,
    ) -> None:
        self.buckets = buckets
        self._target = target
        self._live_keys = live_keys
        self._replaced = replaced
        self._schema = target.stores.schema
        self._keys: CrossPartition | None = None

    def split(self, rows: Rows) -> Sequence[Share]:
        if self._keys is None:
            target, replaced = self._target, self._replaced
            self._keys = CrossPartition(
                KeyMoves(target.stores.paths.table_path, self._schema),
                self._live_keys(self.buckets.state.snapshot),
                target.spill_io,
                OverwrittenPartitions(
                    self._listed_partitions(), by_rows=replaced is not None and replaced.partitions is None
                ),
                target.key_limits,
            )
        return self._keys.split(rows)

    def drain(self) -> Iterator[Sequence[Share]]:
        if self._keys is not None:
            yield from self._keys.drain()

    def total(self, partition: bytes) -> int:
        return _NOT_BUCKETED

    def first_sequence(self, share: Share) -> int:
        partitions = self._listed_partitions()
        empty = share.partition in self._partitions_with_rows or (
            partitions is not None and bool(partitions((share.partition,)))
        )
        return 0 if empty else self.buckets.state.next_sequence(share.partition, share.bucket)

    @property
    def preconditions(self) -> Preconditions | None:
        if self._keys is None:
            return None
        return Preconditions(read_snapshot=self.buckets.state.snapshot, whole_table=True)

    @property
    def overwrite(self) -> Overwrite | None:
        """Return what is overwritten, once all rows have come. Raises UnsupportedError for rows whose
        partition cannot be named.
        """
        if self._replaced is None or self._replaced.partitions is not None:
            return self._replaced
        partition_type, partitions = self._schema.partition_type, self._partitions_with_rows
        specs = tuple(
            dict(zip(partition_type.names, decode_row(row, partition_type), strict=True))
            for row in sorted(partitions)
        )
        if SpecFilter(specs, partition_type).select(tuple(partitions)) != partitions:
            raise UnsupportedError(
                f"table {self._target.stores.paths.table_path}: a partition value of the rows is NaN, not "
                "equal to itself, so its partition cannot be overwritten; delete its rows, and write new ones"
            )
        return Overwrite(specs, append_elsewhere=True)

    def abort(self) -> None:
        if self._keys is not None:
            self._keys.close()

    @property
    def _partitions_with_rows(self) -> frozenset[bytes]:
        """Return the partitions of the rows so far, where these are overwritten."""
        return frozenset() if self._keys is None else self._keys.overwritten

    def _listed_partitions(self) -> Emptied | None:
        """Return the partitions that are overwritten, where they were named."""
        if self._replaced is None or self._replaced.partitions is None:
            return None
        return SpecFilter(self._replaced.partitions, self._schema.partition_type).select


class PartitionCounts(_BucketsByCount):
    """A batch write assigns postponed buckets at once: each partition has its own number of buckets."""

    def __init__(self, stores: TableStores, options: TableOptions, buckets: KnownBuckets) -> None:
        self.buckets = buckets
        self._schema = stores.schema
        self._function = options.bucket_function.value
        self._router = Router(stores.schema, options, self._buckets)

    def _buckets(self) -> PartitionBuckets:
        return PartitionBuckets(self._schema, self._function, self.buckets.state.total)

    def split(self, rows: Rows) -> Sequence[Share]:
        return self._router.split(rows)

    def total(self, partition: bytes) -> int:
        return self._buckets().total(partition)


class PostponedPlacement(Placement):
    """Rows go to one place in each partition; a compaction assigns their buckets."""

    postpones = True

    def __init__(self, stores: TableStores, options: TableOptions) -> None:
        self.buckets = KnownBuckets(None)
        self._router = Router(stores.schema, options)

    def split(self, rows: Rows) -> Sequence[Share]:
        return [replace(share, bucket=POSTPONE_BUCKET) for share in self._router.split(rows)]

    def total(self, partition: bytes) -> int:
        return POSTPONE_BUCKET
