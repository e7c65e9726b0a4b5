"""This module writes one batch with many writers: each prepares a commit as bytes, and one process commits.

It keeps the rule that one writer has a bucket. Two writers of a bucket would number the rows of one key
alike, or assign one key to two buckets; such a commit is refused, and the files are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from lakecore.commit.request import CommitResult, Overwrite, Preconditions
from lakecore.errors import CommitUncertainError, InvalidInputError, LakeError, UnsupportedError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.store.table_stores import TableStores
from lakecore.write.files.upgrade import upgrade_levels
from lakecore.write.messages import PreparedCommit, decode_commit, encode_commit
from lakecore.write.options import WriteRules
from lakecore.write.session import WriteSession
from lakecore.write.table_write import TableWrite

__all__ = ["BatchWrite", "Writable"]


class CommitName(Protocol):
    """It names a commit."""

    @property
    def user(self) -> str | None: ...
    @property
    def identifier(self) -> int: ...


class Writable(Protocol):
    """It is the table that is written to. It can be pickled."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> TableSchema: ...
    @property
    def options(self) -> TableOptions: ...
    @property
    def _stores(self) -> TableStores: ...

    def _session(self, commit: Any) -> WriteSession:
        """Return what writes and commits. Raises UnsupportedError for a table that cannot be written to."""


