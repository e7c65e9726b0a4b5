"""This module empties a table and removes its history: it commits an empty snapshot, then removes what is
older.

Cost: every list and manifest of all roots is read twice, and every directory is listed up to three times.
Memory is that of `remove-orphan-files`, and the paths of all files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakecore.commit.author import Author
from lakecore.commit.request import CommitRequest, CommitResult, Overwrite
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.maintain.branches.apply import branch_removal, remove_empty
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.drop import plan_removal
from lakecore.maintain.deletion.latest import check_latest
from lakecore.maintain.deletion.places import check_removable
from lakecore.maintain.deletion.quarantined import QuarantinedRoots, quarantined_roots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.restored_snapshots import latest_after
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult, split_by_reach
from lakecore.maintain.hints import repair_hints
from lakecore.maintain.orphans.apply import collect as collect_orphans
from lakecore.maintain.orphans.plan import OrphanLimits
from lakecore.maintain.purge_files.plan import WHY, ExtraFiles, old_roots, remaining_roots, root_removal
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.snapshot import CommitKind
from lakecore.scan.scanner import Scanner
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["PurgePlan", "apply_purge", "collect", "empty_snapshot", "remove_empty_branches"]

JOB = "purge-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """This is what would be removed. `empty` is the id of the snapshot that remains, if it exists already."""

    removal: Removal
    old: tuple[Root, ...]
    empty: int | None
    orphans: tuple[PlannedDeletion, ...]
    """These of the files were reached by no root before."""

    @property
    def nothing_to_do(self) -> bool:
        """Return whether the table is empty and has no history."""
        return self.empty is not None and not len(self.removal)

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """Return the ids of the snapshots of main that go, ordered."""
        snapshots = RootSet(self.old, ()).of(RootKind.SNAPSHOT, MAIN_BRANCH)
        return tuple(root.snapshot.id for root in snapshots)


def empty_snapshot(target: Target, author: Author) -> int | None:
    """Return the id of the snapshot from which on snapshots remain: the one that an earlier try of this run
    committed, or the latest one if it has neither files nor index files. None: it has to be committed.
    """
    landed = author.landed(target.snapshots, CommitKind.OVERWRITE)
    if landed is not None:
        return landed.id
    latest = target.snapshots.latest()
    if latest is None:
        return None
    scanner = Scanner(target.name, target.stores)
    is_empty = not len(scanner.live_entries(latest)) and not scanner.index_files(latest)
    return latest.id if is_empty else None


def collect(target: Target, sweeper: Sweeper, older_than_ms: int, empty: int | None) -> PurgePlan:
    """Return what goes; it changes nothing. Files that no root reaches stay if they are younger than
    `older_than_ms`: a writer may be about to commit them. Manifests of the latest snapshot are left out while
    there is no empty snapshot, because that will name those that its commit does not merge.

    Raises CorruptDataError and UnavailableError when what the table has is not known for certain, and
    InvalidInputError for a time that is not in the past.
    """
    limits = OrphanLimits(older_than_ms=older_than_ms, max_share=1.0, allow_empty=True)
    protected = quarantined_roots(sweeper.runs, target.name)
    orphans = collect_orphans(target, limits, protected, (), sweeper.executor).removal.files
    return _new_plan(target, protected, orphans, empty)


def _new_plan(
    target: Target, protected: QuarantinedRoots, orphans: tuple[PlannedDeletion, ...], empty: int | None
) -> PurgePlan:
    roots = read_roots(target.file_io, target.paths)
    remaining = remaining_roots(roots, empty)
    old = old_roots(roots, remaining)
    files = plan_removal(target, old, RootSet(remaining, roots.branches), protected, WHY).files
    first = root_removal(old, _extra_files(target, roots))
    paths = {deletion.path for deletion in (*first, *files)}
    # the empty snapshot names manifests that were committed after the orphans had been listed
    orphans, _ = split_by_reach(orphans, Reach(target), remaining) if orphans else (orphans, ())
    files = (*files, *(deletion for deletion in orphans if deletion.path not in paths))
    files = _existing(target, files, frozenset() if empty is not None else _latest_manifests(target))
    return PurgePlan(removal=Removal(first, files), old=old, empty=empty, orphans=orphans)


def _existing(
    target: Target, files: Sequence[PlannedDeletion], without: frozenset[str]
) -> tuple[PlannedDeletion, ...]:
    """Return the files that exist and are not among `without`: manifests also name files that expired."""
    directories = dict.fromkeys(deletion.path.rpartition("/")[0] for deletion in files)
    listed = in_threads(target.file_io.list, directories)
    present = frozenset(status.path for statuses in listed for status in statuses) - without
    return tuple(deletion for deletion in files if deletion.path in present)


def _latest_manifests(target: Target) -> frozenset[str]:
    latest = target.snapshots.latest()
    files = () if latest is None else target.manifests.data_manifests(latest)
    return frozenset(target.paths.manifest(file.file_name) for file in files)


def _extra_files(target: Target, roots: RootSet) -> ExtraFiles:
    branches: list[PlannedDeletion] = []
    for name in roots.branches:
        if name != MAIN_BRANCH:
            branches += _branch_files(target, name)
    marks = target.file_io.list(f"{target.paths.tag_dir}/tag-success-file")
    consumers = target.file_io.list(target.paths.consumer_dir)
    return ExtraFiles(
        branches=tuple(branches),
        tag_marks=tuple(status.path for status in marks if not status.is_dir),
        consumers=tuple(status.path for status in consumers if not status.is_dir),
    )


def _branch_files(target: Target, name: str) -> tuple[PlannedDeletion, ...]:
    try:
        return branch_removal(target, name)[0].roots
    except NotFoundError:
        return ()  # it has directories only


def apply_purge(
    planned: PurgePlan,
    commit: Callable[[CommitRequest], CommitResult],
    sweeper: Sweeper,
    author: Author,
    *,
    quarantine: bool,
    parameters: Mapping[str, Any],
) -> tuple[PurgePlan, SweepResult]:
    """Commit the empty snapshot unless it exists, plan the removal again from the roots of that moment, and
    carry it out. Snapshots that others commit afterwards stay, with the files that they need.

    Raises OnHoldError, the errors of `check_removable` and CorruptDataError before anything is written; the
    errors of a commit; UnavailableError when the empty snapshot vanished: then no file was removed.
    """
    target = sweeper.target
    check_removable(target, planned.removal)
    sweeper.gate.check(quarantine=quarantine)
    check_latest(target)
    empty = planned.empty
    if empty is None:
        request = CommitRequest(
            user=author.user, identifier=author.number, overwrite=Overwrite.table(), allow_empty=True
        )
        empty = commit(request).snapshot_ids[-1]
    sweeper.alive()
    again = _new_plan(target, quarantined_roots(sweeper.runs, target.name), planned.orphans, empty)
    remaining = remaining_roots(read_roots(target.file_io, target.paths), empty)
    swept = sweeper.sweep(
        JOB,
        again.removal,
        RootSet(remaining[:1], (MAIN_BRANCH,)),
        quarantine=quarantine,
        steps=RootSteps(settle=lambda: _settle(target)),
        parameters={**parameters, **latest_after(target.snapshots.load(empty))},
    )
    return again, swept


def _settle(target: Target) -> None:
    remove_empty_branches(target)
    repair_hints(target.file_io, target.paths)


def remove_empty_branches(target: Target) -> None:
    """Remove the directories of branches without files, which others would take for broken branches: a run
    that was killed after it had removed the files has left them.
    """
    for name in target.branches.list():
        remove_empty(target, name)
