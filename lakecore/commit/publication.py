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
    It costs a read of the base and a stat of the schema; with a settle time also a stat of the base, the
    wait, two reads more, and a second wait when the base is younger than ten settle times; each retry
    quarters that one, since on a table that others commit to all the time a commit that waits never wins. The
    note is added to `publication_notes`, too. Where a server commits, it decides: nothing is waited for and
    looked at again, and it costs two requests. Raises CommitUncertainError (delete nothing), or another
    LakeError (nothing was created).
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
    _check_table_is_there(snapshots, planned)
    snapshots.write_hints(planned.id)
    if settle == 0:
        return Publication(published=True)
    snapshots.clock.sleep(settle / 1000)
    publication = _look_again(snapshots, planned, base)
    note_publication(publication.note)
    return publication


def _let_settle(snapshots: SnapshotStore, base: Snapshot, settle: int, wait: int) -> None:
    """Wait, so that a writer that is about to replace a young `base` has the time to do so."""
    if wait == 0:
        return
    status = snapshots.file_io.stat(snapshots.paths.snapshot(base.id))
    if status is not None and abs(snapshots.clock.now_ms() - status.mtime_ms) < settle * _LONG_AGO:
        snapshots.clock.sleep(wait / 1000)


def _check_table_is_there(snapshots: SnapshotStore, planned: Snapshot) -> None:
    """Raise CommitUncertainError if the directory has no schema any more: the table was renamed or dropped
    before the snapshot was published, or right afterwards. A snapshot that lies there alone is removed, so
    that no later table of this path takes it for its own.
    """
    storage, paths = snapshots.file_io, snapshots.paths
    try:
        if storage.stat(paths.schema(planned.schema_id)) is not None or storage.list(paths.schema_dir):
            return
        is_alone = snapshots.holds(planned)
        if is_alone:
            storage.delete(paths.snapshot(planned.id))
    except LakeError as err:
        raise CommitUncertainError(
            f"{paths.snapshot(planned.id)}: it was published, but storage could not tell whether the table "
            f"is still there ({err}); commit again with the same user and identifier, and delete nothing"
        ) from err
    if not is_alone:
        raise CommitUncertainError(
            f"{paths.root}: the table was renamed or dropped at the moment when snapshot {planned.id} was "
            "published, which may be part of it; load the table by the name that it has now, commit again "
            "with the same user and identifier, and delete nothing"
        )
    with suppress(LakeError):  # an empty directory is in nobody's way
        storage.remove_directory(paths.snapshot_dir)
        storage.remove_directory(paths.root)
    raise CommitUncertainError(
        f"{paths.root}: the table was renamed or dropped before snapshot {planned.id} was published, so the "
        "commit is not part of it; load the table by the name that it has now and commit again, and delete "
        "nothing"
    )


def _look_again(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None) -> Publication:
    try:
        now = base and snapshots.find(base.id)
        if not snapshots.holds(planned):
            note = _replacement_note(snapshots, planned)
            logger.warning("%s: %s", snapshots.paths.root, note)
            return Publication(published=False, replaced=True, note=note)
    except LakeError as err:
        raise CommitUncertainError(
            f"{snapshots.paths.snapshot(planned.id)}: it was published, but storage could not tell "
            f"whether another writer replaced it ({err}); commit again with the same user and identifier, "
            "and delete nothing"
        ) from err
    if base is None or now is None or now == base:  # None: expired, which is none of our business
        return Publication(published=True)
    note = (
        f"snapshot {base.id}, on which snapshot {planned.id} is built, was replaced afterwards by "
        f"commit {now.commit_identifier} of {now.commit_user}: the table lacks the changes of that "
        "commit; let its writer repeat it"
    )
    logger.error("%s: %s", snapshots.paths.root, note)
    return Publication(published=True, note=note)


def _replacement_note(snapshots: SnapshotStore, planned: Snapshot) -> str:
    now = snapshots.find(planned.id)
    if now is None:
        return f"snapshot {planned.id} was removed by another process right after it was published"
    return f"snapshot {planned.id} was replaced by commit {now.commit_identifier} of {now.commit_user}"
