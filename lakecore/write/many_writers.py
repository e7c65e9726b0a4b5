"""This module has what every write of many writers shares: what a writer prepared, whose commit it is, and
the rule that one writer has a bucket.

Two writers of a bucket would number the rows of one key alike, or assign one key to two buckets; such a
commit is refused, and its files are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from lakecore.commit.request import CommitResult, Preconditions
from lakecore.errors import InvalidInputError, LakeError, UnsupportedError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.scan.table_handle import TableHandle
from lakecore.write.messages import PreparedCommit, decode_commit
from lakecore.write.rows.event_time import EventTime
from lakecore.write.session import WriteSession
from lakecore.write.table_write import TableWrite

__all__ = [
    "CommitName",
    "Writable",
    "check_one_writer",
    "decoded",
    "new_paths",
    "preconditions_of",
    "prepared_by",
    "remove_files",
    "watermark_of",
]


class CommitName(Protocol):
    """It names a commit."""

    @property
    def user(self) -> str | None: ...
    @property
    def identifier(self) -> int: ...


class Writable(TableHandle, Protocol):
    """It is the table that is written to. It can be pickled."""

    def _session(self, commit: Any) -> WriteSession:
        """Return what writes and commits. Raises UnsupportedError for a table that cannot be written to."""

    def _after_commit(self, result: CommitResult, *, ends_input: bool) -> CommitResult:
        """Run the services that follow a commit. Never fails: the result gets a note on what did."""
        ...


def prepared_by(table: Writable, name: CommitName, write: TableWrite | None) -> PreparedCommit:
    """Finish the files of a writer, None if it got no rows; returns what is to be committed."""
    if write is None:
        return _of_messages(table, name, ())
    try:
        commit = _of_messages(table, name, write.finish())
    except BaseException:
        write.abort()
        raise
    commit = replace(commit, event_time=write.event_time, assigned=write.is_assigned)
    state = write.preconditions
    if state is None:
        return commit
    read = state.read_snapshot
    return replace(
        commit,
        placed=True,
        read_snapshot=None if read is None else read.id,
        read_time=None if read is None else read.time_millis,
        whole_table=state.whole_table,
        same_counts=state.same_counts,
        hash_indexes=None
        if state.hash_indexes is None
        else {partition: tuple(sorted(names)) for partition, names in state.hash_indexes.items()},
    )


def watermark_of(table: Writable, prepared: Iterable[PreparedCommit]) -> int | None:
    """Return the watermark of a commit by the event times of its rows; None without them."""
    rule = EventTime.of_table(table.schema.row_type, table.schema.options)
    return None if rule is None else rule.watermark(one.event_time for one in prepared)


def _of_messages(table: Writable, name: CommitName, messages: tuple[CommitMessage, ...]) -> PreparedCommit:
    return PreparedCommit(
        table=table._stores.paths.root,
        user=name.user or "",
        identifier=name.identifier,
        messages=messages,
    )


def decoded(table: Writable, name: CommitName, prepared: Iterable[bytes]) -> list[PreparedCommit]:
    """Decode what all writers prepared. Raises InvalidInputError for bytes of another commit or table, and
    for those of one writer in place of a list.
    """
    if isinstance(prepared, bytes | bytearray):
        raise InvalidInputError("what one writer prepared is given in place of a list: write [prepared]")
    return [_decoded_one(table, name, one) for one in prepared]


def _decoded_one(table: Writable, name: CommitName, data: bytes) -> PreparedCommit:
    commit = decode_commit(data)
    ours = _of_messages(table, name, ())
    if (commit.table, commit.user, commit.identifier) != (ours.table, ours.user, ours.identifier):
        raise InvalidInputError(
            f"what commit {commit.identifier} of {commit.user} prepared for {commit.table} is not part of "
            f"commit {ours.identifier} of {ours.user} to {ours.table}"
        )
    return commit


def preconditions_of(prepared: Iterable[PreparedCommit], base: Snapshot | None) -> Preconditions | None:
    """Return the state that must not have changed before the commit; `base` is the oldest that a writer
    read.
    """
    placed = [one for one in prepared if one.placed]
    if not placed:
        return None
    indexes: dict[bytes, frozenset[str]] = {}
    for one in placed:
        indexes.update({partition: frozenset(names) for partition, names in (one.hash_indexes or {}).items()})
    return Preconditions(
        hash_indexes=None if placed[0].hash_indexes is None else indexes,
        read_snapshot=base,
        whole_table=any(one.whole_table for one in placed),
        same_counts=any(one.same_counts for one in placed),
    )


def remove_files(
    table: Writable, prepared: Iterable[PreparedCommit], names_to_keep: Collection[str] = ()
) -> None:
    """Remove new files, but not those whose names are `names_to_keep`, as far as storage lets; the others are
    removed as orphans later.
    """
    stores = table._stores
    for message in (message for one in prepared for message in one.messages):
        files = (*message.new_files, *message.changelog_files)
        if not {file.file_name for file in files}.isdisjoint(names_to_keep):
            continue  # its index files are in the table, too
        directory = _directory(table, message)
        for file in files:
            for path in stores.paths.all_files(directory, file):
                with suppress(LakeError):
                    stores.file_io.delete(path)
        stores.indexes.discard(message.new_index_files)


def new_paths(table: Writable, prepared: Iterable[PreparedCommit]) -> Iterator[str]:
    """Yield the paths of the data files, changelog files and index files that were prepared."""
    stores = table._stores
    for message in (message for one in prepared for message in one.messages):
        directory = _directory(table, message)
        for file in (*message.new_files, *message.changelog_files):
            yield stores.paths.data_file(directory, file)
        yield from map(stores.indexes.path, message.new_index_files)


def _directory(table: Writable, message: CommitMessage) -> str:
    stores, schema, options = table._stores, table.schema, table.options
    values = decode_row(message.partition, schema.partition_type, stores.paths.table_path)
    path = partition_path(
        values, schema.partition_type, options.partition_default_name, options.partition_legacy_name
    )
    return stores.paths.bucket_dir(path, message.bucket, options)


def check_one_writer(table: str, mode: BucketMode, prepared: Sequence[PreparedCommit]) -> None:
    """Raise UnsupportedError if several writers had rows that only one may write."""
    names = [file.file_name for one in prepared for message in one.messages for file in message.new_files]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"table {table}: what one writer prepared was given twice; give it once")
    if mode is BucketMode.BUCKET_UNAWARE:
        return
    counts: dict[Any, int] = {}
    by_bucket = all(one.assigned for one in prepared if one.messages)
    for number, one in enumerate(prepared):
        for message in one.messages:
            if counts.setdefault(_owned_place(mode, message, by_bucket=by_bucket), number) != number:
                raise UnsupportedError(
                    f"table {table}: several writers had rows of {_WHOSE[mode]}, and one of them must have "
                    "them all; on Spark use lakecore.spark.write, which shuffles rows, or repartition(1)"
                )


def _owned_place(mode: BucketMode, message: CommitMessage, *, by_bucket: bool) -> Any:
    """Return what only one writer may write to. `by_bucket`: others assigned all rows to their buckets."""
    if mode is BucketMode.KEY_DYNAMIC and not by_bucket:
        return None
    whole = mode is BucketMode.HASH_DYNAMIC and not by_bucket
    return message.partition if whole else (message.partition, message.bucket)


_WHOSE: Mapping[BucketMode, str] = {
    BucketMode.HASH_FIXED: "one bucket",
    BucketMode.POSTPONE: "one partition or bucket",
    BucketMode.HASH_DYNAMIC: "one partition, whose keys are assigned to buckets",
    BucketMode.KEY_DYNAMIC: "the table, whose keys may move between partitions",
}
