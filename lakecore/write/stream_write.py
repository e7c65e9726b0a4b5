"""This module writes one commit after the other, exactly once: each has a number, and what a restored engine
commits again under the same number is skipped.

The last snapshot of the user shows which numbers are committed. Where all snapshots of the user have expired,
the files of a commit decide: see `StreamWrite.filter_and_commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from lakecore.commit.duplicates import LastCommit, last_commit_of
from lakecore.commit.request import CommitResult, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.options import Option, parse_bool
from lakecore.store.published import names_in
from lakecore.write.assigned import AssignedBy
from lakecore.write.buckets.bucket_state import TableBuckets
from lakecore.write.earlier_commit import check_no_file_missing, is_in_table
from lakecore.write.many_writers import (
    Writable,
    check_one_writer,
    decoded,
    preconditions_of,
    prepared_by,
    remove_files,
    watermark_of,
)
from lakecore.write.messages import PreparedCommit, encode_commit
from lakecore.write.rows.incoming import whole_batches_of
from lakecore.write.session import WriteSession
from lakecore.write.table_write import TableWrite

__all__ = ["IGNORE_EMPTY", "StreamWrite"]

IGNORE_EMPTY = Option(
    "snapshot.ignore-empty-commit", parse_bool, True, "A commit of a stream without rows makes no snapshot."
)
_ASSIGNED = (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """It names one commit of a stream; its fields are those of `lakecore.Commit`."""

    user: str
    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass
class StreamWrite:
    """Rows are written by this object, or by copies of it that were pickled before they got rows, each of
    which encodes with one thread; one process commits. `Table.new_stream_write` makes it.

    Each writer calls `write`, then `prepare_commit(identifier)`, again and again with higher numbers. The
    bytes may be kept until the engine has a checkpoint; `commit` publishes them. After a crash
    `filter_and_commit` takes all that may not be committed yet. A failed commit removes nothing: commit
    again, or call `abort`.
    """

    _table: Writable
    _user: str
    _open: TableWrite | None = None
    _prepared: int | None = None
    _sequences: dict[tuple[bytes, int], int] = field(default_factory=dict)
    _totals: dict[bytes, int] = field(default_factory=dict)
    _base: AssignedBy | None = None
    _assigned: bool = False
    _services: Callable[[CommitResult], CommitResult] | None = None
    """It runs the services after a commit; None: those of the table, for which the commit waits."""
    _threads: int | None = None

    @classmethod
    def begin(cls, table: Writable, user: str) -> StreamWrite:
        """Start. Raises InvalidInputError without a user, UnsupportedError for tables that cannot be written
        to.
        """
        if not isinstance(user, str) or not user.strip():
            raise InvalidInputError(
                f"table {table.name}: a stream needs a commit user that is the same after a restart; give "
                "it a name"
            )
        table._session(StreamCommit(user, 0))
        return cls(table, user)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle. Raises InvalidInputError once there are rows."""
        if self._open is not None:
            raise InvalidInputError(
                "a stream write that has rows cannot be copied; copy it before it gets rows"
            )
        # copies write at the same time, and share the cores
        return {**self.__dict__, "_services": None, "_threads": 1}

    def write(self, data: Any) -> None:
        """Add rows, as `Table.write` takes them, to files that nobody sees before the commit. Raises
        InvalidInputError naming column and row; nothing of that batch is written then.

        Where keys are assigned to buckets, the rows of a commit are written after the one before is
        committed; InvalidInputError is raised otherwise.
        """
        if self._open is None:
            session = self._table._session(StreamCommit(self._user, self._prepared or 0))
            self._check_assignable()
            self._open = session.new_write(
                lambda: self._state(session), None, assigned=self._assigned, threads=self._threads
            )
        for batch in whole_batches_of(data):
            self._open.write(batch)

    def with_assigned_buckets(self, assigned_by: AssignedBy) -> StreamWrite:
        """Return a writer of one commit, whose rows come with their dynamic buckets (column `BUCKET_COLUMN`),
        which assigners gave them by this state.
        """
        return replace(self, _base=assigned_by, _assigned=True)

    def with_buckets_of(self, base: AssignedBy) -> StreamWrite:
        """Return a writer of one commit that need not read the state of the table's buckets, unless another
        commit has brought rows since it was read.
        """
        return replace(self, _base=base)

    def with_services(self, services: Callable[[CommitResult], CommitResult]) -> StreamWrite:
        """Return a stream write whose commits are followed by `services`, which return the result with their
        notes, in place of the services of the table. A pickled copy does not have them.
        """
        return replace(self, _services=services)

    def _run_services(self, result: CommitResult) -> CommitResult:
        if self._services is not None:
            return self._services(result)
        return self._table._after_commit(result, ends_input=False)

    def _state(self, session: WriteSession) -> TableBuckets:
        if self._base is None:
            return session.bucket_state().after(self._sequences, self._totals)
        return self._base.load(session) if self._assigned else self._base.load_latest(session)

    def prepare_commit(self, identifier: int) -> bytes:
        """Finish the files of this writer and return what is to be committed, as versioned bytes.

        `identifier` is higher than those before. Raises InvalidInputError.
        """
        name = self._name(identifier)
        if self._prepared is not None and identifier <= self._prepared:
            raise InvalidInputError(
                f"commit {identifier}: this writer has prepared commit {self._prepared} already; numbers "
                "ascend"
            )
        write, self._open = self._open, None
        after = self._table._stores.snapshots.latest_id() or 0
        commit = replace(prepared_by(self._table, name, write), prepared_after=after)
        self._prepared = identifier
        self._remember(commit)
        return encode_commit(commit)

    def commit(
        self,
        identifier: int,
        prepared: Iterable[bytes],
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Commit what all writers prepared under this number, in one snapshot.

        Without rows there is none, unless `snapshot.ignore-empty-commit` is false. A number that this user
        has committed already is not committed again. Then the services of the table run, unless it is
        write-only: compaction and expiry; one that fails is a note of the result. Raises UnsupportedError
        when several writers had rows of one bucket, CommitConflictError, CommitUncertainError: then commit
        the same bytes again.
        """
        name = self._name(identifier, watermark, properties)
        commits = decoded(self._table, name, prepared)
        last = last_commit_of(self._table._stores.snapshots, self._user)
        result = self._skip(commits, last, identifier) or self._commit(name, commits)
        return self._run_services(result)

    def filter_and_commit(self, prepared: Mapping[int, Iterable[bytes]]) -> dict[int, CommitResult]:
        """Commit, in order of their numbers, those that this user has not committed yet; the others have a
        `duplicate` result.

        Give the bytes of the checkpoint that was restored. As in Paimon, numbers up to that of the last
        snapshot of the user are committed, and an error is raised when a file of the others is missing.
        Where all snapshots of the user have expired, Paimon commits; here a commit is skipped if the table,
        a tag or a changelog has its files or its number. Raises NotFoundError naming a missing file, and the
        errors of `commit`. It costs a look at each file.
        """
        commits = {
            number: decoded(self._table, self._name(number), prepared[number]) for number in sorted(prepared)
        }
        last = last_commit_of(self._table._stores.snapshots, self._user)
        results = {}
        for number, ours in commits.items():
            result = self._skip(ours, last, number)
            if result is None and is_in_table(self._table, ours, last):
                result = CommitResult(duplicate=True)
            if result is None:
                check_no_file_missing(self._table, ours)
                result = self._commit(self._name(number), ours)
            results[number] = result
        newest = next((number for number in reversed(results) if not results[number].duplicate), None)
        if newest is not None:
            results[newest] = self._run_services(results[newest])
        return results

    def has_committed(self, identifier: int, prepared: Iterable[bytes]) -> bool:
        """Return whether a commit was made whose snapshot, and all others of the user, have expired.

        `prepared` is what its writers made. While a snapshot of the user is there it is False, and `commit`
        decides. Raises NotFoundError if it cannot be known: a file of the commit is gone. The cost is that of
        `filter_and_commit`.
        """
        commits = decoded(self._table, self._name(identifier), prepared)
        last = last_commit_of(self._table._stores.snapshots, self._user)
        if last.snapshot is not None or not commits:
            return False
        if is_in_table(self._table, commits, last):
            return True
        if last.looked_since > min(one.prepared_after for one in commits) + 1:
            check_no_file_missing(self._table, commits)
        return False

    def abort(self, prepared: Iterable[bytes] = (), identifier: int | None = None) -> None:
        """Remove the files of this writer, and those that were `prepared` under `identifier`.

        Raises InvalidInputError when that number was committed: its files stay.
        """
        write, self._open = self._open, None
        if write is not None:
            write.abort()
        if identifier is None:
            return
        commits = decoded(self._table, self._name(identifier), prepared)
        last = last_commit_of(self._table._stores.snapshots, self._user)
        if _has(last, identifier) or is_in_table(self._table, commits, last):
            raise InvalidInputError(
                f"{self._table.name}: commit {identifier} of {self._user} was committed, so its files "
                f"are kept"
            )
        remove_files(self._table, commits)

    def _name(
        self, identifier: int, watermark: int | None = None, properties: Mapping[str, str] | None = None
    ) -> StreamCommit:
        if not 0 <= identifier < BATCH_IDENTIFIER:
            raise InvalidInputError(
                f"commit {identifier}: numbers of commits are 0 to {BATCH_IDENTIFIER - 1}"
            )
        return StreamCommit(self._user, identifier, watermark, dict(properties or {}))

    def _check_assignable(self) -> None:
        """Raise unless the assignments of the rows before are in the table, and for a second commit of a
        writer of one.
        """
        if self._base is not None and self._prepared is not None:
            raise InvalidInputError(
                f"table {self._table.name}: this writer was made for one commit, and has prepared commit "
                f"{self._prepared}; make another one for the next"
            )
        if self._table.options.bucket_mode not in _ASSIGNED or self._prepared is None or not self._sequences:
            return
        last = last_commit_of(self._table._stores.snapshots, self._user)
        if not _has(last, self._prepared):
            raise InvalidInputError(
                f"table {self._table.name}: keys are assigned to buckets, and commit {self._prepared} of "
                f"{self._user}, which assigned some, is not committed yet; commit it before more rows are "
                "written"
            )

    def _remember(self, prepared: PreparedCommit) -> None:
        """Keep the sequence numbers that no snapshot has yet. It takes memory for each bucket with rows."""
        for message in prepared.messages:
            place = (message.partition, message.bucket)
            highest = max((file.max_sequence_number for file in message.new_files), default=-1)
            self._sequences[place] = max(highest + 1, self._sequences.get(place, 0))
            if message.total_buckets > 0:
                self._totals[message.partition] = message.total_buckets

    def _skip(
        self, commits: Sequence[PreparedCommit], last: LastCommit, identifier: int
    ) -> CommitResult | None:
        """Return the result of a commit that was made before. Files that another try of it wrote are removed,
        where its snapshot shows that they are not in the table.
        """
        if last.snapshot is None or not _has(last, identifier):
            return None
        if last.snapshot.commit_identifier != identifier:
            return CommitResult(duplicate=True)
        self._remove_others(commits, (last.snapshot,))
        return CommitResult((last.snapshot.id,), duplicate=True)

    def _remove_others(self, commits: Sequence[PreparedCommit], snapshots: Sequence[Snapshot]) -> None:
        try:
            names = names_in(self._table._stores.manifests, snapshots)
        except LakeError:  # it expired meanwhile; what is left is removed as orphans
            return
        remove_files(self._table, commits, names)

    def _commit(self, name: StreamCommit, prepared: Sequence[PreparedCommit]) -> CommitResult:
        table = self._table
        session = table._session(name)
        check_one_writer(table.name, table.options.bucket_mode, prepared)
        messages = tuple(message for one in prepared for message in one.messages)
        keeps_empty = not IGNORE_EMPTY.read(table.schema.options)
        forced = not messages and (keeps_empty or session.forces_snapshot())
        result = session.commit(
            messages,
            None,
            self._preconditions(prepared),
            allow_empty=forced,
            watermark=watermark_of(table, prepared),
        )
        if result.duplicate:
            snapshots = [table._stores.snapshots.find(number) for number in result.snapshot_ids]
            self._remove_others(prepared, [one for one in snapshots if one is not None])
        return result

    def _preconditions(self, prepared: Sequence[PreparedCommit]) -> Preconditions | None:
        """Return the state that the rows depend on: that of the writer that began first."""
        placed = [one for one in prepared if one.placed]
        if not placed or any(one.read_snapshot is None for one in placed):
            return preconditions_of(placed, None)
        first = min(placed, key=lambda one: one.read_snapshot or 0)
        snapshot = self._table._stores.snapshots.find(first.read_snapshot or 0)
        if snapshot is None or snapshot.time_millis != first.read_time:
            # It expired, or another snapshot has its id: one that the table does not have stands for it.
            latest = self._table._stores.snapshots.latest()
            snapshot = latest and replace(
                latest, id=first.read_snapshot or 0, time_millis=first.read_time or 0
            )
        return preconditions_of(placed, snapshot)


def _has(last: LastCommit, identifier: int) -> bool:
    return last.snapshot is not None and identifier <= last.snapshot.commit_identifier
