"""This module decides which roots of a run can be read when they are restored: another engine may have
deleted files that they shared with a snapshot or tag of the table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.maintain.deletion.hashed_names import NO_NAMES, Hashes, name_set, within
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.missing_places import missing_places
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.types.counted import counted

__all__ = ["IncompleteRoots", "incomplete_roots"]


@dataclass(frozen=True, slots=True)
class IncompleteRoots:
    """These roots of a run cannot be restored whole.

    `withheld` are the paths of the roots that should stay in the quarantine: tags, and expired snapshots up
    to the newest one that lacks a file, because the snapshots of a table have no gap. `notes` say of each
    root which file it lacks. A snapshot above the latest is never withheld, because it may have rows that no
    other snapshot has.
    """

    withheld: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def incomplete_roots(target: Target, roots: Collection[Root]) -> IncompleteRoots:
    """Look for the files of snapshots and tags that are not at their places in the table, although the files
    of their run were restored.

    Changelog files are not looked for. Cost: the manifests of each root are read, and each bucket that they
    name is listed once or, where a later root adds files, several times; 8 bytes of memory a data file.
    Raises UnavailableError.
    """
    check = _FileCheck(target)
    problems = {root.path: problem for root in roots if (problem := check.first_missing(root)) is not None}
    withheld: set[str] = set()
    notes = []
    for directory in sorted({path.rpartition("/")[0] for path in problems}):
        own = [root for root in roots if root.path.rpartition("/")[0] == directory]
        broken = [root for root in own if root.path in problems]
        limit = _latest(target, broken[0])
        expired = [root for root in broken if root.kind is RootKind.SNAPSHOT and root.snapshot.id < limit]
        last = max(expired, key=lambda root: root.snapshot.id, default=None)
        for root in broken:
            if root.kind is RootKind.TAG:
                withheld.add(root.path)
                notes.append(
                    f"{root} stays in the quarantine, because it is not whole: {problems[root.path]}"
                )
            elif root.snapshot.id > limit:
                notes.append(f"{root} was restored and is not whole: {problems[root.path]}; run fsck")
        if last is not None:
            older = [root.path for root in own if root.snapshot.id <= last.snapshot.id]
            withheld.update(older)
            verb = "stays" if len(older) == 1 else "stay"
            notes.append(
                f"{counted(len(older), 'snapshot')} up to {last} {verb} in the quarantine, because {last} "
                f"is not whole: {problems[last.path]}"
            )
    return IncompleteRoots(frozenset(withheld), tuple(notes))


def _latest(target: Target, root: Root) -> int:
    latest = target.at_branch(root.branch).snapshots.latest()
    return -1 if latest is None else latest.id


@dataclass(slots=True)
class _FileCheck:
    """It looks at each data file once. `_missing` are the paths of those that do not exist, by the hash of
    their names.
    """

    target: Target
    _checked: Hashes = field(default_factory=lambda: NO_NAMES)
    _missing: dict[int, str] = field(default_factory=dict)

    def first_missing(self, root: Root) -> str | None:
        """Return what the root lacks in words, or None if it has all of its files."""
        if root.kind is RootKind.CHANGELOG:
            return None
        try:
            manifests = self.target.manifests.data_manifests(root.snapshot)
            files = live_entries(self.target.manifests.read(manifests), where=root.path)
            places = list(Reach(self.target).index_places(root.snapshot))
        except NotFoundError as err:
            return str(err)
        except CorruptDataError as err:
            return f"{err.path}: {err.problem}"
        new = files.select(~within(files.name_hash, self._checked))
        lanes, paths = missing_places(self.target, new)
        self._missing.update(zip(new.name_hash[lanes].tolist(), paths, strict=True))
        self._checked = name_set([self._checked, new.name_hash])
        known_missing = np.array(list(self._missing), np.uint64)
        names = files.name_hash[np.isin(files.name_hash, known_missing)].tolist()
        missing = [self._missing[name] for name in names]
        missing += [one[0] for one in places if not any(map(self.target.file_io.stat, one))]
        return f"{missing[0]} does not exist" if missing else None
