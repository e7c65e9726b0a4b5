"""This module finds the files to remove when some roots are removed: those that no other root reaches,
roots in the quarantine included.

A snapshot or tag in the quarantine still counts, otherwise undoing its removal would restore one with missing
files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lakecore.maintain.deletion.candidates import Candidates, PlannedDeletion, ReferencedFiles
from lakecore.maintain.deletion.quarantined import QuarantinedRoots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind

__all__ = ["RequiredFiles", "plan_removal"]

Hashes = npt.NDArray[np.uint64]


class RequiredFiles:
    """These files stay required: by roots that stay (strictly), and by roots in the quarantine (as far as
    their files exist).
    """

    def __init__(self, target: Target, staying: Sequence[Root], quarantined: QuarantinedRoots) -> None:
        self._staying = (Reach(target), staying)
        self._quarantined = (quarantined.reach(target), quarantined.roots)

    def metadata(self) -> frozenset[str]:
        """Return the paths of the required metadata."""
        return frozenset(
            path for reach, roots in (self._staying, self._quarantined) for path in reach.metadata(roots)
        )

    def data(self, hashes: Hashes) -> ReferencedFiles:
        """Return which of the data files are required."""
        (reach, roots), (lenient, more) = self._staying, self._quarantined
        return reach.data(roots, hashes).joined(lenient.data(more, hashes))

    def deletions(
        self, candidates: Candidates, metadata: Mapping[str, int], why: str
    ) -> list[PlannedDeletion]:
        """Return what may be deleted of data files and of `metadata`, paths with their sizes: what is not
        required.
        """
        data = candidates.planned_deletions(self.data(candidates.hashes()), why)
        needed = self.metadata()
        return [
            *data,
            *(PlannedDeletion(path, size, why) for path, size in metadata.items() if path not in needed),
        ]


def plan_removal(
    target: Target, old_roots: Sequence[Root], remaining: RootSet, quarantined: QuarantinedRoots, why: str
) -> Removal:
    """Plan the removal of the root files of `old_roots`, and of what only they need. `remaining` are the
    roots that stay.
    """
    roots = tuple(root.planned_deletion(why) for root in old_roots)
    if not old_roots:
        return Removal(roots)
    old = Reach(target, strict=False)
    lists = [
        name
        for root in old_roots
        for name in (
            root.snapshot.base_manifest_list,
            root.snapshot.delta_manifest_list,
            None if root.kind is RootKind.TAG else root.snapshot.changelog_manifest_list,
        )
        if name is not None
    ]
    candidates = old.candidates(lists, EntryKind.ADD)
    needs = RequiredFiles(target, remaining.roots, quarantined)
    return Removal(roots, tuple(needs.deletions(candidates, old.metadata(old_roots), why)))
