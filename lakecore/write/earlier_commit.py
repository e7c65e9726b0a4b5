"""This module finds out whether a commit was made whose user has no snapshot left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakecore.commit.duplicates import LastCommit
from lakecore.errors import NotFoundError
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.write.many_writers import Writable, new_paths
from lakecore.write.messages import PreparedCommit

__all__ = ["check_no_file_missing", "is_in_table"]


def is_in_table(table: Writable, prepared: Sequence[PreparedCommit], last: LastCommit) -> bool:
    """Return whether the table has files of this commit, or a tag or a changelog has its number.

    It costs nothing while the snapshots since the writers ended are there, or one of the user is: they show
    it. Otherwise it costs a read of the tags, the changelogs and the manifests of the latest snapshot.
    """
    if not prepared or last.snapshot is not None:
        return False
    if last.looked_since <= min(one.prepared_after for one in prepared) + 1:
        return False
    return any(_is_of(one, prepared[0]) for one in _retained_snapshots(table)) or _has_live_file(
        table, prepared
    )


def _retained_snapshots(table: Writable) -> Iterator[Snapshot]:
    """Yield what is kept of snapshots that expired."""
    stores = table._stores
    for name in stores.tags.list():
        yield stores.tags.load(name)
    for number in stores.changelogs.list_ids():
        snapshot = stores.changelogs.find(number)
        if snapshot is not None:
            yield snapshot


def _is_of(snapshot: Snapshot, prepared: PreparedCommit) -> bool:
    """Return whether the snapshot shows that the number was committed: numbers of a user ascend."""
    number = snapshot.commit_identifier
    return snapshot.commit_user == prepared.user and prepared.identifier <= number < BATCH_IDENTIFIER


def _has_live_file(table: Writable, prepared: Iterable[PreparedCommit]) -> bool:
    names = {file.file_name for one in prepared for message in one.messages for file in message.new_files}
    snapshots = [table._stores.snapshots.latest(), *map(table._stores.tags.load, table._stores.tags.list())]
    return any(
        not names.isdisjoint(name.decode() for name in table._scanner.live_entries(one).names())
        for one in snapshots
        if one is not None
    )


def check_no_file_missing(table: Writable, prepared: Iterable[PreparedCommit]) -> None:
    """Raise NotFoundError naming the first file of the commit that is gone. It costs a look at each."""
    for path in new_paths(table, prepared):
        if table._stores.file_io.stat(path) is None:
            raise NotFoundError(
                f"table {table.name}: {path} of a commit that is repeated does not exist; it was committed "
                "and compacted before its snapshot expired, or removed as an orphan: read the table to see "
                "which, and start the stream from a newer state"
            )
