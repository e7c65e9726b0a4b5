"""The search for a later snapshot that was built on a snapshot which another writer replaced: it still holds
the change.
"""

from __future__ import annotations

from itertools import pairwise

from lakecore.commit.plan import Change
from lakecore.errors import CommitUncertainError
from lakecore.metadata.manifest.data_file import EntryKind, FileIdentity
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.table_stores import TableStores

__all__ = ["DescendantSearch"]


class DescendantSearch:
    """It searches the snapshots after `replaced_snapshot`, which published `change`, for one built on it.

    Data files and index files have unique names, so the state that a snapshot started from shows whether it
    was. Cost: the base manifests of each snapshot after `replaced_snapshot`.
    """

    def __init__(self, stores: TableStores, replaced_snapshot: Snapshot, change: Change) -> None:
        self._snapshots = stores.snapshots
        self._manifests = stores.manifests
        self._replaced = replaced_snapshot
        self._change = change

    def find(self, latest: Snapshot | None) -> Snapshot | None:
        """Return the first snapshot that was built on the replaced one; None when the history up to
        `latest` does not include it.

        Raises CommitUncertainError where the snapshots that would decide no longer exist, or do not follow
        from each other.
        """
        ids = range(self._replaced.id + 1, 1 + (0 if latest is None else latest.id))
        missing = False
        for number in ids:
            snapshot = self._snapshots.find(number)
            if snapshot is None:
                missing = True
                continue
            holds = self._starts_with_change(snapshot)
            if holds:
                self._check_unbroken(range(number, ids.stop))
                return snapshot
            if missing and holds is None:
                raise self._uncertain(f"snapshot {number - 1} was removed by another process")
        return None

    def _starts_with_change(self, snapshot: Snapshot) -> bool | None:
        """Return whether the state that `snapshot` started from holds the change; None when there is no trace
        of it, nor of what it removes.
        """
        added, removed = self._names()
        if not added and not removed:
            return self._has_index(snapshot)
        here = self._state_before(snapshot)
        if added <= here and not removed & here:
            return True
        return False if removed & here else None

    def _names(self) -> tuple[set[FileIdentity], set[FileIdentity]]:
        delta = self._manifests.read(self._manifests.read_list(self._replaced.delta_manifest_list)).rows()
        added = {entry.identity for entry in delta if entry.kind is EntryKind.ADD}
        return added, {entry.identity for entry in delta if entry.kind is EntryKind.DELETE} - added

    def _state_before(self, snapshot: Snapshot) -> set[FileIdentity]:
        entries = self._manifests.read(self._manifests.read_list(snapshot.base_manifest_list))
        return {
            entry.identity
            for entry in live_entries(entries, where=f"the base of snapshot {snapshot.id}").rows()
        }

    def _has_index(self, snapshot: Snapshot) -> bool | None:
        """Decide by the index files, for a change that has no data files."""
        here = {file.file_name for file in self._manifests.read_index(snapshot.index_manifest)}
        added = {file.file_name for file in self._change.index.added}
        removed = {file.file_name for file in self._change.index.removed}
        if added | removed and added <= here and not removed & here:
            return True
        return None if added | removed and not removed & here else False

    def _check_unbroken(self, ids: range) -> None:
        """Raise unless each snapshot continues from the row count of the one before, where writers record
        it.
        """
        snapshots = [self._snapshots.find(number) for number in ids]
        for before, after in pairwise(snapshots):
            if before is None or after is None:
                raise self._uncertain("a snapshot was removed by another process")
            rows, change = after.total_record_count, after.delta_record_count
            if rows is None or change is None or before.total_record_count is None:
                continue
            if rows - change != before.total_record_count:
                raise self._uncertain(
                    f"the row count of snapshot {after.id} does not follow from snapshot {before.id}"
                )

    def _uncertain(self, why: str) -> CommitUncertainError:
        return CommitUncertainError(
            f"snapshot {self._replaced.id} was replaced by that of another writer, and it is not known "
            f"whether its changes are in the table: {why}"
        )
