"""This module writes batches of rows to the files of a table and returns commit messages. Nothing is visible
before a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from lakecore.commit.request import Overwrite, Preconditions
from lakecore.errors import InvalidInputError
from lakecore.format.encoders import Encoders
from lakecore.merge.engines.choice import engine_of
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.options import ChangelogProducer, SequenceOrder, TableOptions
from lakecore.row.partition_path import partition_path, partition_text
from lakecore.store.external_places import external_bucket
from lakecore.write.buckets.bucket_state import TableBuckets
from lakecore.write.buckets.placement import WriteTarget, placement_of
from lakecore.write.buckets.postpone import PostponeWriter, postponed_files, writer_prefix
from lakecore.write.buckets.routing import Share
from lakecore.write.files.append_writer import AppendWriter
from lakecore.write.files.blob_packs import BlobPacks
from lakecore.write.files.key_value_writer import KeyValueSpec, KeyValueWriter
from lakecore.write.files.rolling import FileSpec, check_file_options
from lakecore.write.options import WriteRules
from lakecore.write.rows.event_time import EventTime
from lakecore.write.rows.incoming import Incoming, Rows
from lakecore.write.rows.local_merge import LocalMerge

__all__ = ["TableWrite"]

_Place = tuple[bytes, int]
"""A serialised partition and a bucket."""

logger = logging.getLogger(__name__)

_MAX_BUFFER = 1 << 30
_MAX_OPEN_FILES = 128
_MAX_WRITER = 0x7FFFFFFF


class _Writer(Protocol):
    @property
    def buffered(self) -> int: ...

    @property
    def holds_file(self) -> bool: ...

    def write(self, rows: Rows) -> None: ...

    def empty_buffer(self) -> None: ...

    def close_open_files(self) -> None: ...

    def begin_close(self) -> None: ...

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
        state: Callable[[], TableBuckets] | None,
        user: str = "lakecore",
        replaced: Overwrite | None = None,
    ) -> None:
        self._user = user
        stores = self._stores = target.stores
        self._number = int(stores.clock.fresh_id()[:8], 16) & _MAX_WRITER
        self._target = target
        self._encoders = Encoders(target.threads) if target.threads > 1 else None
        self._schema = stores.schema
        self._options = TableOptions.from_schema(stores.schema)
        self._rules = WriteRules.from_options(stores.schema.options)
        check_file_options(stores.schema)
        self._engine = engine_of(stores.paths.table_path, stores.schema, self._options)
        self._incoming = Incoming(stores.schema, self._options, assigned=target.assigned)
        self.is_assigned = target.assigned
        """The buckets of the rows were assigned by other processes."""
        self._local = (
            None
            if target.assigned
            else LocalMerge.of(stores.paths.table_path, stores.schema, self._options, self._engine)
        )
        self._event_time = EventTime.of_table(stores.schema.row_type, stores.schema.options)
        self.event_time: int | None = None
        """This is the latest event time of the rows, in milliseconds; None without one."""
        self._placement = placement_of(target, state, replaced)
        self._overwrites = state is None or replaced is not None
        self._limit = min(self._rules.buffer_size, _MAX_BUFFER)
        self._buffered = 0
        self._writers: dict[_Place, _Writer] = {}
        self._holders: dict[_Place, _Writer] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises InvalidInputError naming column and row; nothing of the batch is then written."""
        rows = self._incoming.rows(batch)
        if self._event_time is not None:
            latest = self._event_time.latest_ms(rows.batch)
            self.event_time = max((one for one in (latest, self.event_time) if one is not None), default=None)
        for part in (rows,) if self._local is None else self._local.add(rows):
            self.write_rows(part)

    def write_rows(self, rows: Rows) -> None:
        """Add rows that have the table's own types and all its columns."""
        self._write_shares(self._placement.split(rows))

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

    @property
    def watermark(self) -> int | None:
        """Return the watermark of a commit of these rows, in milliseconds; None without event times."""
        return None if self._event_time is None else self._event_time.watermark((self.event_time,))

    def finish(self) -> tuple[CommitMessage, ...]:
        """Write what is buffered; returns one message per bucket, in the order in which their first rows
        came.
        """
        for rows in () if self._local is None else self._local.drain():
            self.write_rows(rows)
        for shares in self._placement.drain():
            self._write_shares(shares)
        messages = []
        for (partition, bucket), writer in self._closing():
            files, changelog = writer.close()
            if files or changelog:
                messages.append(self._message(partition, bucket, files, changelog))
        return self._placement.indexed(messages)

    def _closing(self) -> Iterator[tuple[_Place, _Writer]]:
        """Yield the writers to close, in their order. With encoders the next one sorts and merges its rows
        before the one before it waits for its last row groups.
        """
        if self._encoders is None:
            yield from self._writers.items()
            return
        last: tuple[_Place, _Writer] | None = None
        for one in self._writers.items():
            one[1].begin_close()
            if last is not None:
                yield last
            last = one
        if last is not None:
            yield last

    @property
    def overwrite(self) -> Overwrite | None:
        """Return what `replaced` means, once all rows have come. Raises UnsupportedError."""
        return self._placement.overwrite

    @property
    def preconditions(self) -> Preconditions | None:
        """Return the state that determined where rows were placed, if it must not change before they are
        committed.
        """
        return self._placement.preconditions

    def abort(self) -> None:
        """Remove every file that this write created."""
        for writer in self._writers.values():
            writer.abort()
        self._writers.clear()
        self._placement.abort()

    def _check_total(self, share: Share) -> None:
        """Check a rule of the format: all buckets of a partition have one bucket count until it is
        overwritten.
        """
        bucket_total = self._placement.total(share.partition)
        total = self._placement.buckets.state.total(share.partition)
        if total is not None and total != bucket_total:
            name = partition_text(share.values, self._schema.partition_type) or "the table"
            raise InvalidInputError(
                f"{name} has {total} buckets, but option bucket is {bucket_total}: rescale it to "
                f"{bucket_total} buckets (lakecore rescale), overwrite it, or set option bucket={total}"
            )

    def _message(
        self, partition: bytes, bucket: int, files: tuple[DataFile, ...], changelog: tuple[DataFile, ...]
    ) -> CommitMessage:
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=self._placement.total(partition),
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
            return AppendWriter(
                stores.file_io, files, stores.clock.now_ms, stores.paths.table_path, self._encoders
            )
        packs = None if target.moves else BlobPacks.of(stores.file_io, files, stores.paths.table_path)
        if self._placement.postpones:
            postponed = self._postponed_spec(files)
            return PostponeWriter(stores.file_io, postponed, stores.clock.now_ms, packs, self._encoders)
        spec = KeyValueSpec(
            files=files,
            changelog=self._changelog_spec(files),
            sequence_fields=self._options.sequence_fields,
            descending=self._options.sequence_order is SequenceOrder.DESCENDING,
            first_sequence=self._placement.first_sequence(share),
            spillable=self._rules.spillable,
            at_once=self._options.snapshot_ordering,
            engine=self._engine,
            one_flush=target.one_flush,
        )
        return KeyValueWriter(
            stores.file_io, target.spill_io, spec, stores.clock.now_ms, packs, self._encoders
        )

    def _postponed_spec(self, files: FileSpec) -> FileSpec:
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
        paths = self._stores.paths
        directory = paths.bucket_dir(path, share.bucket, options)
        return FileSpec(
            directory=directory,
            external=external_bucket(paths.table_path, directory, self._schema.options),
            name_prefix=f"{prefix}{self._stores.clock.fresh_id()}",
            schema=self._schema,
            keyed=bool(self._schema.primary_keys),
            source=FileSource.APPEND,
            target_size=options.target_file_size,
            options=self._schema.options,
            first_sequence=self._placement.first_sequence(share),
        )

    def _changelog_spec(self, files: FileSpec) -> FileSpec | None:
        """Return the specification of changelog files, or None. Rule of the format: an overwriting snapshot
        has no changelog.
        """
        if self._overwrites or self._options.changelog_producer is not ChangelogProducer.INPUT:
            return None
        unique = files.name_prefix.removeprefix(self._options.data_file_prefix)
        prefix = f"{self._options.changelog_file_prefix}{unique}"
        return replace(files, name_prefix=prefix, changelog=True)
