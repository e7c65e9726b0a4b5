"""This module writes batches of rows to the files of a table and returns commit messages. Nothing is visible
before a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from lakecore.commit.partitions import SpecFilter
from lakecore.commit.request import Overwrite, Preconditions
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.merge.engines.choice import engine_of
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.options import BucketMode, ChangelogProducer, SequenceOrder, TableOptions
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path, partition_text
from lakecore.store.table_stores import TableStores
from lakecore.write.buckets.bucket_state import BucketState
from lakecore.write.buckets.cross_partition import CrossPartition, Emptied, KeyLimits, LiveKeys
from lakecore.write.buckets.dynamic_buckets import DynamicBuckets
from lakecore.write.buckets.postpone import (
    POSTPONE_BUCKET,
    PartitionBuckets,
    PostponeWriter,
    postponed_files,
    writer_prefix,
    writes_real_buckets,
)
from lakecore.write.buckets.routing import Placer, Router, Share
from lakecore.write.files.append_writer import AppendWriter
from lakecore.write.files.blob_packs import BlobPacks
from lakecore.write.files.key_value_writer import KeyValueSpec, KeyValueWriter
from lakecore.write.files.rolling import FileSpec, check_file_options
from lakecore.write.options import WriteRules
from lakecore.write.rows.incoming import Incoming, Rows
from lakecore.write.rows.local_merge import LocalMerge

__all__ = ["TableWrite", "WriteTarget"]

_Place = tuple[bytes, int]
"""A serialised partition and a bucket."""

logger = logging.getLogger(__name__)

_MAX_BUFFER = 1 << 30
_MAX_OPEN_FILES = 128
_NOT_BUCKETED = -1
_MAX_WRITER = 0x7FFFFFFF


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


class _Writer(Protocol):
    @property
    def buffered(self) -> int: ...

    @property
    def holds_file(self) -> bool: ...

    def write(self, rows: Rows) -> None: ...

    def empty_buffer(self) -> None: ...

    def close_open_files(self) -> None: ...

    def close(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]: ...

    def abort(self) -> None: ...


class TableWrite:
    """This is one write of any size. Call `abort` after a failure, or when its commit fails.

    `state` is called once, when the first row comes, and returns where sequence numbers continue. None: an
    overwrite; numbers start at 0 and there is no changelog. All writers share `write-buffer-size` bytes.
    `user` is the commit user, which becomes part of the names of postponed files. `replaced` is what is
    overwritten of a table whose keys may move between partitions, where that is not all of it; the new rows
    may take keys out of the rest.
    """

    def __init__(
        self,
        target: WriteTarget,
        state: Callable[[], BucketState] | None,
        user: str = "lakecore",
        replaced: Overwrite | None = None,
    ) -> None:
        self._user = user
        self._replaced = replaced
        stores = self._stores = target.stores
        self._number = int(stores.clock.fresh_id()[:8], 16) & _MAX_WRITER
        self._target = target
        self._schema = stores.schema
        self._options = TableOptions.from_schema(stores.schema)
        self._rules = WriteRules.from_options(stores.schema.options)
        check_file_options(stores.schema)
        self._engine = engine_of(stores.paths.table_path, stores.schema, self._options)
        self._incoming = Incoming(stores.schema, self._options)
        self._local = LocalMerge.of(stores.schema, self._options)
        self._dynamic: DynamicBuckets | None = None
        self._postpones = self._options.bucket_mode is BucketMode.POSTPONE and not writes_real_buckets(
            stores.schema.options
        )
        self._router: Router | CrossPartition | None = None
        self._load_state = state
        self._state: BucketState | None = None
        self._limit = min(self._rules.buffer_size, _MAX_BUFFER)
        self._buffered = 0
        self._writers: dict[_Place, _Writer] = {}
        self._holders: dict[_Place, _Writer] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises InvalidInputError naming column and row; nothing of the batch is then written."""
        rows = self._incoming.rows(batch)
        for part in (rows,) if self._local is None else self._local.add(rows):
            self.write_rows(part)

    def write_rows(self, rows: Rows) -> None:
        """Add rows that have the table's own types and all its columns."""
        if self._router is None:
            self._router = self._new_router()
        shares = self._router.split(rows)
        if self._postpones:
            shares = [replace(share, bucket=POSTPONE_BUCKET) for share in shares]
        self._write_shares(shares)

    def _write_shares(self, shares: Sequence[Share]) -> None:
        for share in shares:
            self._check_total(share)
        for share in shares:
            place = (share.partition, share.bucket)
            writer = self._writers.get(place) or self._new_writer(share)
            self._writers[place] = writer
            self._buffered -= writer.buffered
            writer.write(share.rows)
            self._buffered += writer.buffered
            self._park_others(place, writer)
            if self._buffered > self._limit:
                self._relieve()

    def finish(self) -> tuple[CommitMessage, ...]:
        """Write what is buffered; returns one message per bucket, in the order in which their first rows
        came.
        """
        for rows in () if self._local is None else self._local.drain():
            self.write_rows(rows)
        for shares in self._router.drain() if isinstance(self._router, CrossPartition) else ():
            self._write_shares(shares)
        messages = []
        for (partition, bucket), writer in self._writers.items():
            files, changelog = writer.close()
            if files or changelog:
                messages.append(self._message(partition, bucket, files, changelog))
        return tuple(messages) if self._dynamic is None else self._dynamic.indexed(messages)

    @property
    def overwrite(self) -> Overwrite | None:
        """Return the partitions that `replaced` means, once all rows have come."""
        if self._replaced is None or self._replaced.partitions is not None:
            return self._replaced
        kind, seen = self._schema.partition_type, self._overwritten
        specs = tuple(dict(zip(kind.names, decode_row(row, kind), strict=True)) for row in sorted(seen))
        if SpecFilter(specs, kind).select(tuple(seen)) != seen:
            raise UnsupportedError(
                f"table {self._stores.paths.table_path}: a partition value of the rows is NaN, not equal to "
                "itself, so its partition cannot be overwritten; delete its rows, and write new ones"
            )
        return Overwrite(specs, append_elsewhere=True)

    @property
    def _overwritten(self) -> frozenset[bytes]:
        return self._router.overwritten if isinstance(self._router, CrossPartition) else frozenset()

    @property
    def preconditions(self) -> Preconditions | None:
        """Return the state that determined where rows were placed, if it must not change before they are
        committed.
        """
        if self._dynamic is not None:
            return Preconditions(hash_indexes=self._dynamic.read_hash_files)
        if self._options.bucket_mode is BucketMode.KEY_DYNAMIC and self._router is not None:
            return Preconditions(read_snapshot=self._known.snapshot, whole_table=True)
        if self._options.bucket_mode is BucketMode.HASH_FIXED and self._state is not None:
            return Preconditions(read_snapshot=self._known.snapshot, same_counts=self._load_state is not None)
        return None

    def abort(self) -> None:
        """Remove every file that this write created."""
        for writer in self._writers.values():
            writer.abort()
        self._writers.clear()
        if isinstance(self._router, CrossPartition):
            self._router.close()
        if self._dynamic is not None:
            self._dynamic.abort()

    def _new_router(self) -> Router | CrossPartition:
        live_keys = self._target.live_keys
        if self._options.bucket_mode is BucketMode.KEY_DYNAMIC and live_keys is not None:
            return CrossPartition(
                self._stores.paths.table_path,
                self._schema,
                live_keys(self._known.snapshot),
                self._target.spill_io,
                emptied=self._named_partitions(),
                by_rows=self._replaced is not None and self._replaced.partitions is None,
                limits=self._target.key_limits,
            )
        return Router(self._schema, self._options, self._placer())

    def _named_partitions(self) -> Emptied | None:
        """Return the partitions that are overwritten, where they were named."""
        if self._replaced is None or self._replaced.partitions is None:
            return None
        return SpecFilter(self._replaced.partitions, self._schema.partition_type).select

    def _first_sequence(self, share: Share) -> int:
        named = self._named_partitions()
        gone = share.partition in self._overwritten or (named is not None and named((share.partition,)))
        return 0 if gone else self._known.next_sequence(share.partition, share.bucket)

    def _placer(self) -> Callable[[], Placer] | None:
        mode = self._options.bucket_mode
        if mode is BucketMode.POSTPONE and not self._postpones:
            return self._partition_buckets
        return self._dynamic_buckets if mode is BucketMode.HASH_DYNAMIC else None

    def _partition_buckets(self) -> PartitionBuckets:
        return PartitionBuckets(self._schema, self._options.bucket_function.value, self._known.totals)

    def _dynamic_buckets(self) -> DynamicBuckets:
        if self._dynamic is None:
            self._dynamic = DynamicBuckets(self._schema, self._stores.indexes, self._known)
        return self._dynamic

    def _total_buckets(self, partition: bytes) -> int:
        mode = self._options.bucket_mode
        if mode is BucketMode.POSTPONE:
            return POSTPONE_BUCKET if self._postpones else self._partition_buckets().total(partition)
        return self._options.bucket if mode is BucketMode.HASH_FIXED else _NOT_BUCKETED

    @property
    def _known(self) -> BucketState:
        if self._state is None:
            unaware = self._options.bucket_mode is BucketMode.BUCKET_UNAWARE
            load = None if unaware or self._postpones else self._load_state
            self._state = BucketState() if load is None else load()
        return self._state

    def _check_total(self, share: Share) -> None:
        """Check a rule of the format: all buckets of a partition have one bucket count until it is
        overwritten.
        """
        if self._postpones:
            return
        wanted = self._total_buckets(share.partition)
        total = self._known.totals.get(share.partition, wanted)
        if total != wanted:
            name = partition_text(share.values, self._schema.partition_type) or "the table"
            raise InvalidInputError(
                f"{name} has {total} buckets, but option bucket is {wanted}: overwrite it first"
            )

    def _message(
        self, partition: bytes, bucket: int, files: tuple[DataFile, ...], changelog: tuple[DataFile, ...]
    ) -> CommitMessage:
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=self._total_buckets(partition),
            new_files=files,
            changelog_files=changelog,
        )

    def _park_others(self, place: _Place, writer: _Writer) -> None:
        """Keep few files open: those that were written to last."""
        if writer.holds_file:
            self._holders.pop(place, None)
            self._holders[place] = writer
        while len(self._holders) > _MAX_OPEN_FILES:
            self._holders.pop(next(iter(self._holders))).close_open_files()

    def _relieve(self) -> None:
        """Empty the fullest buffers until half of the limit is free: seldom, and few small files or runs."""
        logger.debug("write buffers hold %d bytes; emptying the fullest", self._buffered)
        for place, writer in sorted(self._writers.items(), key=lambda item: -item[1].buffered):
            if self._buffered * 2 <= self._limit:
                return
            self._buffered -= writer.buffered
            writer.empty_buffer()
            self._park_others(place, writer)

    def _new_writer(self, share: Share) -> _Writer:
        target, stores = self._target, self._stores
        files = self._file_spec(share)
        if not self._schema.primary_keys:
            return AppendWriter(stores.file_io, files, stores.clock.now_ms, stores.paths.table_path)
        packs = None if target.moves else BlobPacks.of(stores.file_io, files, stores.paths.table_path)
        if self._postpones:
            return PostponeWriter(stores.file_io, self._postponed(files), stores.clock.now_ms, packs)
        spec = KeyValueSpec(
            files=files,
            changelog=self._changelog_spec(files),
            sequence_fields=self._options.sequence_fields,
            descending=self._options.sequence_order is SequenceOrder.DESCENDING,
            first_sequence=self._first_sequence(share),
            spillable=self._rules.spillable,
            at_once=self._options.snapshot_ordering,
            engine=self._engine,
            one_flush=target.one_flush,
        )
        return KeyValueWriter(stores.file_io, target.spill_io, spec, stores.clock.now_ms, packs)

    def _postponed(self, files: FileSpec) -> FileSpec:
        unique = files.name_prefix.removeprefix(self._options.data_file_prefix)
        prefix = writer_prefix(self._options.data_file_prefix, self._user, self._number, unique)
        return postponed_files(files, prefix)

    def _file_spec(self, share: Share) -> FileSpec:
        options = self._options
        prefix = self._target.file_prefix or options.data_file_prefix
        path = partition_path(
            share.values,
            self._schema.partition_type,
            options.partition_default_name,
            options.partition_legacy_name,
        )
        return FileSpec(
            directory=self._stores.paths.bucket_dir(path, share.bucket, options),
            name_prefix=f"{prefix}{self._stores.clock.fresh_id()}",
            schema=self._schema,
            keyed=bool(self._schema.primary_keys),
            source=FileSource.APPEND,
            target_size=options.target_file_size,
            options=self._schema.options,
            first_sequence=self._first_sequence(share),
        )

    def _changelog_spec(self, files: FileSpec) -> FileSpec | None:
        """Return the specification of changelog files, or None. Rule of the format: an overwriting snapshot
        has no changelog.
        """
        overwrites = self._load_state is None or self._replaced is not None
        if overwrites or self._options.changelog_producer is not ChangelogProducer.INPUT:
            return None
        unique = files.name_prefix.removeprefix(self._options.data_file_prefix)
        prefix = f"{self._options.changelog_file_prefix}{unique}"
        return replace(files, name_prefix=prefix, changelog=True)
