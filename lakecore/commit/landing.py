"""Publishing a snapshot next to writers that check first and rename afterwards, over whatever is there by
then.

The base is read again right before the publication, and the new snapshot after a settle time
(`lakecore.store.settle`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from lakecore.commit.landing_notes import note_landing
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["Landing", "land"]

logger = logging.getLogger(__name__)

_LONG_AGO = 10
"""A base of so many settle times is old. Its time of modification may be earlier than its publication."""


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of a publication.

    `landed`: the snapshot is there, after the settle time. `replaced`: it was there, and another writer's
    took its place or it was removed. Somebody may have built on it meanwhile, so that nothing that it names
    may be deleted. Neither: it was never there, because its id was taken or its base was replaced; what it
    names can be deleted. `note`: what a person should know, empty for nothing.
    """

    landed: bool
    replaced: bool = False
    note: str = ""


def land(
    snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None, settle: int, retry: int = 0
) -> Landing:
    """Publish `planned`, which was built on `base` (None: on an empty table), and write the hints.

    `settle`: the settle time in milliseconds. `retry`: how often this commit has lost to others. Costs a
    read of the base and, with a settle time, a look at it, the wait, two reads more, and a second wait where
    the base is younger than ten settle times; that one is quartered with each retry, since on a table that
    others commit to all the time a commit that waits never wins. The note is added to `landing_notes`, too.
    Raises UnavailableError (nothing was created) or CommitUncertainError (delete nothing).
    """
    if base is not None:
        _let_settle(snapshots, base, settle, settle >> 2 * retry)
        if snapshots.find(base.id) != base:
            logger.info(
                "snapshot %d of %s was replaced by another writer, so nothing is built on it",
                base.id,
                snapshots.paths.root,
            )
            return Landing(landed=False)
    if not snapshots.publish(planned):
        return Landing(landed=False)
    snapshots.write_hints(planned.id)
    if settle == 0:
        return Landing(landed=True)
    snapshots.clock.sleep(settle / 1000)
    landing = _look_again(snapshots, planned, base)
    note_landing(landing.note)
    return landing


def _let_settle(snapshots: SnapshotStore, base: Snapshot, settle: int, wait: int) -> None:
    """Give whoever is about to replace a young `base` the time to do so."""
    if wait == 0:
        return
    status = snapshots.file_io.stat(snapshots.paths.snapshot(base.id))
    if status is not None and abs(snapshots.clock.now_ms() - status.mtime_ms) < settle * _LONG_AGO:
        snapshots.clock.sleep(wait / 1000)


def _look_again(snapshots: SnapshotStore, planned: Snapshot, base: Snapshot | None) -> Landing:
    try:
        now = base and snapshots.find(base.id)
        if not snapshots.holds(planned):
            note = _replaced(snapshots, planned)
            logger.warning("%s: %s", snapshots.paths.root, note)
            return Landing(landed=False, replaced=True, note=note)
    except LakeError as err:
        raise CommitUncertainError(
            f"{snapshots.paths.snapshot(planned.id)}: it was published, but storage could not tell "
            f"whether another writer replaced it ({err}); commit again with the same user and identifier, "
            "and delete nothing"
        ) from err
    if base is None or now is None or now == base:  # None: expired, which is none of our business
        return Landing(landed=True)
    note = (
        f"snapshot {base.id}, on which snapshot {planned.id} is built, was replaced afterwards by "
        f"commit {now.commit_identifier} of {now.commit_user}: the table lacks the changes of that "
        "commit; let its writer repeat it"
    )
    logger.error("%s: %s", snapshots.paths.root, note)
    return Landing(landed=True, note=note)


def _replaced(snapshots: SnapshotStore, planned: Snapshot) -> str:
    now = snapshots.find(planned.id)
    if now is None:
        return f"snapshot {planned.id} was removed by another process right after it was published"
    return f"snapshot {planned.id} was replaced by commit {now.commit_identifier} of {now.commit_user}"
