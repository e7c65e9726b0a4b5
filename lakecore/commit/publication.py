"""This module publishes a snapshot on storage where other writers check first and rename afterwards,
replacing whatever exists by then.

The base is read again right before the publication, and the new snapshot after a settle time
(`lakecore.store.settle_time`).
"""

from __future__ import annotations

import logging
from contextlib import suppress

from lakecore.commit.publication_notes import note_publication
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["Publication", "publish"]

logger = logging.getLogger(__name__)

_LONG_AGO = 10
"""A base older than this many settle times is not waited for. Its modification time may precede its
publication.
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """This is the result of publishing a snapshot.

    When neither `published` nor `replaced` is set, the snapshot never existed, because its id was taken or
    its base was replaced; the files that it names can be deleted.
    """

    published: bool
    """The snapshot exists after the settle time."""
    replaced: bool = False
    """It is True if the snapshot existed, and another writer replaced or removed it. A later snapshot may
    have been built on it, so that none of the files that it names may be deleted.
    """
    note: str = ""
    """An operator should know this; it is empty if there is nothing to know."""


def publish(
    snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None, settle: int, retry: int = 0
) -> Publication:
    """Publish `planned`, which was built on `base` (None: on an empty table), and write the hints.

    `settle` is the settle time in milliseconds; `retry` counts how often this commit has lost to others.
    It costs two reads of the base, or a stat without one, and a stat of the schema. With a settle time it
    costs also a stat of the base, the wait, two reads more, and a second wait when the base is younger than
    ten settle times; each retry quarters that one, since on a table that others commit to all the time a
    commit that waits never wins. The note is added to `publication_notes`, too. Where a server commits, it
    decides: nothing is waited for and looked at again, and it costs two requests. Raises CommitUncertainError
    (delete nothing), or another LakeError (nothing was created).
    """
    if snapshots.versions is not None:
        is_newest = snapshots.latest() == base
        return Publication(is_newest and snapshots.versions.commit(snapshots.paths.branch, planned, base))
    if base is not None:
        _let_settle(snapshots, base, settle, settle >> 2 * retry)
        if snapshots.find(base.id) != base:
            logger.info(
                "snapshot %d of %s was replaced by another writer, so nothing is built on it",
                base.id,
                snapshots.paths.root,
            )
            return Publication(published=False)
    if not snapshots.publish(planned):
        return Publication(published=False)
    note = _check_place(snapshots, planned, base)
    if note:
        return _not_in_table(snapshots, note)
    snapshots.write_hints(planned.id)
    if settle == 0:
        return Publication(published=True)
    snapshots.clock.sleep(settle / 1000)
    return _look_again(snapshots, planned, base)


def _let_settle(snapshots: SnapshotStore, base: Snapshot, settle: int, wait: int) -> None:
    """Wait, so that a writer that is about to replace a young `base` has the time to do so."""
    if wait == 0:
        return
    status = snapshots.file_io.stat(snapshots.paths.snapshot(base.id))
    if status is not None and abs(snapshots.clock.now_ms() - status.mtime_ms) < settle * _LONG_AGO:
        snapshots.clock.sleep(wait / 1000)


def _look_again(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None) -> Publication:
    try:
        now = base and snapshots.find(base.id)
        if not snapshots.holds(planned):
            return _not_in_table(snapshots, _replacement_note(snapshots, planned))
        if base is not None and now is None and (note := _check_place(snapshots, planned, base)):
            return _not_in_table(snapshots, note)
    except LakeError as err:
        raise CommitUncertainError(
            f"{snapshots.paths.snapshot(planned.id)}: it was published, but storage could not tell "
            f"whether another writer replaced it ({err}); commit again with the same user and identifier, "
            "and delete nothing"
        ) from err
    if base is None or now is None or now == base:  # None: expired
        return Publication(published=True)
    note = (
        f"snapshot {base.id}, on which snapshot {planned.id} is built, was replaced afterwards by "
        f"commit {now.commit_identifier} of {now.commit_user}: the table lacks the changes of that "
        "commit; let its writer repeat it"
    )
    logger.error("%s: %s", snapshots.paths.root, note)
    note_publication(note)
    return Publication(published=True, note=note)


def _not_in_table(snapshots: SnapshotStore, note: str) -> Publication:
    """Return the result for a snapshot that is not in the table any more. LATEST must not name it: Java takes
    that for a table that cannot be read.
    """
    logger.warning("%s: %s", snapshots.paths.root, note)
    snapshots.correct_latest()
    note_publication(note)
    return Publication(published=False, replaced=True, note=note)


def _replacement_note(snapshots: SnapshotStore, planned: Snapshot) -> str:
    now = snapshots.find(planned.id)
    if now is None:
        return f"snapshot {planned.id} was removed by another process right after it was published"
    return f"snapshot {planned.id} was replaced by commit {now.commit_identifier} of {now.commit_user}"


def _check_place(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None) -> str:
    """Return a note if the table was rolled back behind `base` before `planned` was published, which would
    undo the rollback: then `planned` is not in the table any more, and can be planned again. Otherwise the
    result is empty.

    Raises CommitUncertainError if the table was renamed, dropped, or dropped and created again: a snapshot
    that lies there alone is removed, so that no other table of this path takes it for its own. It costs a
    stat of the schema and a read of the base, or without one two stats, while nothing happened.
    """
    try:
        has_schema = _has_schema(snapshots, planned)
        if has_schema and _is_in_place(snapshots, planned, base):
            return ""
        if not has_schema or not _has_files(snapshots, planned):
            problem = _leave_foreign_place(snapshots, planned)
        elif base is not None and _is_rolled_back(snapshots, base):
            return _take_back(snapshots, planned, base)
        else:
            return ""
    except CommitUncertainError:
        raise
    except LakeError as err:
        raise CommitUncertainError(
            f"{snapshots.paths.snapshot(planned.id)}: it was published, but storage could not tell whether "
            f"the table is still there ({err}); commit again with the same user and identifier, and delete "
            "nothing"
        ) from err
    raise CommitUncertainError(f"{snapshots.paths.root}: {problem}, and delete nothing")


def _is_in_place(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None) -> bool:
    """Return whether what the snapshot was planned on is there: nothing but a change of the whole table
    removes it, or expiry.
    """
    if base is None:
        return _has_files(snapshots, planned)
    return snapshots.find(base.id) == base


def _has_schema(snapshots: SnapshotStore, planned: Snapshot) -> bool:
    """Return whether the directory has a schema. On object stores a drop moves the schemas first, then files
    that it has listed: what is published after that stays where it is, beside others that still wait.
    """
    storage, paths = snapshots.file_io, snapshots.paths
    return storage.stat(paths.schema(planned.schema_id)) is not None or bool(storage.list(paths.schema_dir))


def _has_files(snapshots: SnapshotStore, planned: Snapshot) -> bool:
    """Return whether the directory has the files that were written for the snapshot: a table that was
    created again, or none, does not.
    """
    path = snapshots.paths.manifest(planned.delta_manifest_list)
    return snapshots.file_io.stat(path) is not None


def _is_rolled_back(snapshots: SnapshotStore, base: Snapshot) -> bool:
    """Return whether a rollback removed `base`. Expiry removes older snapshots first."""
    ids = snapshots.list_ids()
    return base.id not in ids and any(number < base.id for number in ids)


def _take_back(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot) -> str:
    """Remove the snapshot, unless the rollback did, and return the note. Raises CommitUncertainError if
    another writer has built on it.
    """
    ids = snapshots.list_ids()
    if ids and ids[-1] > planned.id:
        raise CommitUncertainError(
            f"{snapshots.paths.root}: the table was rolled back behind snapshot {base.id} at the moment when "
            f"snapshot {planned.id} was published on it, and another writer has built on snapshot "
            f"{planned.id}, so that the rollback has no effect; stop all writers, and roll back again"
        )
    if snapshots.holds(planned):
        snapshots.file_io.delete(snapshots.paths.snapshot(planned.id))
    return (
        f"the table was rolled back behind snapshot {base.id} at the moment when snapshot {planned.id} was "
        f"published on it, so snapshot {planned.id} was removed"
    )


def _leave_foreign_place(snapshots: SnapshotStore, planned: Snapshot) -> str:
    """Remove the snapshot if it is in a directory that is not its table; return what happened, and what to
    do.
    """
    storage, paths = snapshots.file_io, snapshots.paths
    is_alone = snapshots.holds(planned)
    if not is_alone:
        return (
            "the table was renamed or dropped at the moment when snapshot "
            f"{planned.id} was published, which may be part of it; load the table by the name that it has "
            "now, commit again with the same user and identifier"
        )
    storage.delete(paths.snapshot(planned.id))
    with suppress(LakeError):  # an empty directory is in nobody's way
        if not storage.list(paths.schema_dir):
            storage.remove_directory(paths.snapshot_dir)
            storage.remove_directory(paths.root)
    return (
        f"the table was renamed or dropped before snapshot {planned.id} was published, so the commit is not "
        "part of it; load the table by the name that it has now and commit again"
    )
