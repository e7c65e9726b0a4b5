"""Finds and removes orphans: what is needed first, then a walk over the directories.

A file that is committed between the two is old but needed: the second look at the roots spares it.
Cost: every manifest once, every directory once. Memory: 8 bytes a data file, one directory, and the orphans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakecore.fs.file_io import FileStatus
from lakecore.maintain.drop import Needs
from lakecore.maintain.orphans.plan import Found, OrphanLimits
from lakecore.maintain.reachable import Doomed, Reach
from lakecore.maintain.roots import Root, RootSet, read_roots
from lakecore.maintain.runs import Removal
from lakecore.maintain.sweep import Sweeper, Swept
from lakecore.maintain.target import Target
from lakecore.metadata.byte_words import hash_bytes
from lakecore.metadata.options import TableOptions

__all__ = ["OrphanPlan", "apply_removal", "plan"]

_WHY = "no snapshot, tag or changelog refers to it"
_HALF = "half of a write that failed"
_NAMED = {
    "snapshot": re.compile(r"snapshot-.+|LATEST|EARLIEST"),
    "changelog": re.compile(r"changelog-.+|LATEST|EARLIEST"),
}
_TEMPORARY = re.compile(r"\..+\.tmp")


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """What would be removed, and what the walk saw."""

    removal: Removal
    found: Found
    roots: RootSet


@dataclass(slots=True)
class _Walk:
    """Counts what it sees."""

    target: Target
    older_than_ms: int
    files: int = 0
    size: int = 0

    def old_files(self, directory: str) -> list[FileStatus]:
        """Those of one directory; one whose age is not known counts as young."""
        found = [status for status in self.target.file_io.list(directory) if not status.is_dir]
        self.files += len(found)
        self.size += sum(status.size for status in found)
        return [status for status in found if 0 < status.mtime_ms < self.older_than_ms]

    def buckets(self) -> Iterator[str]:
        """Directories of data files: as deep as there are partition columns, then the buckets."""
        directory = TableOptions.from_schema(self.target.schema).path_directory
        parts = (self.target.paths.table_path, (directory or "").strip("/"))
        yield from self._below(
            "/".join(part for part in parts if part), len(self.target.schema.partition_keys)
        )

    def _below(self, directory: str, depth: int) -> Iterator[str]:
        for status in self.target.file_io.list(directory):
            if status.is_dir and depth and "=" in status.name:
                yield from self._below(status.path, depth - 1)
            elif status.is_dir and not depth and status.name.startswith("bucket-"):
                yield status.path


def plan(target: Target, limits: OrphanLimits, quarantined: Sequence[Root] = ()) -> OrphanPlan:
    """Reads all roots and what they need, then walks. Changes nothing.

    Raises UnsupportedError when a limit says that this must be a mistake, CorruptDataError and
    UnavailableError when what is needed is not known for certain.
    """
    limits.check_time(target.clock.now_ms())
    roots = read_roots(target.file_io, target.paths)
    limits.check_roots(target.name, len(roots.roots))
    reach = Reach(target)
    needs = Needs(target, roots.roots, quarantined)
    needed = frozenset(path.rpartition("/")[2] for path in needs.metadata())
    mentioned, deleted, extras = reach.mentioned(roots.roots)
    kept_aside, _, more = Reach(target, strict=False).mentioned(quarantined)
    extras |= more
    walk = _Walk(target, limits.older_than_ms)
    orphans = [*_temporary(walk, roots), *_metadata(walk, needed)]
    dead: list[tuple[FileStatus, int]] = []
    for bucket in walk.buckets():
        for status, name in _unnamed(walk.old_files(bucket), needed | extras):
            if _holds(kept_aside, name):
                continue
            if not _holds(mentioned, name):
                orphans.append(Doomed(status.path, status.size, _WHY))
            elif _holds(deleted, name):
                dead.append((status, name))
    orphans += _dead(reach, roots, dead)
    orphan_size = sum(doomed.size for doomed in orphans)
    found = Found(walk.files, walk.size, len(orphans), orphan_size)
    limits.check_share(target.name, found)
    return OrphanPlan(Removal(files=tuple(orphans)), found, roots)


def apply_removal(
    planned: OrphanPlan, sweeper: Sweeper, *, keeps: bool, parameters: dict[str, object]
) -> Swept:
    """Carry it out."""
    return sweeper.sweep(
        "remove-orphan-files", planned.removal, planned.roots, keeps=keeps, parameters=parameters
    )


def _temporary(walk: _Walk, roots: RootSet) -> Iterator[Doomed]:
    """What atomic writes of any branch left beside their target."""
    for branch in roots.branches:
        paths = walk.target.paths.with_branch(branch)
        for name, directory in (("snapshot", paths.snapshot_dir), ("changelog", paths.changelog_dir)):
            for status in walk.old_files(directory):
                if not _NAMED[name].fullmatch(status.name):
                    yield Doomed(status.path, status.size, _HALF)
        for directory in (paths.schema_dir, paths.tag_dir, paths.consumer_dir):
            for status in walk.old_files(directory):
                if _TEMPORARY.fullmatch(status.name):
                    yield Doomed(status.path, status.size, _HALF)


def _metadata(walk: _Walk, needed: frozenset[str]) -> Iterator[Doomed]:
    paths = walk.target.paths
    for directory in (paths.manifest_dir, paths.index_dir, paths.statistics_dir):
        for status in walk.old_files(directory):
            if status.name not in needed:
                yield Doomed(status.path, status.size, _WHY)


def _unnamed(files: list[FileStatus], needed: frozenset[str]) -> list[tuple[FileStatus, int]]:
    """Files that are no index file or extra file of something, with the hashes of their names."""
    left = [status for status in files if status.name not in needed]
    hashes = hash_bytes([status.name.encode() for status in left]).tolist()
    return list(zip(left, hashes, strict=True))


def _holds(hashes: npt.NDArray[np.uint64], name: int) -> bool:
    place = int(np.searchsorted(hashes, np.uint64(name)))
    return place < len(hashes) and int(hashes[place]) == name


def _dead(reach: Reach, roots: RootSet, dead: list[tuple[FileStatus, int]]) -> list[Doomed]:
    """Files that are named, but were removed in every state that is left."""
    names = np.array([name for _, name in dead], np.uint64)
    held = reach.data(roots.roots, names)
    return [Doomed(s.path, s.size, _WHY) for s, name in dead if not _holds(held.names, name)]
