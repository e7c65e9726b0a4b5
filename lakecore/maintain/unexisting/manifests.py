"""Manifests that the latest snapshot names and that are gone: a new snapshot names the others."""

from __future__ import annotations

from lakecore.commit.author import Author
from lakecore.commit.publication import publish
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, NotFoundError, UnsupportedError
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.target import Target, in_threads
from lakecore.maintain.unexisting.files import check_quarantine
from lakecore.maintain.unexisting.plan import AcceptedLoss
from lakecore.maintain.unexisting.vectors import VectorChange, discard, stale_vectors, without_vectors
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import live_entries, remaining_deletes
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["MissingManifests", "find_missing_manifests", "remove_missing_manifests"]

_TRIES = 5


@dataclass(frozen=True, slots=True)
class MissingManifests:
    """These manifests of `snapshot` do not exist; the value has what the others record.

    `rows` is the number of rows that its total counts and the others do not, None when it has no total.
    `lone` tells whether the others remove files that only a lost one added.
    """

    snapshot: Snapshot
    missing: tuple[ManifestFile, ...]
    present: tuple[ManifestFile, ...]
    live: ManifestEntries
    lone: bool

    @property
    def rows(self) -> int | None:
        total = self.snapshot.total_record_count
        return None if total is None else max(0, total - int(self.live.row_count.sum()))

    @property
    def revived(self) -> int:
        """Return the number of removals of files that are lost with the manifests: these files come back, if
        their manifests are there.
        """
        return sum(file.num_deleted_files for file in self.missing)


def find_missing_manifests(target: Target) -> MissingManifests | None:
    """Return the missing manifests of the latest snapshot, or None if there is no snapshot. The cost is a
    listing, and when some are gone, a read of all the others.

    Raises NotFoundError when a manifest list is gone: then only an older snapshot helps.
    """
    latest = target.snapshots.latest()
    if latest is None:
        return None
    try:
        manifests = target.manifests.data_manifests(latest)
    except NotFoundError as err:
        raise NotFoundError(
            f"{err}: it is not known which files snapshot {latest.id} of {target.name} has; "
            "roll back to a complete snapshot or tag"
        ) from err
    present = {status.name for status in target.file_io.list(target.paths.manifest_dir)}
    unlisted = [file for file in manifests if file.file_name not in present]
    looks = in_threads(lambda file: target.file_io.stat(target.paths.manifest(file.file_name)), unlisted)
    lost = {file.file_name for file, look in zip(unlisted, looks, strict=True) if look is None}
    missing_files = tuple(file for file in manifests if file.file_name in lost)
    staying = tuple(file for file in manifests if file.file_name not in lost)
    entries = target.manifests.read(staying) if missing_files else ManifestEntries.empty()
    there = live_entries(entries, where=f"the remaining manifests of snapshot {latest.id}")
    return MissingManifests(latest, missing_files, staying, there, bool(len(remaining_deletes(entries))))


def remove_missing_manifests(
    target: Target, runs: RunStore, accepted: AcceptedLoss, author: Author, *, accept_revived: bool
) -> tuple[MissingManifests | None, int | None]:
    """Publish an OVERWRITE snapshot without them; return what was missing, and its id. A second
    run finds nothing.

    Vectors of data files that are no longer named are removed too. It raises what `remove_missing_files`
    raises.
    """
    for retry in range(_TRIES):
        missing = find_missing_manifests(target)
        if missing is None or not missing.missing:
            return missing, None
        paths = tuple(target.paths.manifest(file.file_name) for file in missing.missing)
        check_quarantine(target, runs, paths)
        _check(target, missing, accepted, accept_revived=accept_revived)
        published = _publish(target, missing, author, retry)
        if published is not None:
            return missing, published
    raise CommitConflictError(f"{target.name}: other writers committed first {_TRIES} times; run again")


def _check(
    target: Target, missing: MissingManifests, accepted: AcceptedLoss, *, accept_revived: bool
) -> None:
    if missing.revived and not accept_revived:
        raise UnsupportedError(
            f"{target.name}: the missing manifests recorded that {missing.revived} files were "
            "removed; these files and their rows become live again; roll back to a complete "
            "snapshot, or accept that with --accept-revived"
        )
    rows = missing.rows
    if rows is None:
        raise UnsupportedError(
            f"{target.name}: snapshot {missing.snapshot.id} has no totalRecordCount, so it is "
            "not known how many rows are lost; roll back to a complete snapshot"
        )
    total = len(missing.missing) + len(missing.present)
    accepted.check(target.name, "manifests", len(missing.missing), total, rows)


def _publish(target: Target, missing: MissingManifests, author: Author, retry: int) -> int | None:
    """Return the id, or None when another commit was first: then nothing of ours is left, unless it was
    visible for a while.
    """
    latest, manifests = missing.snapshot, target.manifests
    index = manifests.read_index(latest.index_manifest)
    changes = without_vectors(target, index, stale_vectors(index, missing.live))
    written: list[str] = []
    manifests_after = missing.present
    if missing.lone:
        manifests_after = manifests.write(missing.live) if len(missing.live) else ()
        written += [file.file_name for file in manifests_after]
    base, delta = manifests.write_list(manifests_after), manifests.write_list(())
    index_manifest = latest.index_manifest
    if changes:
        index_manifest = manifests.write_index(_after(index, changes))
        written.append(index_manifest)
    planned = next_metadata_only(
        latest,
        base,
        delta,
        CommitKind.OVERWRITE,
        target.clock.now_ms(),
        index_manifest=index_manifest,
        commit_user=author.user,
        commit_identifier=author.number,
        total_record_count=int(missing.live.row_count.sum()),
    )
    publication = publish(target.snapshots, planned, latest, target.settle_ms, retry)
    if publication.published:
        return planned.id
    if publication.replaced:  # somebody may be building on it
        return None
    for name in (base[0], delta[0], *written):
        manifests.delete(name)
    discard(target, changes)
    return None


def _after(index: tuple[IndexFile, ...], changes: tuple[VectorChange, ...]) -> tuple[IndexFile, ...]:
    removed = {file.file_name for change in changes for file in change.removed}
    staying = tuple(file for file in index if file.file_name not in removed)
    return (*staying, *(file for change in changes for file in change.added))
