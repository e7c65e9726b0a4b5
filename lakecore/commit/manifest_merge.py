"""This module decides when a commit rewrites which manifests to keep their number small. Pure.

The released rule of the format is applied to the base manifests of the previous snapshot followed by its
delta manifests. A *full* merge drops every cancelled pair, once the manifests that must change (small ones,
and ones with DELETE entries) have grown to a threshold; otherwise a *minor* merge joins runs of neighbours up
to the target size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lakecore.commit.partitions import PartitionBounds
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.options import Option, parse_size
from lakecore.store.manifests import MANIFEST_TARGET_SIZE

__all__ = ["MergePolicy", "drop_cancelled", "full_merge_due", "full_merge_inputs", "minor_groups"]

MIN_COUNT = Option("manifest.merge-min-count", int, 30, "Small manifests at the end that start a merge.")
FULL_THRESHOLD = Option(
    "manifest.full-compaction-threshold-size", parse_size, 16 << 20, "Changed bytes that start a full merge."
)


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """The thresholds of a manifest merge; sizes are in bytes."""

    target_size: int
    min_count: int
    full_threshold: int

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> MergePolicy:
        return cls(MANIFEST_TARGET_SIZE.read(raw), MIN_COUNT.read(raw), FULL_THRESHOLD.read(raw))

    def must_change(self, manifest: ManifestFile) -> bool:
        """Return whether a full merge rewrites this manifest in any case."""
        return manifest.num_deleted_files > 0 or manifest.file_size < self.target_size


def full_merge_due(manifests: Sequence[ManifestFile], policy: MergePolicy) -> bool:
    """Return whether enough has changed for a full merge to be considered."""
    changed = sum(manifest.file_size for manifest in manifests if policy.must_change(manifest))
    return changed >= policy.full_threshold


def full_merge_inputs(
    manifests: Sequence[ManifestFile], deleted: PartitionBounds | None, policy: MergePolicy
) -> frozenset[str]:
    """Return the names of the manifests that a full merge has to read; empty when it would gain nothing.

    `deleted` covers the partitions of all DELETE entries, None when there are none. Other manifests are kept.
    """
    names = [
        manifest.file_name
        for manifest in manifests
        if policy.must_change(manifest) or (deleted is not None and deleted.meets(manifest))
    ]
    return frozenset(names if len(names) > 1 else ())


def drop_cancelled(
    parts: Sequence[ManifestEntries], must_change: Sequence[bool], deletes: ManifestEntries
) -> tuple[frozenset[int], ManifestEntries]:
    """Apply a full merge to manifests given by their entries, in order.

    It returns the numbers of the `parts` that stay as they are (nothing in them was deleted, and they need
    not change), and the entries of the others, in order, without DELETEs and without what `deletes` cancels.
    """
    origin = np.repeat(np.arange(len(parts)), [len(part.sources) for part in parts])
    everything = ManifestEntries.concat([*parts, deletes])
    split = sum(len(part) for part in parts)
    adds = everything.kind[:split] == EntryKind.ADD
    after = live_entries(everything, where="manifest lists")
    survivors = origin[after.source] if len(after) else np.zeros(0, np.int64)
    before = np.bincount(origin[everything.source[:split][adds]], minlength=len(parts))
    unhurt = np.bincount(survivors, minlength=len(parts)) == before
    unchanged = frozenset(i for i in range(len(parts)) if unhurt[i] and not must_change[i])
    return unchanged, after.select(~np.isin(survivors, list(unchanged)))


def minor_groups(
    manifests: Sequence[ManifestFile], policy: MergePolicy
) -> tuple[tuple[ManifestFile, ...], ...]:
    """Return the neighbours to be joined, in order, covering all manifests; a group of one is left as it
    is.
    """
    groups: list[tuple[ManifestFile, ...]] = []
    open_group: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        open_group.append(manifest)
        size += manifest.file_size
        if size >= policy.target_size:
            groups.append(tuple(open_group))
            open_group, size = [], 0
    if len(open_group) >= policy.min_count:
        groups.append(tuple(open_group))
    else:
        groups.extend((manifest,) for manifest in open_group)
    return tuple(groups)
