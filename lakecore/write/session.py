"""This module has one write of rows to a table, from the data to the commit: buckets are looked up, files
are written, and they are removed again where nothing was committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

from lakecore.commit.request import CommitResult, Overwrite, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError, NotFoundError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.processes.cores import core_count
from lakecore.read.context import ReadContext
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.scanner import Scanner
from lakecore.scan.split import Split, SplitPlan
from lakecore.store.table_stores import TableStores
from lakecore.write.buckets.bucket_state import BucketState, TableBuckets
from lakecore.write.buckets.cross_partition import Emptied, LiveKeys, Occupied, Places, remembers
from lakecore.write.buckets.key_places import KeyHashes, hash_keys
from lakecore.write.buckets.placement import WriteTarget
from lakecore.write.buckets.state_with_files import BucketStateWithFiles
from lakecore.write.files.upgrade import upgrade_levels
from lakecore.write.options import WriteRules
from lakecore.write.rows.incoming import batches_of, is_repeatable
from lakecore.write.table_write import TableWrite

__all__ = ["CommitRows", "WriteSession"]

logger = logging.getLogger(__name__)

_PLACING_TRIES = 4
_MOST_THREADS = 4
"""Each thread that encodes holds a row group: some 40 MB."""


class CommitRows(Protocol):
    """It commits the files of a write under the name that the caller gave."""

    def __call__(
        self,
        messages: Sequence[CommitMessage],
        overwrite: Overwrite | None,
        preconditions: Preconditions | None,
        *,
        allow_empty: bool,
        watermark: int | None = None,
    ) -> CommitResult:
        """Commit; `watermark` (milliseconds) is that of the rows.

        It raises the errors of `Committer.commit`.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class WriteSession:
    """It writes rows to one table and commits them."""

    name: str
    """This is the name of the table, for messages."""
    stores: TableStores
    scanner: Scanner
    reading: ReadContext
    user: str
    """The commit user becomes part of the names of postponed files."""
    commit: CommitRows
    forces_snapshot: Callable[[], bool]
    """It tells whether a write without rows makes a snapshot."""

    def add(self, data: Any, replaced: Overwrite | None = None) -> CommitResult:
        """Write rows beside those of the table. Where another commit placed keys meanwhile, they are placed
        again, if `data` can be read again.

        `replaced` names the partitions that are overwritten of a table whose keys may move between them.
        """
        for _ in range(_PLACING_TRIES if is_repeatable(data) else 0):
            try:
                return self._run(self.new_write(self.bucket_state, replaced), data, None)
            except CommitConflictError as err:
                logger.info(
                    "%s: another commit came first, so the rows are assigned to buckets again: %s",
                    self.name,
                    err,
                )
        return self._run(self.new_write(self.bucket_state, replaced), data, None)

    def overwrite(self, data: Any, overwrite: Overwrite) -> CommitResult:
        """Write rows in place of those that `overwrite` means."""
        return self._run(self.new_write(None, None), data, overwrite)

    def new_write(
        self,
        state: Callable[[], TableBuckets] | None,
        replaced: Overwrite | None,
        *,
        assigned: bool = False,
        threads: int | None = None,
    ) -> TableWrite:
        """Create a write whose rows are placed by `state`; None: everything is replaced. `assigned`: they
        come with their buckets, which were assigned by this state. `threads` encode; None: as many as help
        on this machine.
        """
        threads = min(core_count(), _MOST_THREADS) if threads is None else threads
        target = WriteTarget(self.stores, live_keys=self.live_keys, assigned=assigned, threads=threads)
        return TableWrite(target, state, self.user, replaced)

    def bucket_state(self) -> BucketState:
        """Return the state of the latest snapshot; of the next one when it expires while it is read."""
        snapshots = self.stores.snapshots
        while (latest := snapshots.latest()) is not None:
            try:
                return self.state_at(latest)
            except NotFoundError:
                if snapshots.latest_id() == latest.id:
                    raise
        return BucketState()

    def state_at(self, snapshot: Snapshot | None) -> BucketState:
        """Return the state of a snapshot. Raises NotFoundError when it expires while it is read."""
        if snapshot is None:
            return BucketState()
        state = BucketState.of(self.scanner.live_entries(snapshot), self._hash_files(snapshot))
        return replace(state, snapshot=snapshot)

    def state_with_files(self) -> BucketStateWithFiles | None:
        """Return the state of the latest snapshot, to which later changes can be applied; None for an empty
        table. Raises NotFoundError when the snapshot expires while it is read.
        """
        latest = self.stores.snapshots.latest()
        if latest is None:
            return None
        return BucketStateWithFiles.of(self.scanner.live_entries(latest), self._hash_files(latest), latest)

    def state_after(
        self, base: BucketStateWithFiles, snapshots: Sequence[Snapshot]
    ) -> BucketStateWithFiles | None:
        """Return the state of the last of the snapshots, which follow that of `base`, or None where it must
        be read anew. Without snapshots it is `base` with the hash indexes of its snapshot. It costs the
        manifests of their changes. Raises NotFoundError when one expires meanwhile.
        """
        manifests = self.stores.manifests_for_plans
        lists = (manifests.read_list(snapshot.delta_manifest_list) for snapshot in snapshots)
        files = tuple(chain.from_iterable(lists))
        changes = manifests.read(files) if files else ManifestEntries.empty()
        last = snapshots[-1] if snapshots else base.state.snapshot
        return None if last is None else base.after(changes, self._hash_files(last), last)

    def _hash_files(self, snapshot: Snapshot) -> Sequence[IndexFile]:
        dynamic = self.reading.options.bucket_mode is BucketMode.HASH_DYNAMIC
        return self.scanner.index_files(snapshot) if dynamic else ()

    def key_splits(self, snapshot: Snapshot | None) -> SplitPlan:
        """Plan the splits whose keys `live_keys` reads."""
        return self._live_rows(snapshot).plan(None)

    def live_keys(
        self, snapshot: Snapshot | None, now_ms: int | None = None, splits: Iterable[Split] | None = None
    ) -> LiveKeys:
        """Return the keys of the rows at `snapshot`, without those that cross-partition-upsert.index-ttl
        drops at `now_ms`. `splits` are some of `key_splits`; None: all, which are planned here.
        """
        schema = self.stores.schema
        key_type = schema.row_type.select(schema.primary_keys)
        rows = self._live_rows(snapshot)
        remembered = remembers(schema.options, self.stores.clock.now_ms() if now_ms is None else now_ms)

        def read(emptied: Emptied, occupied: Occupied) -> Iterator[tuple[KeyHashes, int | Places]]:
            for split in rows.plan(None) if splits is None else splits:
                if remembered(split.files) and not emptied((split.partition,)):
                    for batch in rows.read(split, schema.primary_keys, None, kinds=False):
                        place = occupied(split.partition, split.bucket, batch.num_rows)
                        yield hash_keys(batch, key_type), place

        return read

    def _live_rows(self, snapshot: Snapshot | None) -> SnapshotRows:
        return SnapshotRows(self.scanner, self.reading, snapshot, with_level_0=True)

    def _run(self, write: TableWrite, data: Any, overwrite: Overwrite | None) -> CommitResult:
        """Stream `data`, commit; remove the new files again unless they are, or may be, in the table."""
        schema = self.stores.schema
        try:
            for batch in batches_of(data):
                write.write(batch)
            messages = write.finish()
            overwrite = write.overwrite or overwrite
            if (
                overwrite is not None
                and not overwrite.append_elsewhere
                and WriteRules.from_options(schema.options).overwrite_upgrade
            ):
                messages = upgrade_levels(messages, schema)
        except BaseException:
            write.abort()
            raise
        try:
            forced = not messages and overwrite is None and self.forces_snapshot()
            result = self.commit(
                messages, overwrite, write.preconditions, allow_empty=forced, watermark=write.watermark
            )
        except CommitUncertainError:
            raise
        except LakeError:
            write.abort()
            raise
        if result.duplicate:
            logger.info(
                "%s: an earlier attempt has published this commit; its rows are not written again", self.name
            )
            write.abort()
        return result
