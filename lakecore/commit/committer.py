"""This module commits to one branch of a table.

A snapshot appears completely or not at all, and its manifests are complete before it appears. The same (user,
identifier) is not committed twice. Files of a failed try are removed, unless the outcome is uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakecore.commit.attempt import ChangeCommit
from lakecore.commit.duplicates import commits_of
from lakecore.commit.plan import plan_changes
from lakecore.commit.published import names_in
from lakecore.commit.request import CommitRequest, CommitResult
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.store.table_stores import TableStores

__all__ = ["Committer"]


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
        with the same files: see `lakecore.commit.publication`.
        """
        ids: list[int] = []
        repeated: list[bool] = []
        notes: list[str] = []
        for change in plan_changes(messages, request):
            work = ChangeCommit(self._stores, change, request, self._options)
            try:
                snapshot, base = work.run()
            except CommitConflictError as err:
                if not ids:
                    raise
                return CommitResult(tuple(ids), False, err, tuple(notes))
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
        return CommitResult(tuple(ids), bool(repeated) and all(repeated), None, tuple(notes))
