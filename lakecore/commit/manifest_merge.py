"""This module decides when a commit rewrites which manifests to keep their number small. Pure.

The released rule of the format is applied to the base manifests of the previous snapshot followed by its
delta manifests. A *full* merge drops every cancelled pair, once the manifests that must change (small ones,
and ones with DELETE entries) have grown to a threshold; otherwise a *minor* merge joins runs of neighbours up
to the target size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lakecore.commit.partitions import PartitionBounds
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import identity_hash, live_places
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.options import Option, parse_size
from lakecore.store.manifests import MANIFEST_TARGET_SIZE

__all__ = ["FullMerge", "MergePolicy", "added_with", "full_merge_due", "full_merge_inputs", "minor_groups"]

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


class FullMerge:
    """It applies a full merge to one manifest after the other, so that only one is in memory.

    Of the others it keeps a hash of each file that they add, to find files that are added twice.
    """

    def __init__(self, deletes: ManifestEntries) -> None:
        """`deletes` are all DELETE entries of the manifests."""
        self._deletes = deletes
        self._deleted = np.sort(identity_hash(deletes))
        self._added: list[npt.NDArray[np.uint64]] = []

    def remaining(self, part: ManifestEntries) -> ManifestEntries:
        """Return the files that one manifest adds and no manifest deletes, in order."""
        adds = part.select(part.kind == EntryKind.ADD)
        hashes = identity_hash(adds)
        self._added.append(hashes)
        doubtful = np.flatnonzero(_contains(self._deleted, hashes))
        if not len(doubtful):
            return adds
        rivals = self._deletes.select(np.isin(identity_hash(self._deletes), hashes[doubtful]))
        alive = doubtful[live_places(ManifestEntries.concat([adds.select(doubtful), rivals]))]
        keep = np.ones(len(adds), np.bool_)
        keep[doubtful] = False
        keep[alive] = True
        return adds.select(keep)

    def shared_hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hashes that more than one added file has, of all manifests so far. They are of files
        that are added twice, or of equal hashes by chance.
        """
        hashes = np.sort(np.concatenate(self._added)) if self._added else np.zeros(0, np.uint64)
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _contains(ranked: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    if not len(ranked):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(ranked, hashes), len(ranked) - 1)
    return np.equal(ranked[places], hashes)


def added_with(part: ManifestEntries, hashes: npt.NDArray[np.uint64]) -> ManifestEntries:
    """Return the files that a manifest adds and whose identities have these hashes. They share no memory with
    others.
    """
    adds = part.select(part.kind == EntryKind.ADD)
    return adds.select(np.isin(identity_hash(adds), hashes)).own_copy()


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
