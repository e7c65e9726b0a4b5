"""This module commits an older state as the newest snapshot: what it has and the latest has not is added, the
rest removed.
"""

from __future__ import annotations

import uuid
from dataclasses import replace as changed

from lakecore.commit.author import Author
from lakecore.commit.publication import publish
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, NotFoundError
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.tags.apply import create
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import (
    entries_only_in,
    live_entries,
    remaining_deletes,
    with_kind,
)
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["Recommit", "recommit"]

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Recommit:
    """This is the new snapshot, and the tag that was made to protect the old files.

    `repeated`: an earlier try did it.
    """

    snapshot_id: int
    tags: tuple[str, ...]
    repeated: bool = False


def recommit(target: Target, state: Root, author: Author) -> Recommit:
    """Commit an OVERWRITE of the whole table with the files of `state`.

    The tag comes first: other expiry would delete files that an old delta removed and the new one brings
    back. Raises CommitConflictError when others were faster each time.
    """
    tags: tuple[str, ...] = ()
    if state.kind is RootKind.SNAPSHOT:
        tags = (f"rollback-to-as-latest-{state.snapshot.id}-{_token(target, author)}",)
    if (landed := author.landed(target.snapshots, CommitKind.OVERWRITE)) is not None:
        return Recommit(landed.id, tags, repeated=True)
    if tags:
        create(target, tags[0], state, None)
    for retry in range(_TRIES):
        latest = target.snapshots.latest()
        if latest is None:
            raise NotFoundError(f"{target.name} has no snapshot from which it could be rolled back")
        planned, written = _draft(target, latest, state.snapshot, author)
        publication = publish(target.snapshots, planned, latest, target.settle_ms, retry)
        if publication.published:
            return Recommit(planned.id, tags)
        for name in () if publication.replaced else written:
            target.manifests.delete(name)
    raise CommitConflictError(f"{target.name}: other writers committed first {_TRIES} times; run again")


def _token(target: Target, author: Author) -> str:
    """Return a token that is the same for each attempt of a run."""
    if author.identifier is None:
        return target.clock.fresh_id()
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{author.user}/{author.identifier}"))


def _draft(target: Target, latest: Snapshot, state: Snapshot, author: Author) -> tuple[Snapshot, list[str]]:
    manifests = target.manifests
    now, then = _live(target, latest), _live(target, state)
    removed_entries = with_kind(now, EntryKind.DELETE)
    delta = ManifestEntries.concat([_without(removed_entries, then), entries_only_in(then, now)])
    # only what is live: beside a file's old DELETE, its new ADD would count for nothing
    before = manifests.write(now) if len(now) else ()
    base = manifests.write_list(before)
    files = manifests.write(delta) if len(delta) else ()
    change = manifests.write_list(files)
    added = delta.kind == EntryKind.ADD
    rows = int(delta.row_count[added].sum()) - int(delta.row_count[~added].sum())
    planned = next_metadata_only(
        changed(state, id=latest.id, time_millis=latest.time_millis),
        base,
        change,
        CommitKind.OVERWRITE,
        target.clock.now_ms(),
        commit_user=author.user,
        commit_identifier=author.number,
        total_record_count=int(then.row_count.sum()),
        delta_record_count=rows,
        next_row_id=_higher(latest.next_row_id, state.next_row_id),
    )
    return planned, [base[0], change[0], *(file.file_name for file in (*before, *files))]


def _live(target: Target, snapshot: Snapshot) -> ManifestEntries:
    manifests = target.manifests
    entries = manifests.read(manifests.data_manifests(snapshot))
    return live_entries(entries, where=f"the manifests of snapshot {snapshot.id} of table {target.name}")


def _without(deletes: ManifestEntries, other: ManifestEntries) -> ManifestEntries:
    """Return the DELETEs of files that `other` does not have."""
    return remaining_deletes(ManifestEntries.concat([other, deletes]))


def _higher(left: int | None, right: int | None) -> int | None:
    present = [one for one in (left, right) if one is not None]
    return max(present) if present else None
