"""This module commits to one branch of a table.

A snapshot appears completely or not at all, and its manifests are complete before it appears. The same (user,
identifier) is not committed twice. Files of a failed try are removed, unless the outcome is uncertain.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from lakecore.commit.attempt import ChangeCommit
from lakecore.commit.callbacks import CommitEvent, run_callbacks
from lakecore.commit.duplicates import commits_of
from lakecore.commit.plan import plan_changes
from lakecore.commit.request import CommitRequest, CommitResult
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError, explain
from lakecore.lineage.event import LineageDataset
from lakecore.lineage.report import has_listeners, report_write
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.store.partition_list import add_partitions
from lakecore.store.published import names_in
from lakecore.store.table_stores import TableStores

__all__ = ["Committer"]

logger = logging.getLogger(__name__)


class Committer:
    """It turns commit messages into snapshots. Several processes may commit at once, each with its own
    Committer.

    `options` take precedence over those of the table's schema (`commit.max-retries`,
    `manifest.target-file-size`).
    """

    def __init__(
        self,
        stores: TableStores,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._stores = stores
        self._options = dict(options or {})

    def published_names(self, user: str) -> frozenset[str]:
        """Return the names of the files in the last commits of `user` (see `duplicates.LOOK_BACK`).

        Raises NotFoundError, CorruptDataError where one of them cannot be read.
        """
        return names_in(self._stores.manifests, commits_of(self._stores.snapshots, user))

    def commit(self, messages: Sequence[CommitMessage], request: CommitRequest) -> CommitResult:
        """Publish the files of `messages`: data files first, then compactions, each as a snapshot of its own.

        A plain append is compared with no live file (but with its `preconditions`). Every other commit is
        compared with the live files of the partitions that it touches and raises CommitConflictError, naming
        files, when it no longer fits; nothing of that snapshot is then visible. Raises CommitUncertainError
        when storage does not tell whether the snapshot was published: commit again with the same user and
        identifier, which finds out. With `allow_empty` a commit without any change publishes a snapshot, too.
        The search for duplicates costs at most `lakecore.commit.duplicates.LOOK_BACK` reads; none for
        BATCH_IDENTIFIER. A snapshot that another writer replaced within the settle time is committed again
        with the same files: see `lakecore.commit.publication`. Callbacks of other packages are called at the
        end, and their failures are notes.
        """
        events: list[CommitEvent] = []
        ids: list[int] = []
        repeated: list[bool] = []
        notes: list[str] = []
        conflict: CommitConflictError | None = None
        for change in plan_changes(messages, request):
            work = ChangeCommit(self._stores, change, request, self._options)
            try:
                snapshot, base = work.run()
            except CommitConflictError as err:
                if not ids:
                    raise
                conflict = err
                break
            except LakeError as err:
                if not ids:
                    raise
                raise CommitUncertainError(
                    f"{self._stores.root}: snapshot {ids[0]} has the data, its compaction was not committed "
                    f"({err}); commit again with the same user and identifier, and delete nothing"
                ) from err
            repeated.append(base)
            notes += work.notes
            if snapshot is not None:
                ids.append(snapshot.id)
                paths = self._stores.paths
                events.append(CommitEvent(paths.table_path, paths.branch, snapshot, base))
                notes += self._add_partitions(change.entries)
        notes += run_callbacks(events)
        self._report_lineage(events)
        is_repeated = conflict is None and bool(repeated) and all(repeated)
        return CommitResult(tuple(ids), is_repeated, conflict, tuple(notes))

    def _report_lineage(self, events: Sequence[CommitEvent]) -> None:
        """Report snapshots to listeners of lineage; it costs nothing without one."""
        if not events or not has_listeners():
            return
        columns = tuple((field.name, str(field.type)) for field in self._stores.schema.row_type)
        for event in events:
            dataset = LineageDataset(
                table_path=event.table_path,
                branch=event.branch,
                snapshot_id=event.snapshot.id,
                columns=columns,
            )
            report_write(dataset, event.snapshot.delta_record_count, self._stores.clock)

    def _add_partitions(self, entries: ManifestEntries) -> list[str]:
        """Add the partitions of new files to the catalog's list. The commit has landed: what fails here is
        logged, and returned as a note.
        """
        partition_list = self._stores.partition_list
        if partition_list is None:
            return []
        codes = np.unique(entries.partition[entries.kind == EntryKind.ADD]).tolist()
        try:
            add_partitions(partition_list, self._stores.schema, [entries.partitions[code] for code in codes])
        except LakeError as err:
            note = (
                f"the commit succeeded, but the catalog's list of partitions lacks those of it "
                f"({explain(err)}); run `lakecore repair {partition_list.table}`"
            )
            logger.warning("%s: %s", self._stores.root, note)
            return [note]
        return []
