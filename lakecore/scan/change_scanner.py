"""The change scanner finds the files that hold the changes of snapshots, and the buckets that differ
between two states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.options import BucketMode, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.scan.incremental import Difference
from lakecore.scan.plan import SplitPolicy, bucket_splits, plan_splits
from lakecore.scan.pruning import prune_buckets, prune_files, prune_partitions
from lakecore.scan.row_ranges import plan_row_ranges
from lakecore.scan.scanner import Scanner, created_since
from lakecore.scan.split import Split, SplitPlan
from lakecore.scan.stream_policy import ChangeKind

__all__ = ["ChangeScanner", "DiffSplit"]

Deletions: TypeAlias = Mapping[tuple[bytes, int, str], DeletionFile]
"""These are the deletion vectors by serialised partition, bucket and name of the data file."""
Identity: TypeAlias = tuple[bytes, int, int, bytes, DeletionFile | None]


@dataclass(frozen=True, slots=True)
class DiffSplit:
    """One bucket in two states, without the files that both states have; either may be None. It can be
    pickled.
    """

    before: Split | None
    after: Split | None


@dataclass(frozen=True)
class ChangeScanner:
    """This scanner plans reads of changes with the columns and options of `schema`; `scanner` supplies
    table and storage.
    """

    scanner: Scanner
    schema: TableSchema

    def entries(self, snapshot: Snapshot, kind: ChangeKind) -> ManifestEntries:
        """Return the ADD entries of the delta or the changelog of a snapshot, in the order of the
        manifests.

        `REPLACED` returns the DELETE entries too. Raises NotFoundError when the snapshot has expired
        meanwhile.
        """
        name = (
            snapshot.changelog_manifest_list if kind is ChangeKind.CHANGELOG else snapshot.delta_manifest_list
        )
        if name is None:
            return ManifestEntries.empty()
        manifests = self.scanner.stores.manifests_for_plans
        try:
            entries = manifests.read(manifests.read_list(name))
        except NotFoundError as err:
            raise self.scanner.stores.snapshots.missing_file(snapshot.id, err) from err
        if kind is ChangeKind.REPLACED:
            return entries
        return entries.select(entries.kind == int(EntryKind.ADD))

    def changes(
        self,
        snapshots: Sequence[Snapshot],
        kind: ChangeKind,
        predicate: Predicate | None = None,
        *,
        postponed: bool = False,
        as_batch: bool = False,
    ) -> SplitPlan:
        """Plan splits that are read without merging; the files of a bucket are in the order of the
        snapshots.

        `as_batch` plans the splits and the order of a batch read instead (see `changelog_order`).
        `postponed` includes rows that have no bucket yet, and so are not part of the table. Files that
        certainly hold no row for which `predicate` is true are left out.
        """
        entries = ManifestEntries.concat([self.entries(snapshot, kind) for snapshot in snapshots])
        if not postponed:
            entries = entries.select(entries.bucket >= 0)
        entries = self._prune(entries, predicate)
        if not as_batch or not self.schema.primary_keys or not len(entries):
            return self._raw_splits(entries)
        options = TableOptions.from_schema(self.schema)
        unique = options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW
        policy = SplitPolicy.from_options(self.schema.options)
        return plan_splits(entries, policy, self.schema.key_type, keys_unique=unique, as_changelog=True)

    def postponed(
        self, snapshot: Snapshot, predicate: Predicate | None = None, created_ms: int | None = None
    ) -> SplitPlan:
        """Plan the live files of postponed buckets, to be read without merging; for `created_ms` see
        `Scanner.plan`.
        """
        entries = self.scanner.live_entries(snapshot)
        entries = self._prune(entries.select(entries.bucket < 0), predicate)
        return self._raw_splits(entries if created_ms is None else created_since(entries, created_ms))

    def replaced(
        self, snapshot: Snapshot, predicate: Predicate | None = None
    ) -> tuple[tuple[Split, ...], tuple[Split, ...]]:
        """Return what an overwrite removed and what it added, as buckets to merge, one split each.

        Raises NotFoundError when the previous snapshot has expired, because its deletion vectors are
        needed.
        """
        entries = self._prune(self.entries(snapshot, ChangeKind.REPLACED), predicate)
        removed = entries.kind == int(EntryKind.DELETE)
        hidden: Deletions = {}
        if removed.any():
            hidden = self._deletions_before(snapshot)
        return _to_merge(entries.select(removed), hidden), _to_merge(entries.select(~removed), {})

    def _deletions_before(self, snapshot: Snapshot) -> Deletions:
        before = self.scanner.stores.snapshots.find(snapshot.id - 1)
        if before is not None:
            return self.scanner.deletions(before)
        if TableOptions.from_schema(self.schema).deletion_vectors:
            raise self.scanner.stores.snapshots.missing_file(
                snapshot.id - 1, NotFoundError("its deletion vectors show which rows were replaced")
            )
        return {}

    def difference(
        self, request: Difference, predicate: Predicate | None = None, *, with_deleted: bool = False
    ) -> tuple[DiffSplit, ...]:
        """Return the buckets that differ between two states. `with_deleted`: rows that were only deleted
        matter too.

        Raises InvalidInputError if the number of buckets changed, UnsupportedError if the files that
        differ do not show which rows do.
        """
        if self._columnwise:
            raise UnsupportedError(
                f"table {self.scanner.table}: files of some columns (data-evolution.enabled) do not tell "
                "which rows two states share; use another engine"
            )
        self._check_buckets(request)
        states = [self._state(snapshot, predicate) for snapshot in (request.before, request.after)]
        hidden = [self.scanner.deletions(snapshot) for snapshot in (request.before, request.after)]
        before, after = self._without_common(states, hidden if with_deleted else ({}, {}))
        if self.schema.primary_keys:
            pairs = {(split.partition, split.bucket): split for split in _to_merge(before, hidden[0])}
            paired = [
                DiffSplit(pairs.pop((split.partition, split.bucket), None), split)
                for split in _to_merge(after, hidden[1])
            ]
            return (*paired, *(DiffSplit(split, None) for split in pairs.values()))
        if len(before):
            raise UnsupportedError(
                f"table {self.scanner.table}: {len(before)} files were removed or have other deleted rows "
                f"between snapshots {request.before.id} and {request.after.id}; without a primary key it is "
                "not known which rows of the others are new; read the appended rows instead (mode delta, "
                "between snapshots)"
            )
        plan = replace(self._raw_splits(after), deletions=hidden[1])
        return tuple(DiffSplit(None, split) for split in plan)

    def _state(self, snapshot: Snapshot, predicate: Predicate | None) -> ManifestEntries:
        """Return what a batch read of the snapshot would merge."""
        options = TableOptions.from_schema(self.schema)
        entries = self.scanner.live_entries(snapshot)
        entries = entries.select(entries.bucket >= 0)
        if self.schema.primary_keys and options.skips_level_0:
            entries = entries.select(entries.level > 0)
        return self._prune(entries, predicate)

    def _without_common(
        self, states: Sequence[ManifestEntries], deletions: Sequence[Deletions]
    ) -> tuple[ManifestEntries, ManifestEntries]:
        """Return both states without common files. Rule of the format: files of both states count for
        neither. It costs some microseconds per file.

        Where an engine makes one row of several, the rest of a bucket does not tell its rows: refused.
        """
        before, after = states
        ours, theirs = (_identities(*pair) for pair in zip(states, deletions, strict=True))
        common = set(ours) & set(theirs)
        left = before.select(np.array([identity not in common for identity in ours], np.bool_))
        right = after.select(np.array([identity not in common for identity in theirs], np.bool_))
        options = TableOptions.from_schema(self.schema)
        engine = options.merge_engine
        folds = engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        if self.schema.primary_keys and folds and not options.skips_level_0:
            changed = {identity[:2] for identity in {*ours, *theirs} - common}
            if any(identity[:2] in changed for identity in common):
                raise UnsupportedError(
                    f"table {self.scanner.table}: merge-engine={engine.value}: buckets were changed in part "
                    "between the two states, and their rows cannot be compared; read the changes instead "
                    "(mode delta or changelog, between snapshots)"
                )
        return left, right

    def _prune(self, entries: ManifestEntries, predicate: Predicate | None) -> ManifestEntries:
        if predicate is None:
            return entries
        load = self.scanner.stores.schemas.load
        entries = prune_partitions(entries, predicate, self.schema.partition_type)
        entries = prune_buckets(entries, predicate, self.schema, load)
        if self._columnwise:
            return entries
        return prune_files(entries, predicate, self.schema, load)

    @property
    def _columnwise(self) -> bool:
        """Return whether files may have only some columns of their rows."""
        return TableOptions.from_schema(self.schema).data_evolution

    def _raw_splits(self, entries: ManifestEntries) -> SplitPlan:
        if self._columnwise:
            return plan_row_ranges(entries, SplitPolicy.from_options(self.schema.options), self.scanner.table)
        mode = TableOptions.from_schema(self.schema).bucket_mode
        if mode is BucketMode.BUCKET_UNAWARE:
            return plan_splits(entries, SplitPolicy.from_options(self.schema.options), None)
        return bucket_splits(entries)

    def _check_buckets(self, request: Difference) -> None:
        options = [
            TableOptions.from_schema(self.scanner.stores.schemas.load(snapshot.schema_id))
            for snapshot in (request.before, request.after)
        ]
        if options[0].bucket != options[1].bucket:
            raise InvalidInputError(
                f"table {self.scanner.table}: snapshots {request.before.id} and {request.after.id} have "
                f"{options[0].bucket} and {options[1].bucket} buckets: states with different "
                "buckets cannot be compared"
            )


def _identities(entries: ManifestEntries, deletions: Deletions) -> list[Identity]:
    """Return what makes files equal: partition, bucket, level, name and, if they count, their deleted
    rows.
    """
    partitions = [entries.partitions[code] for code in entries.partition.tolist()]
    buckets, levels, names = entries.bucket.tolist(), entries.level.tolist(), entries.names()
    rows = zip(partitions, buckets, levels, names, strict=True)
    if not deletions:
        return [(*row, None) for row in rows]
    return [(*row, deletions.get((row[0], row[1], row[3].decode()))) for row in rows]


def _to_merge(entries: ManifestEntries, deletions: Deletions) -> tuple[Split, ...]:
    """Return one split per bucket, whose files have to be merged."""
    plan = replace(bucket_splits(entries), deletions=deletions)
    return tuple(replace(split, raw_convertible=False) for split in plan)
