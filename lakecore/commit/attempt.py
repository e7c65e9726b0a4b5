"""The commit loop of one change: it tries until the change is published, is a duplicate, conflicts or exceeds
its retries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from lakecore.commit.conflict import (
    Conflict,
    changed_bucket_counts,
    describe,
    find_conflicts,
    find_missing,
    mixed_bucket_counts,
    waiting_files,
)
from lakecore.commit.descendant_search import DescendantSearch
from lakecore.commit.duplicates import DuplicateSearch
from lakecore.commit.index_changes import IndexChange, UpdatedRows, check_no_stale_index, indexes_after
from lakecore.commit.manifest_draft import ManifestDraft
from lakecore.commit.manifest_merge import MergePolicy
from lakecore.commit.partitions import SpecFilter
from lakecore.commit.plan import Change, SnapshotLists, next_snapshot, record_delta
from lakecore.commit.preconditions import (
    added_row_snapshots,
    changed_hash_indexes,
    changed_rows,
    has_same_identity,
    may_rescale,
)
from lakecore.commit.publication import publish
from lakecore.commit.publication_notes import note_publication
from lakecore.commit.request import CommitRequest
from lakecore.commit.retry import RetryPolicy
from lakecore.commit.row_ids import (
    assign_row_ids,
    column_update_conflicts,
    has_column_updates,
    row_range_conflicts,
)
from lakecore.commit.support import check_committable
from lakecore.commit.view import LiveView, TableView, data_files
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
)
from lakecore.metadata.json_record import json_object
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.options import BucketMode
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.metadata.snapshot_order import with_snapshot_numbers
from lakecore.store.settle_time import settle_ms
from lakecore.store.table_stores import TableStores

__all__ = ["ChangeCommit"]

logger = logging.getLogger(__name__)


class ChangeCommit:
    """This is a commit of one change. `options` take precedence over the options of the table's schema."""

    def __init__(
        self,
        stores: TableStores,
        change: Change,
        request: CommitRequest,
        options: Mapping[str, str],
    ) -> None:
        self._stores = stores
        self._change = change
        self._request = request
        self._options = options
        self._clock = stores.clock
        self._search = DuplicateSearch(stores.snapshots, request.user, request.identifier)
        self._live_view: LiveView | None = None
        self._draft = ManifestDraft(stores.manifests)
        self._replaced: list[Snapshot] = []
        self._inherited = False
        self.notes: list[str] = []

    def run(self) -> tuple[Snapshot | None, bool]:
        """Commit the change. It returns the snapshot that holds it, and whether an earlier run had published
        it.

        The snapshot is None when an overwrite neither removes nor adds anything. Raises CommitConflictError
        naming the files, CommitUncertainError, and UnavailableError when other commits won every retry.
        Afterwards `notes` says what became of snapshots that other writers replaced.
        """
        with self._uncertain_when_replaced():
            started = self._clock.monotonic()
            retry = 0
            while True:
                latest = self._stores.snapshots.latest()
                if (earlier := self._committed_before(latest)) is not None:
                    return earlier
                view = TableView.of(latest, self._schema(), self._options)
                policy = RetryPolicy.from_options(view.raw)
                settle = settle_ms(view.raw, self._stores.root)
                try:
                    planned = self._plan(view)
                    self._examine(planned, latest)
                    if planned is None or self._publish(planned, latest, settle, retry):
                        return self._find_published(planned), False
                    logger.info(
                        "%s: another writer committed snapshot %d first, so the commit is planned again",
                        self._stores.root,
                        planned.id,
                    )
                except NotFoundError as err:
                    self._draft.discard()
                    if latest is None or self._is_newest(latest):
                        raise self._lost_error(latest, err) from err
                    logger.info(
                        "%s: the latest snapshot expired during the planning, so the commit is planned again",
                        self._stores.root,
                    )
                except BaseException:
                    self._draft.discard()
                    raise
                self._draft.discard()
                self._wait(retry, started, policy)
                retry += 1

    @contextmanager
    def _uncertain_when_replaced(self) -> Iterator[None]:
        """Raise CommitUncertainError for any failure after another writer replaced a snapshot of this
        commit.
        """
        try:
            yield
        except LakeError as err:
            if not self._replaced:
                raise
            raise CommitUncertainError(
                f"{self._stores.root}: {'; '.join(self.notes)}; this commit could not be repeated ({err}), "
                "and it is not known whether another writer has built on it: commit again with the same user "
                "and identifier, and delete nothing"
            ) from err

    def _committed_before(self, latest: Snapshot | None) -> tuple[Snapshot, bool] | None:
        """Return the snapshot that has the change already, and whether an earlier run had published it."""
        earlier = self._duplicate(latest)
        if earlier is not None and self._replaced:
            raise CommitUncertainError(
                f"another run committed it under the same name as snapshot {earlier.id}"
            )
        if earlier is not None:
            return earlier, True
        descendant = self._descendant(latest)
        return None if descendant is None else (descendant, False)

    def _examine(self, planned: Snapshot | None, latest: Snapshot | None) -> None:
        """Call `examine` unless the commit only records its name again: the snapshot that holds the change
        was examined before.
        """
        examine = self._request.examine
        if planned is not None and examine is not None and not self._inherited:
            examine(planned, latest, self._stores.manifests)

    def _find_published(self, planned: Snapshot | None) -> Snapshot | None:
        if planned is not None and self._replaced:
            self.notes.append(f"the commit was repeated as snapshot {planned.id}")
            note_publication(self.notes[-1])
            logger.warning("%s: %s", self._stores.root, self.notes[-1])
        return planned

    def _descendant(self, latest: Snapshot | None) -> Snapshot | None:
        """Return a snapshot that was built on a replaced snapshot of this commit: it holds the change.

        What only the replaced snapshot recorded is then committed again: its changelog, and the name of the
        commit, by which a repetition is recognised.
        """
        for snapshot in () if self._inherited else self._replaced:
            descendant = DescendantSearch(self._stores, snapshot, self._change).find(latest)
            if descendant is None:
                continue
            self.notes.append(
                f"snapshot {descendant.id} was built on snapshot {snapshot.id} of this commit, so the table "
                "has the changes of this commit; it lacks those of the commit that replaced snapshot "
                f"{snapshot.id}: let the writer of that commit repeat it"
            )
            if not len(self._change.changelog) and self._request.identifier == BATCH_IDENTIFIER:
                return descendant
            self._change = replace(
                self._change,
                entries=ManifestEntries.empty(),
                index=IndexChange(),
                required_files=ManifestEntries.empty(),
                checked=False,
            )
            self._inherited = True
            return None
        return None

    def _plan(self, view: TableView) -> Snapshot | None:
        check_committable(view.schema)
        if view.options.bucket_mode is BucketMode.HASH_FIXED:
            self._refuse(waiting_files(self._change.entries), view.latest)
        self._check_preconditions(view)
        base, entries = self._compare(view)
        index = self._index(view, base, entries)
        changed = len(entries) or len(self._change.changelog) or index is not None
        if not changed and not self._request.allow_empty and not self._inherited:
            return None
        return next_snapshot(
            view.latest and self._complete(view.latest, view.schema),
            self._change.kind,
            self._request,
            self._write(view, entries, index),
            view.schema.id,
            self._clock.now_ms(),
        )

    def _compare(self, view: TableView) -> tuple[ManifestEntries | None, ManifestEntries]:
        """Return the live entries that were compared, if any, and the delta to commit. Raises on a
        conflict.
        """
        change = self._change
        placed = self._request.preconditions is not None and has_column_updates(change.kind, change.entries)
        if not change.checked and not placed:
            return None, change.entries
        base = self._live(view)
        entries = change.entries
        if change.kind is CommitKind.OVERWRITE and self._request.overwrite is not None:
            removed = replace(base, kind=np.full(len(base), EntryKind.DELETE, np.int8))
            entries = ManifestEntries.concat([removed, entries])
        ordered = view.schema.primary_keys and not view.options.pk_clustering_override
        key_of = key_order(view.schema.key_type) if ordered else None
        conflicts = find_conflicts(base, entries, change.kind, key_of)
        if change.kind is CommitKind.COMPACT and view.options.data_evolution:
            conflicts += row_range_conflicts(base, entries)
        conflicts += self._displaced_files(base, entries, view.latest)
        if self._request.preconditions is not None and self._request.preconditions.one_bucket_count:
            conflicts += mixed_bucket_counts(base, entries)
        self._refuse((*conflicts, *find_missing(base, change.required_files)), view.latest)
        return base, entries

    def _displaced_files(
        self, base: ManifestEntries, entries: ManifestEntries, latest: Snapshot | None
    ) -> tuple[Conflict, ...]:
        """Find files of columns whose rows moved to other files or changed since they were read."""
        required = self._request.preconditions
        if required is None or not has_column_updates(self._change.kind, entries):
            return ()
        same = None not in self._newer(required.read_snapshot, latest)
        since = required.read_snapshot.id if same and required.read_snapshot is not None else -1
        return column_update_conflicts(base, entries, since)

    def _check_preconditions(self, view: TableView) -> None:
        """Raise CommitConflictError where the state that determined the rows or their buckets has changed."""
        latest = view.latest
        required, overwrite = self._request.preconditions, self._request.overwrite
        replaced = overwrite is not None and not overwrite.append_elsewhere
        if required is None or self._change.kind is CommitKind.COMPACT or replaced:
            return
        manifest = None if latest is None else latest.index_manifest
        files = self._stores.manifests.read_index(manifest) if required.hash_indexes is not None else ()
        self._refuse(tuple(changed_hash_indexes(required, files)), latest)
        if required.whole_table:
            self._refuse(
                tuple(added_row_snapshots(required, self._newer(required.read_snapshot, latest))),
                latest,
            )
        if (rows := required.rows_read) is not None:
            self._refuse(tuple(changed_rows(rows, self._newer(rows.snapshot, latest))), latest)
        if required.same_counts:
            self._check_bucket_counts(view, self._newer(required.read_snapshot, latest))

    def _check_bucket_counts(self, view: TableView, newer: Sequence[Snapshot | None]) -> None:
        """Raise CommitConflictError where a partition has another bucket count than its new files were made
        for. Partitions without files have that of the option, which may have changed; where the option gives
        none, they have none yet. It costs nothing where no commit has changed a count.
        """
        entries, options = self._change.entries, view.options
        own_counts = options.bucket_mode is BucketMode.POSTPONE
        default = options.bucket if options.bucket_mode is BucketMode.HASH_FIXED else None
        is_outdated = default is not None and bool((entries.total_buckets != default).any())
        if is_outdated or any(may_rescale(snapshot, own_counts=own_counts) for snapshot in newer):
            self._refuse(changed_bucket_counts(self._live(view), entries, default), view.latest)

    def _newer(self, base: Snapshot | None, latest: Snapshot | None) -> list[Snapshot | None]:
        """List the snapshots after `base`; None stands for one that no longer exists or belongs to another
        history.
        """
        if latest is None:
            return [] if base is None else [None]
        find = self._stores.snapshots.find
        if base is not None:
            same = latest if latest.id == base.id else find(base.id)
            if same is None or latest.id < base.id or not has_same_identity(same, base):
                return [None]
        first = 1 if base is None else base.id + 1
        return [*map(find, range(first, latest.id)), *([latest] if latest.id >= first else [])]

    def _refuse(self, conflicts: Sequence[Conflict], latest: Snapshot | None) -> None:
        if conflicts:
            at = "an empty table" if latest is None else f"snapshot {latest.id}"
            raise CommitConflictError(
                f"{self._stores.root}: the commit conflicts with {at}: {describe(conflicts)}; plan it again",
                tuple((c.partition, c.bucket, c.file_name) for c in conflicts),
            )

    def _index(
        self, view: TableView, base: ManifestEntries | None, entries: ManifestEntries
    ) -> tuple[IndexFile, ...] | None:
        """Return all index files after the change; None when they do not change. Raises on a conflict.

        It costs a read of the index manifest, unless the change is a plain append.
        """
        change, latest = self._change, view.latest
        if latest is not None and latest.index_manifest and has_column_updates(change.kind, change.entries):
            indexes = self._stores.manifests.read_index(latest.index_manifest)
            check_no_stale_index(self._stores.root, indexes, self._column_updates())
        if not change.index and not change.checked:
            return None
        before = () if latest is None else self._stores.manifests.read_index(latest.index_manifest)
        unaware = view.options.bucket_mode is BucketMode.BUCKET_UNAWARE
        data = data_files(base, entries, self._emptied_partitions(view.schema))
        after, conflicts = indexes_after(before, change.index, data, one_per_bucket=not unaware)
        self._refuse(conflicts, latest)
        return None if after == before else after

    def _column_updates(self) -> Iterator[UpdatedRows]:
        """Yield the rows that get new values, file by file, with the ids of their columns."""
        entries = self._change.entries
        for entry in entries.select(entries.first_row_id >= 0).rows():
            file = entry.file
            ids = {field.name: field.id for field in self._stores.schemas.load(file.schema_id).fields}
            names = ids if file.write_cols is None else file.write_cols
            first = file.first_row_id or 0
            fields = frozenset(ids[name] for name in names if name in ids)
            yield UpdatedRows(first, first + file.row_count - 1, fields)

    def _emptied_partitions(self, schema: TableSchema) -> Callable[[Iterable[bytes]], frozenset[bytes]]:
        """Return a function that selects the partitions that the change overwrites."""
        overwrite = self._request.overwrite
        if self._change.kind is not CommitKind.OVERWRITE or overwrite is None:
            return lambda _: frozenset()
        if overwrite.partitions is None:
            return frozenset(self._change.entries.partitions).intersection
        spec = SpecFilter(overwrite.partitions, schema.partition_type)
        return lambda partitions: spec.select(tuple(partitions))

    def _live(self, view: TableView) -> ManifestEntries:
        if self._live_view is None:
            partitions = self._touched_partitions(view.schema)
            self._live_view = LiveView(self._stores, view.schema.partition_type, partitions)
        return self._live_view.at(view.latest)

    def _touched_partitions(self, schema: TableSchema) -> frozenset[bytes] | SpecFilter:
        """Return the partitions whose live files the change must be compared with."""
        marked = {file.partition for file in self._change.index.files}
        written = frozenset(self._change.entries.partitions).union(marked)
        overwrite = self._request.overwrite
        if self._change.kind is not CommitKind.OVERWRITE or overwrite is None or overwrite.partitions is None:
            return written
        spec = SpecFilter(overwrite.partitions, schema.partition_type)
        outside = written - spec.select(tuple(written))
        if outside and not overwrite.append_elsewhere:
            raise InvalidInputError(
                f"{self._stores.root}: the new files belong to {len(outside)} partitions that are not to be "
                "overwritten; write only rows of the named partitions, or overwrite dynamically"
            )
        return spec

    def _write(
        self, view: TableView, entries: ManifestEntries, index: tuple[IndexFile, ...] | None
    ) -> SnapshotLists:
        latest, policy = view.latest, MergePolicy.from_options(view.raw)
        inherited = None if latest is None else latest.index_manifest
        next_row_id = None
        if view.options.row_tracking:
            free = 0 if latest is None else latest.next_row_id or 0
            entries, next_row_id = assign_row_ids(entries, view.next_id, free)
        if view.options.snapshot_ordering:
            compacted = self._change.kind is CommitKind.COMPACT
            entries = with_snapshot_numbers(entries, view.next_id, compacted=compacted)
        before = () if latest is None else self._stores.manifests.data_manifests(latest)
        changelog = self._change.changelog
        return SnapshotLists(
            base=self._draft.write_base(before, view.schema.partition_type, policy),
            delta=self._draft.write_list(entries),
            changelog=self._draft.write_list(changelog) if len(changelog) else None,
            index=inherited if index is None else self._draft.write_index(index),
            next_row_id=next_row_id,
            delta_rows=record_delta(entries),
            changelog_rows=int(changelog.row_count.sum()) if len(changelog) else None,
        )

    def _complete(self, latest: Snapshot, schema: TableSchema) -> Snapshot:
        """Return `latest` with the record count that old writers left out, and without statistics of another
        schema.
        """
        if latest.total_record_count is None:
            everything = SpecFilter(({},), schema.partition_type)
            view = LiveView(self._stores, schema.partition_type, everything)
            latest = replace(latest, total_record_count=int(view.at(latest).row_count.sum()))
        if latest.statistics is not None and not self._inherits(latest.statistics, schema):
            latest = replace(latest, statistics=None)
        return latest

    def _inherits(self, statistics: str, schema: TableSchema) -> bool:
        """Return whether statistics are inherited. Rule of the format: they are while the schema they were
        made for is the latest.
        """
        path = self._stores.snapshots.paths.statistics(statistics)
        try:
            return bool(json_object(self._stores.snapshots.file_io.read(path))["schemaId"] == schema.id)
        except (LakeError, ValueError, KeyError, TypeError) as err:
            logger.warning("statistics %s are not carried over: %s", path, err)
            return False

    def _publish(self, planned: Snapshot, latest: Snapshot | None, settle: int, retry: int) -> bool:
        """Publish the snapshot. False means that it has to be planned again."""
        # an interruption may come at any point from here on, after publication too
        written_names = self._draft.keep()
        try:
            publication = publish(self._stores.snapshots, planned, latest, settle, retry)
        except CommitUncertainError:
            raise
        except LakeError:
            self._draft.take_back(written_names)  # nothing was created
            raise
        if publication.note:
            self.notes.append(publication.note)
        if publication.replaced:  # its manifests stay: somebody may be building on it
            self._replaced.append(planned)
            self._change = replace(self._change, checked=True)
        elif not publication.published:
            self._draft.take_back(written_names)
        return publication.published

    def _duplicate(self, latest: Snapshot | None) -> Snapshot | None:
        if self._request.identifier == BATCH_IDENTIFIER:
            return None
        return self._search.find(latest, self._change.kind)

    def _schema(self) -> TableSchema:
        """Return the latest schema. Raises NotFoundError if the table was dropped, also if it was created
        again: the files of this change have the schema and the buckets of the dropped one, or went with it.
        """
        schema = self._stores.schemas.latest()
        if schema is None:
            raise NotFoundError(
                f"{self._stores.root} has no schema any more: the table was renamed or dropped after it was "
                "loaded here, so nothing is committed; load it by the name that it has now, and commit again"
            )
        # a server that commits knows the table by its id
        if self._stores.versions is None and not self._stores.schemas.is_same(self._stores.schema):
            raise NotFoundError(
                f"{self._stores.root}: the table was dropped and created again after it was loaded here "
                f"(schema {self._stores.schema.id} is another one), so nothing is committed; load the table "
                "again"
            )
        return schema

    def _is_newest(self, latest: Snapshot) -> bool:
        return self._stores.snapshots.latest() == latest

    def _lost_error(self, latest: Snapshot | None, err: NotFoundError) -> LakeError:
        return err if latest is None else self._stores.snapshots.missing_file(latest.id, err)

    def _wait(self, retry: int, started: float, policy: RetryPolicy) -> None:
        elapsed = (self._clock.monotonic() - started) * 1000
        noise = int(self._clock.fresh_id()[:8], 16) / 2**32
        seconds = policy.wait_seconds(retry, elapsed, noise)
        if seconds is None:
            raise UnavailableError(
                f"{self._stores.root}: other writers committed first {retry + 1} times; commit again, or "
                "raise the option commit.max-retries"
            )
        self._clock.sleep(seconds)
