"""This module decides what remains of a table that is emptied, and in which order its history is removed. It
is pure.

Branches are removed first, then tags, consumers, changelogs, and snapshots from the oldest on. Whatever
interrupts that, each branch that is left is complete, and the snapshots of main are a sequence without gaps
that ends with the empty one.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.data_class import dataclass
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet

__all__ = ["WHY", "ExtraFiles", "old_roots", "remaining_roots", "root_removal"]

MAIN_BRANCH = "main"
WHY = "the table was emptied with its history"


@dataclass(frozen=True, slots=True)
class ExtraFiles:
    """These are the files that are removed with the roots of main. No other file is reached by them."""

    branches: tuple[PlannedDeletion, ...] = ()
    """These are all files of all branches, in the order in which each branch is removed."""
    tag_marks: tuple[str, ...] = ()
    """These are the success files of tags."""
    consumers: tuple[str, ...] = ()


def remaining_roots(roots: RootSet, empty: int | None) -> tuple[Root, ...]:
    """Return the snapshots of main from the empty one on: `empty` is its id, and later ones are commits of
    others. None: the table has no empty snapshot yet, so none of its snapshots remains.
    """
    if empty is None:
        return ()
    return tuple(root for root in roots.of(RootKind.SNAPSHOT, MAIN_BRANCH) if root.snapshot.id >= empty)


def old_roots(roots: RootSet, remaining: Sequence[Root]) -> tuple[Root, ...]:
    """Return the roots that do not remain, of all branches."""
    paths = frozenset(root.path for root in remaining)
    return tuple(root for root in roots.roots if root.path not in paths)


def root_removal(old: Sequence[Root], extra: ExtraFiles) -> tuple[PlannedDeletion, ...]:
    """Return the root files in the order in which they are removed. `old` are the roots of `old_roots`;
    those of branches are among `extra.branches`.
    """
    main = RootSet(tuple(root for root in old if root.branch == MAIN_BRANCH), (MAIN_BRANCH,))
    tags, changelogs, snapshots = (
        [root.planned_deletion(WHY) for root in main.of(kind, MAIN_BRANCH)]
        for kind in (RootKind.TAG, RootKind.CHANGELOG, RootKind.SNAPSHOT)
    )
    marks = [PlannedDeletion(path, 0, WHY) for path in (*extra.tag_marks, *extra.consumers)]
    return (*extra.branches, *tags, *marks, *changelogs, *snapshots)
