"""This module has the changes of a table as sources for scans: their parts are read raw, merged, or
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.options import BucketMode
from lakecore.metadata.row_kind import KIND_NAME, RowKind, is_retract
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.read.context import ReadContext
from lakecore.read.split.change_reader import read_changes, with_kind
from lakecore.read.split.diff_reader import read_difference
from lakecore.read.split.split_reader import ReadRequest, read_split
from lakecore.scan.change_scanner import ChangeScanner, DiffSplit
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.scan.incremental import Difference
from lakecore.scan.split import Split
from lakecore.scan.stream_policy import ChangeKind
from lakecore.types.datatypes import RowType

__all__ = ["ChangedRows", "CompactedRows", "DiffRows", "ReplacedRows", "StateRows"]


@dataclass(frozen=True)
class ChangedRows:
    """These are rows of the deltas or the changelogs of snapshots, bucket by bucket, in the order of the
    snapshots.
    """

    scanner: ChangeScanner
    context: ReadContext
    snapshots: tuple[Snapshot, ...]
    kind: ChangeKind
    postponed: bool = False
    """Include rows that have no bucket yet, as streams without a changelog do."""
    as_batch: bool = False
    """See `ChangeScanner.changes`."""

    @property
    def description(self) -> str:
        ids = [snapshot.id for snapshot in self.snapshots]
        within = f"of snapshots {ids[0]} to {ids[-1]}" if ids else "of no snapshot"
        return f"{self.scanner.scanner.table}, changes {within}"

    @property
    def row_type(self) -> RowType:
        return self.context.schema.row_type

    def plan(self, where: Predicate | None) -> Sequence[Split]:
        """Return the splits to read. For the errors see `ChangeScanner.changes`."""
        return self.scanner.changes(
            self.snapshots, self.kind, where, postponed=self.postponed, as_batch=self.as_batch
        )

    def read(
        self, part: Split, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a split, see `read_changes`. With data evolution, columns that the snapshots did not write are
        null.
        """
        if self.context.options.data_evolution:
            return read_split(self.context, part, ReadRequest(columns, where, kinds=kinds))
        return _as_changes(read_changes(self.context, part, columns, where), kinds=kinds)


