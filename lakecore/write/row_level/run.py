"""This module runs a change of rows: it reads one snapshot, writes and commits, and again after a
conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakecore.commit.request import CommitResult, Overwrite, Preconditions
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.resolve_blobs import with_resolved_blobs
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.write.row_level.append import AppendChange
from lakecore.write.row_level.changes import RowChange
from lakecore.write.row_level.counted_rows import MergedRows, RowCounts
from lakecore.write.row_level.keyed import KeyedChange
from lakecore.write.row_level.rows_since import RowsSince
from lakecore.write.session import WriteSession
from lakecore.write.update.conflict_retry import retry_on_conflict
from lakecore.write.update.row_deletion import RowDeletion

__all__ = ["change_rows"]


def change_rows(session: WriteSession, new_change: Callable[[], RowChange]) -> MergedRows:
    """Change rows of the table of a session in one snapshot; without changes there is none.

    `new_change` makes the change for each attempt anew. Commits of others meanwhile make it read again: with
    a primary key those that have rows of the keys that it writes, and overwrites; without one those that
    touch the same files. Rows of level 0 count, also where reads do not show them yet: the whole rows that
    are written would replace them. Raises CommitConflictError when other commits won every retry.
    """
    schema = session.stores.schema

    def attempt(snapshot: Snapshot | None) -> MergedRows:
        change = new_change()
        if snapshot is None or schema.primary_keys:
            return _change_keyed_table(session, change, snapshot)
        return _change_append_table(session, change, snapshot)

    return retry_on_conflict(session.stores, attempt)


def _change_keyed_table(session: WriteSession, change: RowChange, snapshot: Snapshot | None) -> MergedRows:
    source = SnapshotRows(session.scanner, session.reading, snapshot, with_level_0=True)
    rows = Scan.of(with_resolved_blobs(source, session.reading), change.predicate, None, None)
    keyed = KeyedChange(change, rows.to_batches())
    if session.stores.schema.primary_keys:
        return _result(keyed.counts, _with_check(session, snapshot).add(iter(keyed)))
    inserted = list(change.inserted())  # of a table without key and without rows
    keyed.counts.inserted = sum(batch.num_rows for batch in inserted)
    return _result(keyed.counts, session.add(inserted))


def _with_check(session: WriteSession, snapshot: Snapshot | None) -> WriteSession:
    """Return the session with a commit that conflicts with others that wrote the same keys after the
    snapshot.
    """
    scanner = ChangeScanner(session.scanner, session.stores.schema)

    def commit(
        messages: Sequence[CommitMessage],
        overwrite: Overwrite | None,
        preconditions: Preconditions | None,
        *,
        allow_empty: bool,
        watermark: int | None = None,
    ) -> CommitResult:
        newer = RowsSince(scanner, session.reading, snapshot, messages)
        required = replace(preconditions or Preconditions(), rows_read=newer)
        return session.commit(messages, overwrite, required, allow_empty=allow_empty, watermark=watermark)

    return replace(session, commit=commit)


def _change_append_table(session: WriteSession, change: RowChange, snapshot: Snapshot) -> MergedRows:
    appended = AppendChange(RowDeletion(session.scanner, session.reading), change, snapshot)

    def commit(
        messages: Sequence[CommitMessage],
        overwrite: Overwrite | None,
        preconditions: Preconditions | None,
        *,
        allow_empty: bool,
        watermark: int | None = None,
    ) -> CommitResult:
        draft = appended.drafts()
        return appended.deletion.commit(
            replace(draft, messages=(*messages, *draft.messages)),
            lambda merged: session.commit(
                merged, overwrite, preconditions, allow_empty=allow_empty, watermark=watermark
            ),
        )

    return _result(appended.counts, replace(session, commit=commit).add(iter(appended)))


def _result(counts: RowCounts, result: CommitResult) -> MergedRows:
    return MergedRows(counts.updated, counts.deleted, counts.inserted, result)
