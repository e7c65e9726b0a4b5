"""This module reads what a lookup table keeps: all rows at the latest snapshot, then the changes of one
snapshot after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.lookup.tables.steps import Step, StepRules
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.predicate.tree import Predicate, columns_of, restricted
from lakecore.read.source.batch import history_of
from lakecore.read.source.changed_rows import ChangedRows, CompactedRows, ReplacedRows, StateRows
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.scan.filters import ScanFilter, filter_partitions
from lakecore.scan.startup import SCAN_MODE, StartupMode
from lakecore.scan.stream_policy import ChangeKind, StreamPolicy
from lakecore.scan.time_travel import latest_compacted_snapshot

__all__ = ["Follower", "LoadNeeded", "LookupRead"]


_TOP = (1 << 31) - 1


class LoadNeeded(Exception):
    """The table must be loaded again: its position expired, or a snapshot has changes that nothing tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRead:
    """It says which rows and columns are read."""

    columns: tuple[str, ...]
    """These columns are kept."""
    where: Predicate | None = None
    """Only rows for which it is true are kept."""
    buckets: frozenset[int] | None = None
    """Only these buckets are read; None for all."""
    partitions: tuple[tuple[Any, ...], ...] | None = None
    """Only partitions with these values are read; None for all."""
    follows_compactions: bool = False
    """It tells whether rows above level 0 are read, and then what compactions change of them."""
    keeps_deletes: bool = False
    """It tells whether all rows include those whose key was deleted, with their kinds, whatever the
    condition says.
    """


