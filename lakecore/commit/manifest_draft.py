"""The manifests of one try of a commit: they are written, and removed when the try is known to have
failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from lakecore.commit.manifest_merge import (
    FullMerge,
    MergePolicy,
    added_with,
    full_merge_due,
    full_merge_inputs,
    minor_groups,
)
from lakecore.commit.partitions import PartitionBounds
from lakecore.commit.plan import ListFile
from lakecore.errors import LakeError, UnsupportedError
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import live_entries, net_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.store.manifests import ManifestStore
from lakecore.types.datatypes import RowType

__all__ = ["ManifestDraft"]

logger = logging.getLogger(__name__)


class ManifestDraft:
    """These manifests and lists are written but not yet named by a snapshot.

    `discard` removes them; call it only when no snapshot can name them: after a lost race, a conflict, or an
    error before publishing. Call `keep` before a snapshot that names them may appear, and `take_back` when it
    is known that none did: an interruption in between removes nothing.
    """

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests
        self._names: list[str] = []

    def write_list(self, entries: ManifestEntries) -> ListFile:
        """Write `entries` as new manifests and a list of them; without entries the list is empty."""
        return self._list(self._write([entries]))

    def write_base(
        self, before: Sequence[ManifestFile], partition_type: RowType, policy: MergePolicy
    ) -> ListFile:
        """Write the base list: the manifests of the previous snapshot, merged where the policy says so."""
        return self._list(self.merge(before, partition_type, policy))

    def write_index(self, files: Sequence[IndexFile]) -> str:
        """Write a complete index manifest and return its name."""
        name = self._manifests.write_index(files)
        self._names.append(name)
        return name

    def merge(
        self, before: Sequence[ManifestFile], partition_type: RowType, policy: MergePolicy
    ) -> tuple[ManifestFile, ...]:
        """Return manifests with the same meaning as `before`. Only manifests that are rewritten cost
        anything.
        """
        _refuse_unknown(before)
        merged = None
        if full_merge_due(before, policy):
            merged = self._full_merge(before, partition_type, policy)
        return self._minor_merge(before, policy) if merged is None else merged

    def keep(self) -> list[str]:
        """Exclude what was written from `discard`, since a snapshot may name it from now on. It returns the
        argument of `take_back`.
        """
        names, self._names = self._names, []
        return names

    def take_back(self, paths: list[str]) -> None:
        """Let `discard` remove these files again: no snapshot names them, and none will."""
        self._names += paths

    def discard(self) -> None:
        """Remove everything written so far. A failure is logged: a file that stays is an orphan and does no
        damage.
        """
        names, self._names = self._names, []
        for name in names:
            try:
                self._manifests.delete(name)
            except LakeError as err:
                logger.warning("manifest %s of a failed commit could not be removed: %s", name, err)

    def _full_merge(
        self, before: Sequence[ManifestFile], partition_type: RowType, policy: MergePolicy
    ) -> tuple[ManifestFile, ...] | None:
        deletes = self._deletes(before)
        box = PartitionBounds.of(_partitions(deletes), partition_type) if len(deletes) else None
        inputs = full_merge_inputs(before, box, policy)
        if not inputs:
            return None
        candidates = [manifest for manifest in before if manifest.file_name in inputs]
        unhurt: list[ManifestFile] = []
        written = self._write(self._entries_to_rewrite(candidates, deletes, unhurt, policy))
        # the rule's order: manifests never read, manifests read and found unhurt, new ones
        unread = [m for m in before if m.file_name not in inputs]
        return (*unread, *unhurt, *written)

    def _deletes(self, manifests: Sequence[ManifestFile]) -> ManifestEntries:
        """Return all DELETE entries, without the memory of the manifests that have them."""
        parts = []
        for manifest in manifests:
            if manifest.num_deleted_files > 0:
                entries = self._manifests.read([manifest])
                parts.append(entries.select(entries.kind == EntryKind.DELETE).own_copy())
        return ManifestEntries.concat(parts)

    def _entries_to_rewrite(
        self,
        manifests: Sequence[ManifestFile],
        deletes: ManifestEntries,
        unhurt: list[ManifestFile],
        policy: MergePolicy,
    ) -> Iterator[ManifestEntries]:
        """Yield the entries that remain of the manifests that change, one after the other; append the others
        to `unhurt`.

        Raises CorruptDataError, after the last one, if a file is added twice.
        """
        merge = FullMerge(deletes)
        for manifest in manifests:
            entries = self._manifests.read([manifest])
            remaining = merge.remaining(entries)
            if len(remaining) == len(entries) and not policy.must_change(manifest):
                unhurt.append(manifest)
                continue
            _refuse_unknown([entries])
            yield remaining
        hashes = merge.shared_hashes()
        if len(hashes):
            parts = (self._manifests.read([manifest]) for manifest in manifests)
            doubtful = ManifestEntries.concat([added_with(part, hashes) for part in parts])
            live_entries(doubtful, where="manifest lists")

    def _minor_merge(self, before: Sequence[ManifestFile], policy: MergePolicy) -> tuple[ManifestFile, ...]:
        merged: list[ManifestFile] = []
        for group in minor_groups(before, policy):
            if len(group) == 1:
                merged += group
                continue
            entries = self._manifests.read(group)
            _refuse_unknown([entries])
            merged += self._write([net_entries(entries)])
        return tuple(merged)

    def _write(self, parts: Iterable[ManifestEntries]) -> tuple[ManifestFile, ...]:
        files = self._manifests.write_parts(parts)
        self._names += [file.file_name for file in files]
        return files

    def _list(self, files: Sequence[ManifestFile]) -> ListFile:
        name, size = self._manifests.write_list(files)
        self._names.append(name)
        return ListFile(name, size)


def _partitions(entries: ManifestEntries) -> frozenset[bytes]:
    used = set(entries.partition.tolist())
    return frozenset(value for code, value in enumerate(entries.partitions) if code in used)


def _refuse_unknown(parts: Sequence[ManifestEntries] | Sequence[ManifestFile]) -> None:
    if any(part.has_unknown_columns for part in parts):
        raise UnsupportedError(
            "this commit would rewrite manifests or manifest lists that have columns unknown to this "
            "release, and would lose them; commit with the newer version that wrote them"
        )
