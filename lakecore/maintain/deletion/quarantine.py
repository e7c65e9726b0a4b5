"""This module manages the quarantine: files that runs moved there stay until they are restored, or until
they are too old or too many.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.maintain.deletion.places import check_removable
from lakecore.maintain.deletion.quarantined import read_root
from lakecore.maintain.deletion.restored_files import IncompleteRoots, incomplete_roots
from lakecore.maintain.deletion.restored_schemas import check_schemas, restore_schemas
from lakecore.maintain.deletion.restored_snapshots import check_branches, check_latest_is_known
from lakecore.maintain.deletion.root_states import RootStates, roots_to_remove
from lakecore.maintain.deletion.roots import Root
from lakecore.maintain.deletion.runs import RunRecord, RunState, RunStore
from lakecore.maintain.deletion.table_creation import check_same_table, creation_of
from lakecore.maintain.hints import repair_hints
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.target import Target, in_threads
from lakecore.store.paths import MAIN_BRANCH, TablePaths

__all__ = ["UndoResult", "due_for_purge", "purge", "purge_runs", "quarantined_size", "undo"]

logger = logging.getLogger(__name__)

_REPAIR = "repair-"
"""The jobs of repairs begin so."""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """These files were restored by `undo`. `missing` counts the entries of the run that were not in its
    quarantine; `notes` say which snapshots and tags lack files that the run had left in the table.
    """

    files: int
    size: int
    missing: int
    notes: tuple[str, ...] = ()


def undo(target: Target, runs: RunStore, record: RunRecord) -> UndoResult:
    """Restore everything that the run moved to the quarantine: files first, then the roots that need them. It
    can be repeated. Tags and expired snapshots of which another engine has deleted files since stay in the
    quarantine, and so does the run; the cost is that of `incomplete_roots`.

    Raises InvalidInputError for a run that kept nothing, AlreadyExistsError when a snapshot or tag has taken
    the place of one of the run's, a commit since the run would not be the latest any more, or schemas that
    would be replaced came since, NotFoundError when a branch was deleted since or another table has the name,
    and the errors of `check_removable` for a record that names files that do not belong to the table: then
    nothing is moved.
    Raises UnavailableError, too, when the table was changed meanwhile, as `_restore_roots` says.
    """
    if record.state not in (RunState.QUARANTINED, RunState.PLANNED) or not record.keeps:
        raise InvalidInputError(
            f"run {record.id} ({record.job} of {record.table}) is {record.state.value}: "
            f"{_why_nothing(record)}, so there is nothing to restore"
        )
    removal = runs.removal(record)
    check_removable(target, removal)
    created = creation_of(target, record)
    check_same_table(target, record, created)
    in_quarantine = {
        status.path: status.size for status in target.file_io.list(f"{runs.folder(record)}/kept")
    }
    places = {one.path: runs.quarantine_path(record, n, one.path) for n, one in enumerate(removal)}
    moves = {path: place for path, place in places.items() if place in in_quarantine}
    before = RootStates.of(target)
    all_roots = [one.path for one in removal.roots]
    roots = {path: moves[path] for path in reversed(all_roots) if path in moves}
    files = {path: place for path, place in moves.items() if path not in roots}
    for path in reversed(roots):
        _check_place(target, roots[path], path)
    check_branches(target, record, roots)
    check_latest_is_known(target, record, roots, set(all_roots) - roots.keys())
    check_schemas(target, record)
    list(in_threads(lambda path: _put_back(target, files[path], path), files))
    _remove_earliest_hints(target, all_roots)
    incomplete = IncompleteRoots()
    if not record.job.startswith(_REPAIR):
        in_table = (_root_of(target, runs, path, place) for path, place in roots.items())
        incomplete = incomplete_roots(target, [root for root in in_table if root is not None])
    # the table may have been changed while the files were moved and looked for
    check_same_table(target, record, created)
    check_schemas(target, record)
    check_latest_is_known(target, record, roots, set(all_roots) - roots.keys())
    restore_schemas(target, record)
    whole = {path: place for path, place in roots.items() if path not in incomplete.withheld}
    try:
        _restore_roots(target, record, whole, before)
    finally:
        for paths in _branches_of(target, all_roots):
            repair_hints(target.file_io, paths)
    restored = [*files.values(), *whole.values()]
    if not incomplete.withheld:
        runs.finish(record, RunState.UNDONE, {"restored": len(restored)})
    return UndoResult(
        files=len(restored),
        size=sum(in_quarantine[place] for place in restored),
        missing=len(places) - len(moves),
        notes=incomplete.notes,
    )


def _restore_roots(target: Target, record: RunRecord, places: Mapping[str, str], before: RootStates) -> None:
    """Restore the roots from their places, by their paths, in this order.

    Where the table was rolled back, created again or purged meanwhile, or one of its tags was removed, all of
    them go back to the quarantine: they could become the latest snapshots, or lack files. Then it raises
    UnavailableError or AlreadyExistsError.
    """
    content: dict[str, bytes] = {}
    problem: LakeError | None = None
    try:
        for path, place in places.items():
            _check_place(target, place, path)
            content[path] = target.file_io.read(place)
            _put_back(target, place, path)
    except AlreadyExistsError as err:
        problem = err
    if problem is None and (changed := before.changed(target, places)):
        problem = UnavailableError(
            f"{target.name}: the table was rolled back, created again or changed in another way while run "
            f"{record.id} was undone ({', '.join(changed[:3])}), so its snapshots and tags stay in the "
            "quarantine; undo it again"
        )
    if problem is not None:
        for path in reversed(roots_to_remove(target, content)):
            _put_back(target, path, places[path])
        raise problem


def _root_of(target: Target, runs: RunStore, path: str, place: str) -> Root | None:
    """Return the snapshot, tag or changelog as it was in the table; None for another file."""
    name = path.rpartition("/")[2]
    root = read_root(runs, place, name)
    if root is None:
        return None
    return replace(root, branch=target.paths.branch_of(path), name=name.partition("-")[2], path=path)


def _remove_earliest_hints(target: Target, roots: Collection[str]) -> None:
    """Remove EARLIEST where snapshots will be restored below it: a rollback of Java that trusts it would
    remove the snapshots from there on, and leave those that were restored.
    """
    for paths in _branches_of(target, roots):
        if any(path.startswith(f"{paths.snapshot_dir}/") for path in roots):
            target.file_io.delete(paths.earliest_hint)


def _branches_of(target: Target, roots: Collection[str]) -> Iterator[TablePaths]:
    """Return the paths of the branches that have snapshots or changelogs among the roots. Another engine may
    delete a branch at any time, and a hint that is written then would leave a directory without a schema,
    which Java takes for a branch that it cannot read.
    """
    for branch in (MAIN_BRANCH, *target.branches.list()) if roots else ():
        paths = target.paths.with_branch(branch)
        folders = (f"{paths.snapshot_dir}/", f"{paths.changelog_dir}/")
        if any(path.startswith(folders) for path in roots):
            yield paths


def _why_nothing(record: RunRecord) -> str:
    if record.state is RunState.UNDONE:
        return "it was restored already"
    if record.state is RunState.PURGED:
        return "the quarantine has deleted its files since"
    return "it moved no file into the quarantine"


def quarantined_size(runs: RunStore, record: RunRecord) -> int:
    """Return the bytes of the run in the quarantine; 0 where it is a symbolic link. This costs a listing."""
    try:
        return sum(status.size for status in runs.file_io.list(f"{runs.folder(record)}/kept"))
    except UnsupportedError as err:
        logger.warning("the quarantine of run %s was not measured: %s", record.id, err)
        return 0


def purge(
    runs: RunStore, *, ttl_ms: int, cap: int | None, may_change: Callable[[str], bool] | None = None
) -> list[tuple[RunRecord, int]]:
    """Delete for good the runs that are older than `ttl_ms`, and the oldest beyond `cap` bytes; return the
    runs and their bytes. Runs of tables that are on hold, or that `may_change` leaves out, stay, and do not
    count for `cap`.
    """
    return purge_runs(runs, due_for_purge(runs, ttl_ms=ttl_ms, cap=cap, may_change=may_change))


def due_for_purge(
    runs: RunStore, *, ttl_ms: int, cap: int | None, may_change: Callable[[str], bool] | None = None
) -> list[tuple[RunRecord, int]]:
    """Return the runs that `purge` deletes, with their bytes. It costs a listing for each quarantined run."""
    now = runs.clock.now_ms()
    on_hold = {hold.table for hold in HoldStore(runs.file_io, runs.warehouse, runs.clock).all()}
    records = [record for record in runs.list() if record.state is RunState.QUARANTINED]
    records = [record for record in records if record.table not in on_hold]
    if may_change is not None:
        records = [record for record in records if may_change(record.table)]
    sizes = {record.id: quarantined_size(runs, record) for record in records}
    total = sum(sizes.values())
    due = []
    for record in records:
        old = now - (record.finished_ms or record.started_ms) > ttl_ms
        if not old and (cap is None or total <= cap):
            continue
        due.append((record, sizes[record.id]))
        total -= sizes[record.id]
    return due


def purge_runs(runs: RunStore, due: Iterable[tuple[RunRecord, int]]) -> list[tuple[RunRecord, int]]:
    """Delete the quarantined files of these runs for good, and return those that were deleted. A run whose
    table is on hold stays. Raises UnavailableError.
    """
    holds = HoldStore(runs.file_io, runs.warehouse, runs.clock)
    purged_runs = []
    for record, size in due:
        try:
            if holds.of(record.table):
                continue
            statuses = runs.file_io.list(f"{runs.folder(record)}/kept")
            list(in_threads(lambda status: runs.file_io.delete(status.path), statuses))
            runs.finish(record, RunState.PURGED, {"purged_bytes": size})
        except UnavailableError:
            raise
        except LakeError as err:
            logger.warning("the quarantine of run %s could not be emptied: %s", record.id, err)
            continue
        purged_runs.append((record, size))
    return purged_runs


def try_purge(
    runs: RunStore, table: str, may_change: Callable[[str], bool], *, ttl_ms: int, cap: int | None
) -> None:
    """Purge after a run what is of tables that its user may change, and prune the oldest lines of its table's
    ledger. A failure is left to the next purge.
    """
    try:
        purge(runs, ttl_ms=ttl_ms, cap=cap, may_change=may_change)
        runs.forget(table)
    except LakeError as err:
        logger.warning("old files of the quarantine %s could not be removed: %s", runs.root, err)


def _check_place(target: Target, place: str, path: str) -> None:
    if target.file_io.stat(path) is not None and target.file_io.read(path) != target.file_io.read(place):
        raise AlreadyExistsError(
            f"{path} exists again with other content, because the table was changed since; "
            "create a branch or tag of what you want to keep, remove the file, and undo again"
        )


def _put_back(target: Target, place: str, path: str) -> None:
    try:
        target.file_io.move(place, path)
    except AlreadyExistsError:
        target.file_io.delete(place)
    except NotFoundError:
        logger.info("%s was already restored", path)
