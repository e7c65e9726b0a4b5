"""This module makes fewer, fuller manifests: it does at once and for all what commits do in passing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakecore.commit.author import Author
from lakecore.commit.manifest_draft import ManifestDraft
from lakecore.commit.manifest_merge import MergePolicy
from lakecore.commit.publication import publish
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind

__all__ = ["ManifestCompaction", "compact_manifests"]

_TRIES = 10


@dataclass(frozen=True, slots=True)
class ManifestCompaction:
    """These are the manifests before and after, and the snapshot of the new ones, None for a dry run.
    `changed` are those that are written again.
    """

    before: int
    after: int
    snapshot_id: int | None
    changed: tuple[ManifestFile, ...]


def compact_manifests(target: Target, author: Author, *, dry_run: bool) -> ManifestCompaction | None:
    """Commit a COMPACT snapshot with the same files in fewer manifests; return None when the manifests are in
    order.

    A dry run guesses how many they become. Raises CommitConflictError when others were always faster.
    """
    policy = replace(MergePolicy.from_options(target.schema.options), min_count=1, full_threshold=1)
    for retry in range(_TRIES):
        latest = target.snapshots.latest()
        if latest is None:
            return None
        before = target.manifests.data_manifests(latest)
        work = [manifest for manifest in before if policy.must_change(manifest)]
        if len(work) <= 1 and not any(manifest.num_deleted_files for manifest in work):
            return None
        if dry_run:
            expected = len(before) - len(work) + _expected_manifests(work, policy)
            return ManifestCompaction(len(before), expected, None, tuple(work))
        draft = ManifestDraft(target.manifests)
        after = draft.merge(before, target.schema.partition_type, policy)
        written_names = draft.keep()
        base, change = target.manifests.write_list(after), target.manifests.write_list(())
        now_ms = target.clock.now_ms()
        identity = {"commit_user": author.user, "commit_identifier": author.number}
        planned = next_metadata_only(latest, base, change, CommitKind.COMPACT, now_ms, **identity)
        publication = publish(target.snapshots, planned, latest, target.settle_ms, retry)
        if publication.published:
            return ManifestCompaction(len(before), len(after), planned.id, tuple(work))
        if not publication.replaced:
            draft.take_back([*written_names, base[0], change[0]])
            draft.discard()
    raise CommitConflictError(f"{target.name}: other writers committed first {_TRIES} times; run again")


def _expected_manifests(work: Sequence[ManifestFile], policy: MergePolicy) -> int:
    """Return how many manifests the live entries of these will fill, if all of their entries take as much
    space.
    """
    size = 0.0
    for manifest in work:
        added, deleted = manifest.num_added_files, manifest.num_deleted_files
        size += manifest.file_size * max(added - deleted, 0) / max(added + deleted, 1)
    return max(1, round(size / policy.target_size))