@dataclass
class BatchWrite:
    """One batch is written by this object, or by copies of it that were pickled before they got rows.

    Each writer calls `write`, then `prepare_commit`; one process calls `commit` with the bytes of all of
    them, or `abort`. `Table.new_batch_write` makes it.
    """

    _table: Writable
    _name: CommitName
    _overwrite: Overwrite | None
    _base: Snapshot | None
    _open: TableWrite | None = None

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
        return dict(self.__dict__)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows to files that nobody sees before the commit. Raises InvalidInputError naming column and
        row; nothing of the batch is written then.
        """
        if self._open is None:
            self._open = self._new_write()
        self._open.write(batch)

    def prepare_commit(self) -> bytes:
        """Finish the files of this writer and return what is to be committed, as versioned bytes."""
        write, self._open = self._open, None
        return encode_commit(self._prepared(write))

    def commit(self, prepared: Iterable[bytes]) -> CommitResult:
        """Commit what all writers prepared, in one snapshot; without rows there is none, unless partitions
        are overwritten.

        When it fails the new files are removed, unless the outcome is uncertain. Raises UnsupportedError when
        several writers had rows of one bucket, CommitConflictError, CommitUncertainError.
        """
        found = [self._decoded(one) for one in prepared]
        try:
            result = self._commit(found)
        except CommitUncertainError:
            raise
        except LakeError:
            self._remove(found)
            raise
        if result.duplicate:
            self._remove(found)
        return result

    def abort(self, prepared: Iterable[bytes] = ()) -> None:
        """Remove the files of this writer, and those that others prepared. Nothing of them may have been
        given to `commit`, which removes them itself. Raises InvalidInputError when they were committed.
        """
        write, self._open = self._open, None
        if write is not None:
            write.abort()
        found = [self._decoded(one) for one in prepared]
        if found and self._is_committed():
            raise InvalidInputError(f"{self._table.name}: this write was committed, so its files stay")
        self._remove(found)

    def _new_write(self) -> TableWrite:
        session = self._table._session(self._name)
        state = None if self._overwrite is not None else lambda: session.state_at(self._base)
        return session.new_write(state, None)

    def _prepared(self, write: TableWrite | None) -> PreparedCommit:
        if write is None:
            return self._of_messages(())
        try:
            found = self._of_messages(write.finish())
        except BaseException:
            write.abort()
            raise
        state = write.preconditions
        if state is None:
            return found
        return replace(
            found,
            placed=True,
            read_snapshot=None if state.read_snapshot is None else state.read_snapshot.id,
            whole_table=state.whole_table,
            same_counts=state.same_counts,
            hash_indexes=None
            if state.hash_indexes is None
            else {partition: tuple(sorted(names)) for partition, names in state.hash_indexes.items()},
        )

    def _of_messages(self, messages: tuple[CommitMessage, ...]) -> PreparedCommit:
        return PreparedCommit(
            table=self._table._stores.paths.root,
            user=self._name.user or "",
            identifier=self._name.identifier,
            messages=messages,
        )

    def _decoded(self, data: bytes) -> PreparedCommit:
        found = decode_commit(data)
        ours = self._of_messages(())
        if (found.table, found.user, found.identifier) != (ours.table, ours.user, ours.identifier):
            raise InvalidInputError(
                f"what commit {found.identifier} of {found.user} prepared for {found.table} is not part of "
                f"commit {ours.identifier} of {ours.user} to {ours.table}"
            )
        return found

    def _commit(self, prepared: Sequence[PreparedCommit]) -> CommitResult:
        table, overwrite = self._table, self._overwrite
        session = table._session(self._name)
        check_one_writer(table.name, table.options.bucket_mode, prepared)
        messages = tuple(message for one in prepared for message in one.messages)
        if overwrite is not None and WriteRules.from_options(table.schema.options).overwrite_upgrade:
            messages = upgrade_levels(messages, table.schema)
        forced = not messages and overwrite is None and session.forces_snapshot()
        return session.commit(messages, overwrite, self._preconditions(prepared), allow_empty=forced)

    def _preconditions(self, prepared: Sequence[PreparedCommit]) -> Preconditions | None:
        placed = [one for one in prepared if one.placed]
        if not placed:
            return None
        indexes: dict[bytes, frozenset[str]] = {}
        for one in placed:
            indexes.update(
                {partition: frozenset(names) for partition, names in (one.hash_indexes or {}).items()}
            )
        read = {one.read_snapshot for one in placed}
        base = None if self._base is None else self._base.id
        if not read <= {None, base}:
            raise InvalidInputError(f"{self._table.name}: the writers began at different snapshots")
        return Preconditions(
            hash_indexes=None if placed[0].hash_indexes is None else indexes,
            read_snapshot=self._base if read != {None} else None,
            whole_table=any(one.whole_table for one in placed),
            same_counts=any(one.same_counts for one in placed),
        )

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

    def _remove(self, prepared: Iterable[PreparedCommit]) -> None:
        """Remove new files as far as storage lets; the others are removed as orphans later."""
        stores, schema = self._table._stores, self._table.schema
        options = self._table.options
        for message in (message for one in prepared for message in one.messages):
            values = decode_row(message.partition, schema.partition_type, stores.paths.table_path)
            path = partition_path(
                values, schema.partition_type, options.partition_default_name, options.partition_legacy_name
            )
            directory = stores.paths.bucket_dir(path, message.bucket, options)
            for file in (*message.new_files, *message.changelog_files):
                for name in (
                    stores.paths.data_file(directory, file),
                    *stores.paths.extra_files(directory, file),
                ):
                    with suppress(LakeError):
                        stores.file_io.delete(name)
            stores.indexes.discard(message.new_index_files)


def check_one_writer(table: str, mode: BucketMode, prepared: Sequence[PreparedCommit]) -> None:
    """Raise UnsupportedError if several writers had rows that only one may write."""
    names = [file.file_name for one in prepared for message in one.messages for file in message.new_files]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"table {table}: what one writer prepared was given twice; give it once")
    if mode is BucketMode.BUCKET_UNAWARE:
        return
    seen: dict[Any, int] = {}
    for number, one in enumerate(prepared):
        for message in one.messages:
            if seen.setdefault(_owned(mode, message), number) != number:
                raise UnsupportedError(
                    f"table {table}: several writers had rows of {_WHOSE[mode]}, and one of them must have "
                    "them all; on Spark use lakecore.spark.write, which shuffles rows, or repartition(1)"
                )


def _owned(mode: BucketMode, message: CommitMessage) -> Any:
    """Return what only one writer may write to."""
    if mode is BucketMode.KEY_DYNAMIC:
        return None
    return message.partition if mode is BucketMode.HASH_DYNAMIC else (message.partition, message.bucket)


_WHOSE: Mapping[BucketMode, str] = {
    BucketMode.HASH_FIXED: "one bucket",
    BucketMode.POSTPONE: "one partition or bucket",
    BucketMode.HASH_DYNAMIC: "one partition, whose keys are assigned to buckets",
    BucketMode.KEY_DYNAMIC: "the table, whose keys may move between partitions",
}
