"""This module finds and removes orphans: what is needed first, then a walk over the directories.

A file that is committed between the two is old but needed: the second reading of the roots keeps it. Cost:
every manifest once, every directory once, several at a time; more than 500 of them on the executor. Memory:
16 bytes a data file, the directories being listed, and the orphans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.executor import Executor, SerialExecutor
from lakecore.fs.file_io import FileStatus
from lakecore.fs.temporary import is_temporary
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.drop import RequiredFiles
from lakecore.maintain.deletion.hashed_names import within
from lakecore.maintain.deletion.quarantined import QuarantinedRoots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import Sweeper, SweepResult
from lakecore.maintain.orphans.external import is_created_by_writers
from lakecore.maintain.orphans.listing import Lister
from lakecore.maintain.orphans.plan import OrphanCounts, OrphanLimits
from lakecore.maintain.orphans.walk import KnownFiles, Walk
from lakecore.maintain.target import Target

__all__ = ["OrphanPlan", "apply_removal", "collect"]

_EMPTY_QUARANTINE = QuarantinedRoots()
_WHY = "no snapshot, tag or changelog refers to it"
_HALF = "it was left by a write that failed"
_NAME_PATTERNS = {
    "snapshot": re.compile(r"snapshot-.+|LATEST|EARLIEST"),
    "changelog": re.compile(r"changelog-.+|LATEST|EARLIEST"),
}


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """This is what would be removed, and what the walk saw."""

    removal: Removal
    counts: OrphanCounts
    roots: RootSet


def collect(
    target: Target,
    limits: OrphanLimits,
    quarantined: QuarantinedRoots = _EMPTY_QUARANTINE,
    external: Sequence[str] = (),
    executor: Executor | None = None,
) -> OrphanPlan:
    """Return the orphans. It reads all roots and what they need, then lists directories; it changes nothing.
    `external` are roots of data files that are the table's alone; there only files with names as writers give
    them count. `executor` lists the directories where they are many.

    Raises UnsupportedError when a limit says that this must be a mistake, CorruptDataError and
    UnavailableError when what is needed is not known for certain.
    """
    limits.check_time(target.clock.now_ms())
    roots = read_roots(target.file_io, target.paths)
    limits.check_roots(target.name, len(roots.roots))
    reach = Reach(target)
    needs = RequiredFiles(target, roots.roots, quarantined)
    needed = frozenset(path.rpartition("/")[2] for path in needs.metadata())
    mentioned = reach.named_files(roots.roots)
    aside = quarantined.reach(target).named_files(quarantined.roots)
    others = needed | mentioned.extras | aside.extras
    known_files = KnownFiles(others, aside.names, mentioned.names, mentioned.deleted)
    walk = Walk(target, Lister(target.file_io, limits.older_than_ms, executor or SerialExecutor()))
    orphans = [*_temporary(walk, roots), *_metadata(walk, needed)]
    unnamed, dead = _data(walk, known_files, external)
    orphans += [PlannedDeletion(status.path, status.size, _WHY) for status in unnamed]
    orphans += _dead(reach, roots, dead)
    orphans += [PlannedDeletion(status.path, status.size, _HALF) for status in walk.temporary_files]
    orphan_size = sum(deletion.size for deletion in orphans)
    counts = OrphanCounts(walk.files, walk.size, len(orphans), orphan_size)
    limits.check_share(target.name, counts)
    return OrphanPlan(Removal(files=tuple(orphans)), counts, roots)


def _data(
    walk: Walk, references: KnownFiles, external: Sequence[str]
) -> tuple[list[FileStatus], list[tuple[FileStatus, int]]]:
    """Return old data files that nothing names, and those that some manifest removes."""
    unnamed: list[FileStatus] = []
    dead: list[tuple[FileStatus, int]] = []
    for files in walk.data_files(references):
        unnamed += files.unnamed
        dead += files.removed
    for root in external:
        beyond = Walk(walk.target.at_root(root), walk.lister)
        for files in beyond.data_files(references):
            unnamed += [status for status in files.unnamed if is_created_by_writers(status.name)]
            dead += files.removed
        walk.add(beyond)
    return unnamed, dead


def apply_removal(
    planned: OrphanPlan, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]
) -> SweepResult:
    """Carry it out."""
    return sweeper.sweep(
        "remove-orphan-files", planned.removal, planned.roots, quarantine=quarantine, parameters=parameters
    )


def _temporary(walk: Walk, roots: RootSet) -> Iterator[PlannedDeletion]:
    """Yield temporary files of atomic writes of any branch."""
    for branch in roots.branches:
        paths = walk.target.paths.with_branch(branch)
        for name, directory in (("snapshot", paths.snapshot_dir), ("changelog", paths.changelog_dir)):
            for status in walk.old_files(directory):
                if not _NAME_PATTERNS[name].fullmatch(status.name):
                    yield PlannedDeletion(status.path, status.size, _HALF)
        marks = f"{paths.tag_dir}/tag-success-file"
        for directory in (paths.schema_dir, paths.tag_dir, marks, paths.consumer_dir):
            for status in walk.old_files(directory):
                if is_temporary(status.name):
                    yield PlannedDeletion(status.path, status.size, _HALF)


def _metadata(walk: Walk, needed: frozenset[str]) -> Iterator[PlannedDeletion]:
    paths = walk.target.paths
    for directory in (paths.manifest_dir, paths.index_dir, paths.statistics_dir):
        for status in walk.old_files(directory):
            if status.name not in needed:
                yield PlannedDeletion(status.path, status.size, _WHY)


def _dead(reach: Reach, roots: RootSet, dead: list[tuple[FileStatus, int]]) -> list[PlannedDeletion]:
    """Return the files that are named, but were removed in every state that is left."""
    names = np.array([name for _, name in dead], np.uint64)
    is_live = within(names, reach.data(roots.roots, names).names).tolist()
    return [
        PlannedDeletion(s.path, s.size, _WHY)
        for (s, _), referenced in zip(dead, is_live, strict=True)
        if not referenced
    ]