class Follower:
    """It has a position in the snapshots of a table. One thread may use it at a time."""

    def __init__(self, table: Readable, read: LookupRead) -> None:
        self._table = table
        self._read = read
        self._policy = StreamPolicy.from_schema(table.schema, table.options)
        self._rules = StepRules(self._policy, table.options, read.keeps_deletes, read.follows_compactions)
        self._history = history_of(table)
        self._scanner = ChangeScanner(table._scanner, table.schema)
        self._filter = self._scan_filter()
        self._last: Snapshot | None = None

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot that was read last; None before the first."""
        return None if self._last is None else self._last.id

    @property
    def pending(self) -> int:
        """Return the number of snapshots that follow and were not read. It costs a look for the latest."""
        latest = self._table._stores.snapshots.latest_id() or 0
        return max(latest - (self.snapshot_id or 0), 0)

    def start(self) -> Snapshot | None:
        """Choose the snapshot to load: the latest, or the latest compacted one if the option `scan.mode`
        says so. Return None while there is none.
        """
        snapshots = self._table._stores.snapshots
        if SCAN_MODE.read(self._table.schema.options) == StartupMode.COMPACTED_FULL.value:
            self._last = latest_compacted_snapshot(self._table.schema.options, snapshots)
        else:
            self._last = snapshots.latest()
        if self._last is not None:
            self._check_buckets(self._last)
        return self._last

    def rows(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        """Yield the rows to keep at a snapshot. Raises NotFoundError when it expires meanwhile."""
        self._table._scanner.check(self._table.schema)
        context, read = self._table._read_context(), self._read
        if read.keeps_deletes:
            all_rows = SnapshotRows(
                self._table._scanner, context, snapshot, where=self._filter, retracts=True, with_level_0=True
            )
            columns = tuple(self._columns_of_changes())
            return Scan(all_rows, self._where_of_changes(), columns, None).to_batches(kinds=True)
        source = StateRows(self._scanner, context, snapshot, self._filter)
        return Scan(source, read.where, read.columns, None).to_batches()

    def next(self) -> tuple[Snapshot, Iterator[pa.RecordBatch]] | None:
        """Return the next snapshot and its changes, whose last column is the row kind; None if there is none
        by now. The position stays until `advance` is called.

        Rows that do not meet the condition may be among the changes of a table with a primary key: they
        remove theirs. Raises LoadNeeded.
        """
        last = self._last
        if last is None:
            raise LoadNeeded
        snapshot = self._history.find(last.id + 1)
        current = self._table._stores.snapshots.find(last.id)
        if current is not None and current != last:
            raise LoadNeeded
        if snapshot is None:
            self._check_position(last)
            return None
        self._check_buckets(snapshot)
        step, kind = self._rules.step(snapshot, last)
        if step is Step.LOAD and self._concerns(snapshot):
            raise LoadNeeded
        compacted = snapshot.commit_kind is CommitKind.COMPACT and not self._read.follows_compactions
        if compacted and self._compacts_unseen(snapshot):
            raise LoadNeeded
        return snapshot, self._changes(snapshot, kind) if step is Step.CHANGES else iter(())

    def advance(self, snapshot: Snapshot) -> None:
        """Move the position to a snapshot whose changes are applied."""
        self._last = snapshot

    def partitions(self, snapshot: Snapshot) -> tuple[tuple[Any, ...], ...]:
        """Return the values of all partitions at a snapshot. It costs its manifests."""
        entries = self._table._scanner.live_entries(snapshot)
        partitions = [entries.partitions[code] for code in np.unique(entries.partition).tolist()]
        return tuple(
            decode_row(one, self._table.schema.partition_type, self._table.name) for one in partitions
        )

    def _changes(self, snapshot: Snapshot, kind: ChangeKind) -> Iterator[pa.RecordBatch]:
        context, where = self._table._read_context(), self._where_of_changes()
        columns = self._columns_of_changes()
        source: ChangedRows | ReplacedRows | CompactedRows
        if self._read.follows_compactions and kind is not ChangeKind.REPLACED:
            source = CompactedRows(self._scanner, context, snapshot)
        elif kind is ChangeKind.REPLACED:
            source = ReplacedRows(self._scanner, context, snapshot, self._filter.levels)
        else:
            source = ChangedRows(self._scanner, context, (snapshot,), kind)
        for part in source.plan(where):
            split = part[0] if isinstance(part, tuple) else part
            if self._keeps(split.partition, split.bucket):
                yield from source.read(part, columns, where, kinds=True)  # type: ignore[arg-type] # its own part

    def _where_of_changes(self) -> Predicate | None:
        """Return the condition that changes may be read with: a key must not change whether it is met."""
        schema = self._table.schema
        if not schema.primary_keys:
            return self._read.where
        return restricted(self._read.where, schema.primary_keys)

    def _columns_of_changes(self) -> Sequence[str]:
        where = self._read.where
        more = columns_of(where) if where is not None else frozenset()
        names = self._table.schema.row_type.names
        return [*self._read.columns, *(name for name in names if name in more - set(self._read.columns))]

    def _keeps(self, partition: bytes, bucket: int) -> bool:
        filter_ = self._filter
        if filter_.serialized is not None and partition not in filter_.serialized:
            return False
        return bucket >= 0 if filter_.buckets is None else bucket in filter_.buckets

    def _check_buckets(self, snapshot: Snapshot) -> None:
        """Raise UnsupportedError where some buckets are read, and their number is another now: the keys of
        the caller may be in others.
        """
        table, buckets = self._table, self._read.buckets
        if buckets is None:
            return
        number = TableOptions.from_schema(table._stores.schemas.load(snapshot.schema_id)).bucket
        if number != table.options.bucket:
            raise UnsupportedError(
                f"table {table.name}: buckets={sorted(buckets)}: the table had {table.options.bucket} "
                f"buckets and has {number} now; load it again"
            )

    def _concerns(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot added or removed files of a partition that is kept."""
        if self._filter.serialized is None:
            return True
        manifests = self._table._stores.manifests
        try:
            entries = manifests.read(manifests.read_list(snapshot.delta_manifest_list))
        except NotFoundError:
            return True
        partition_type = self._table.schema.partition_type
        return bool(filter_partitions(entries.partitions, self._filter, partition_type).any())

    def _compacts_unseen(self, snapshot: Snapshot) -> bool:
        """Return whether a compaction changed what is kept, and no change says so.

        Rows of an overwrite reach the levels that are kept without a changelog; and the sequences of deleted
        rows that were dropped do not count any more.
        """
        levels = self._policy.full_levels
        unseen = levels is not None and snapshot.changelog_manifest_list is None
        if not unseen and not self._read.keeps_deletes:
            return False
        entries = self._scanner.entries(snapshot, ChangeKind.REPLACED)
        removed = entries.kind == int(EntryKind.DELETE)
        if levels is not None:
            below = entries.level < levels[0]
            return bool((removed & below).any() and (~removed & ~below).any())
        return _deletes_in(entries.select(removed)) > _deletes_in(entries.select(~removed))

    def _scan_filter(self) -> ScanFilter:
        read, partition_type = self._read, self._table.schema.partition_type
        scan_filter = self._policy.first_filter
        if read.follows_compactions:
            scan_filter = ScanFilter(levels=(1, _TOP))
        if read.partitions is not None:
            scan_filter = replace(
                scan_filter, serialized=frozenset(encode_row(one, partition_type) for one in read.partitions)
            )
        return replace(scan_filter, buckets=read.buckets)

    def _check_position(self, last: Snapshot) -> None:
        """Raise LoadNeeded unless the next snapshot merely does not exist yet."""
        latest = self._table._stores.snapshots.latest_id()
        if latest is None or latest != last.id:
            if latest is not None and latest > last.id and self._history.find(last.id + 1) is not None:
                return
            raise LoadNeeded


def _deletes_in(entries: ManifestEntries) -> int:
    """Return the number of deleted rows in files; a file that does not tell counts as one."""
    counts = (entry.file.delete_row_count for entry in entries.rows(np.arange(len(entries))))
    return sum(1 if number is None else number for number in counts)