@dataclass(frozen=True)
class StateRows:
    """This is the whole state of a table at a snapshot, as the first rows of a stream."""

    scanner: ChangeScanner
    context: ReadContext
    snapshot: Snapshot
    where: ScanFilter = EVERYTHING
    """These are the levels to read."""
    created_ms: int | None = None
    postponed: bool = False
    """Append rows that have no bucket yet, as they were written: the stream includes them, too."""
    retracts: bool = False
    """Include the keys whose newest row is a delete, where their files still have it."""

    @property
    def description(self) -> str:
        return f"{self.scanner.scanner.table} at snapshot {self.snapshot.id}"

    @property
    def row_type(self) -> RowType:
        return self.context.schema.row_type

    def plan(self, where: Predicate | None) -> Sequence[Split]:
        """Return the splits to read. For the errors see `Scanner.plan`."""
        plan = self.scanner.scanner.plan(
            self.snapshot,
            self.context.schema,
            self.where,
            where,
            created_ms=self.created_ms,
            with_level_0=True,
        )
        if not self.postponed or self.context.options.bucket_mode is not BucketMode.POSTPONE:
            return plan
        return (*plan, *self.scanner.postponed(self.snapshot, where, self.created_ms))

    def read(
        self, part: Split, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a split, see `read_split`."""
        if part.bucket < 0:
            return _as_changes(read_changes(self.context, part, columns, where), kinds=kinds)
        return read_split(
            self.context, part, ReadRequest(columns, where, kinds=kinds, retracts=self.retracts)
        )


ReplacedPart: TypeAlias = tuple[Split, bool]


@dataclass(frozen=True)
class ReplacedRows:
    """These are the changes of an overwrite: the rows it removed as deletes, then those it added."""

    scanner: ChangeScanner
    context: ReadContext
    snapshot: Snapshot
    levels: tuple[int, int] | None = None
    """Only files of these levels count, the lowest and the highest; None for all levels."""

    @property
    def description(self) -> str:
        return f"{self.scanner.scanner.table}, changes of snapshot {self.snapshot.id}"

    @property
    def row_type(self) -> RowType:
        return self.context.schema.row_type

    def plan(self, where: Predicate | None) -> Sequence[ReplacedPart]:
        """Return the parts; each is a split, and whether its rows were removed. In a bucket, removed rows
        come first.
        """
        removed, added = (
            [part for split in splits if (part := _of_levels(split, self.levels)).files]
            for splits in self.scanner.replaced(self.snapshot, where)
        )
        return (*((split, True) for split in removed), *((split, False) for split in added))

    def read(
        self, part: ReplacedPart, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read merged rows; removed ones are returned as deletes."""
        split, removed_files = part
        rows = read_split(self.context, split, ReadRequest(columns, where, kinds=kinds and not removed_files))
        return (with_kind(batch, RowKind.DELETE) for batch in rows) if kinds and removed_files else rows


@dataclass(frozen=True)
class CompactedRows:
    """These are the changes of a compaction to the rows above level 0: deletes of all keys that its files of
    level 0 have, then the rows of the files that it made.

    Paimon's IncrementalCompactDiffSplitRead compares the rows before and after; here keys that stay as they
    are are written again, and no row before is read but those of level 0.
    """

    scanner: ChangeScanner
    context: ReadContext
    snapshot: Snapshot

    def plan(self, where: Predicate | None) -> Sequence[ReplacedPart]:
        """Return the parts; each is a split, and whether its rows were removed. A bucket of which no file of
        level 0 was compacted has no changes.
        """
        removed, added = self.scanner.replaced(self.snapshot, where)
        fresh = [part for split in removed if (part := _of_levels(split, (0, 0))).files]
        changed = {(split.partition, split.bucket) for split in fresh}
        return (
            *((split, True) for split in fresh),
            *((split, False) for split in added if (split.partition, split.bucket) in changed),
        )

    def read(
        self, part: ReplacedPart, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read merged rows; of a removed file each row, as a delete, but for deletes that are ignored."""
        split, removed_files = part
        if not removed_files:
            return read_split(self.context, split, ReadRequest(columns, where, kinds=kinds))
        return self._deletes(read_changes(self.context, split, columns, where))

    def _deletes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch
            if self.context.options.ignore_delete:
                rows = batch.filter(pa.array(~is_retract(batch.column(KIND_NAME).to_numpy())))
            yield with_kind(rows.drop_columns([KIND_NAME]), RowKind.DELETE)


def _of_levels(split: Split, levels: tuple[int, int] | None) -> Split:
    """Return a split with its files of these levels, None for all; it may have no files."""
    if levels is None:
        return split
    pairs = zip(split.files, split.deletions or (None,) * len(split.files), strict=True)
    present = [(file, deletion) for file, deletion in pairs if levels[0] <= file.level <= levels[1]]
    deletions = tuple(deletion for _, deletion in present) if split.deletions else ()
    return replace(split, files=tuple(file for file, _ in present), deletions=deletions)


@dataclass(frozen=True)
class DiffRows:
    """These rows differ between two states; with `deletes` also those that were removed."""

    scanner: ChangeScanner
    context: ReadContext
    difference: Difference
    deletes: bool = False

    @property
    def description(self) -> str:
        before, after = self.difference.before.id, self.difference.after.id
        return f"{self.scanner.scanner.table}, difference of snapshots {before} and {after}"

    @property
    def row_type(self) -> RowType:
        return self.context.schema.row_type

    def plan(self, where: Predicate | None) -> Sequence[DiffSplit]:
        """Return the splits to compare. For the errors see `ChangeScanner.difference`."""
        return self.scanner.difference(self.difference, where, with_deleted=self.deletes)

    def read(
        self, part: DiffSplit, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a split, see `read_difference`; all rows of append tables are new."""
        if self.context.keyed:
            batches = read_difference(self.context, part, columns, where, deletes=self.deletes)
            return _as_changes(batches, kinds=kinds)
        if part.after is None:
            return iter(())
        return read_split(self.context, part.after, ReadRequest(columns, where, kinds=kinds))


def _as_changes(batches: Iterator[pa.RecordBatch], *, kinds: bool) -> Iterator[pa.RecordBatch]:
    return batches if kinds else (batch.drop_columns([KIND_NAME]) for batch in batches)
