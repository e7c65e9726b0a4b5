"""This module writes one batch with many writers: each prepares a commit as bytes, and one process
commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakecore.commit.request import CommitResult, Overwrite, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, InvalidInputError, LakeError, UnsupportedError
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.published import names_in
from lakecore.write.assigned import AssignedBy
from lakecore.write.buckets.packed_state import PackedState
from lakecore.write.files.upgrade import upgrade_levels
from lakecore.write.many_writers import (
    CommitName,
    Writable,
    check_one_writer,
    decoded,
    preconditions_of,
    prepared_by,
    remove_files,
    watermark_of,
)
from lakecore.write.messages import PreparedCommit, encode_commit
from lakecore.write.options import WriteRules
from lakecore.write.rows.incoming import whole_batches_of
from lakecore.write.table_write import TableWrite

__all__ = ["BatchWrite"]


@dataclass
class BatchWrite:
    """One batch is written by this object, or by copies of it that were pickled before they got rows, each of
    which encodes with one thread.

    Each writer calls `write`, then `prepare_commit`; one process calls `commit` with the bytes of all of
    them, or `abort`. `Table.new_batch_write` makes it.
    """

    _table: Writable
    _name: CommitName
    _overwrite: Overwrite | None
    _base: Snapshot | None
    _open: TableWrite | None = None
    _uncertain: bool = False
    _assigned: bool = False
    _buckets: PackedState | None = None
    _threads: int | None = None

    @classmethod
    def begin(cls, table: Writable, name: CommitName, overwrite: Overwrite | None) -> BatchWrite:
        """Start at the latest snapshot. Raises UnsupportedError for tables that many cannot write."""
        table._session(name)
        moving = table.options.bucket_mode is BucketMode.KEY_DYNAMIC
        if moving and overwrite not in (None, Overwrite.table()):
            raise UnsupportedError(
                f"table {table.name}: keys may move between partitions, and partitions of such a table are "
                "not overwritten by many writers; use Table.overwrite, or dynamic=False to replace all rows"
            )
        return cls(table, name, overwrite, table._stores.snapshots.latest())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle. Raises InvalidInputError once there are rows."""
        if self._open is not None:
            raise InvalidInputError(
                "a batch write that has rows cannot be copied; copy it before it gets rows"
            )
        return {**self.__dict__, "_threads": 1}  # copies write at the same time, and share the cores

    @property
    def assigned_by(self) -> AssignedBy:
        """Return the state by which assigners of this write know the buckets of keys."""
        return AssignedBy(self._base, replaces=self._overwrite is not None, buckets=self._buckets)

    def with_buckets_at_start(self) -> BatchWrite:
        """Return the write with the state of the table's buckets at its start, which is read here: copies of
        it read no manifests. Raises NotFoundError when that snapshot has expired.
        """
        assigned_by = self.assigned_by.with_buckets(self._table._session(self._name))
        return replace(self, _buckets=assigned_by.buckets)

    def with_assigned_buckets(self) -> BatchWrite:
        """Return the write for rows of a table with dynamic buckets that come with their buckets (column
        `BUCKET_COLUMN`), which assigners gave them by `assigned_by`.
        """
        return replace(self, _assigned=True)

    def write(self, data: Any) -> None:
        """Add rows, as `Table.write` takes them, to files that nobody sees before the commit. Raises
        InvalidInputError naming column and row; nothing of that batch is written then.
        """
        if self._open is None:
            self._open = self._new_write()
        for batch in whole_batches_of(data):
            self._open.write(batch)

    def prepare_commit(self) -> bytes:
        """Finish the files of this writer and return what is to be committed, as versioned bytes."""
        write, self._open = self._open, None
        return encode_commit(prepared_by(self._table, self._name, write))

    def commit(self, prepared: Iterable[bytes]) -> CommitResult:
        """Commit what all writers prepared, in one snapshot; without rows there is none, unless partitions
        are overwritten. Then the services of the table run, unless it is write-only: compaction and expiry;
        one that fails is a note of the result.

        When it fails the new files are removed, unless the outcome of this or an earlier try is uncertain:
        commit the same bytes again then. Raises UnsupportedError when several writers had rows of one bucket,
        CommitConflictError, CommitUncertainError.
        """
        commits = decoded(self._table, self._name, prepared)
        try:
            result = self._commit(commits)
        except CommitUncertainError:
            self._uncertain = True
            raise
        except LakeError:
            if not self._uncertain:
                remove_files(self._table, commits)
            raise
        if result.duplicate:
            remove_files(self._table, commits, self._names_in(result))
        return self._table._after_commit(result, ends_input=True)

    def abort(self, prepared: Iterable[bytes] = ()) -> None:
        """Remove the files of this writer, and those that others prepared. Nothing of them may have been
        given to `commit`, which removes them itself. Raises InvalidInputError when they were committed.
        """
        write, self._open = self._open, None
        if write is not None:
            write.abort()
        commits = decoded(self._table, self._name, prepared)
        if commits and self._is_committed():
            raise InvalidInputError(f"{self._table.name}: this write was committed, so its files are kept")
        remove_files(self._table, commits)

    def _new_write(self) -> TableWrite:
        session = self._table._session(self._name)
        state = None if self._overwrite is not None else lambda: self.assigned_by.load(session)
        return session.new_write(state, None, assigned=self._assigned, threads=self._threads)

    def _commit(self, prepared: Sequence[PreparedCommit]) -> CommitResult:
        table, overwrite = self._table, self._overwrite
        session = table._session(self._name)
        check_one_writer(table.name, table.options.bucket_mode, prepared)
        messages = tuple(message for one in prepared for message in one.messages)
        if overwrite is not None and WriteRules.from_options(table.schema.options).overwrite_upgrade:
            messages = upgrade_levels(messages, table.schema)
        forced = not messages and overwrite is None and session.forces_snapshot()
        return session.commit(
            messages,
            overwrite,
            self._preconditions(prepared),
            allow_empty=forced,
            watermark=watermark_of(table, prepared),
        )

    def _preconditions(self, prepared: Sequence[PreparedCommit]) -> Preconditions | None:
        read = {one.read_snapshot for one in prepared if one.placed}
        base = None if self._base is None else self._base.id
        if not read <= {None, base}:
            raise InvalidInputError(f"{self._table.name}: the writers began at different snapshots")
        return preconditions_of(prepared, None if read == {None} else self._base)

    def _names_in(self, result: CommitResult) -> frozenset[str]:
        """Return the names of the files of a commit: these may be the files of this write, tried again."""
        snapshots = [self._table._stores.snapshots.load(number) for number in result.snapshot_ids]
        return names_in(self._table._stores.manifests, snapshots)

    def _is_committed(self) -> bool:
        """Return whether a snapshot after the base is of this commit. It costs a read of each."""
        store, first = self._table._stores.snapshots, 0 if self._base is None else self._base.id
        for snapshot_id in reversed(store.list_ids()):
            if snapshot_id <= first:
                return False
            snapshot = store.find(snapshot_id)
            names = None if snapshot is None else (snapshot.commit_user, snapshot.commit_identifier)
            if names == (self._name.user, self._name.identifier):
                return True
        return False
