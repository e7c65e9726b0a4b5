"""This module expires snapshots of one branch: reads its state, asks the plan, removes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.deletion.candidates import Candidates, PlannedDeletion
from lakecore.maintain.deletion.drop import RequiredFiles
from lakecore.maintain.deletion.quarantined import QuarantinedRoots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.restored_snapshots import latest_after
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult
from lakecore.maintain.expire_snapshots.plan import AgedSnapshot, Expiry, Retention, plan_expiry
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.snapshot import Snapshot

__all__ = ["ExpiryPlan", "apply_expiry", "collect", "settle"]

logger = logging.getLogger(__name__)

_EMPTY_QUARANTINE = QuarantinedRoots()
_WHY = "only expired snapshots referred to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """The plan of an expiry: `expiry` has the snapshots, `removal` the files."""

    expiry: Expiry
    removal: Removal
    remaining: RootSet
    """These roots stay."""
    changelogs: tuple[Root, ...] = ()
    """These expired snapshots live on as changelogs of their id."""


def collect(
    target: Target,
    retention: Retention,
    *,
    decoupled: bool,
    consumers_hold: bool = True,
    quarantined: QuarantinedRoots = _EMPTY_QUARANTINE,
) -> ExpiryPlan:
    """Return what would expire. It reads all roots, the deltas of the expired snapshots, and which of their
    files the other roots have.

    `decoupled`: changelogs live longer than snapshots. Raises LakeError when some root cannot be read: what
    it needs is unknown, so nothing may be removed.
    """
    roots = read_roots(target.file_io, target.paths)
    old = roots.of(RootKind.SNAPSHOT, target.paths.branch)
    consumers = {c.id: c.next_snapshot for c in target.consumers.list()} if consumers_hold else {}
    aged = [AgedSnapshot(root.snapshot.id, root.snapshot.time_millis) for root in old]
    expiry = plan_expiry(aged, retention, consumers)
    ids = frozenset(expiry.ids)
    old_roots = [root for root in old if root.snapshot.id in ids]
    remaining = roots.without(root.path for root in old_roots)
    changelogs = tuple(_as_changelog(target, root) for root in old_roots) if decoupled else ()
    staying = (*remaining.roots, *changelogs)
    places = {root.path for root in changelogs}
    roots_gone = tuple(root.planned_deletion("expired") for root in old_roots)
    needs = RequiredFiles(target, staying, quarantined)
    files = tuple(_files(target, old_roots, _first_kept(old, expiry), needs)) if old_roots else ()
    # a changelog of an earlier history gives up its place, and its files to the search for orphans
    remaining = RootSet((*remaining.without(places).roots, *changelogs), remaining.branches)
    return ExpiryPlan(
        expiry=expiry, removal=Removal(roots_gone, files), remaining=remaining, changelogs=changelogs
    )


def apply_expiry(
    planned: ExpiryPlan, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]
) -> SweepResult:
    """Carry the plan out."""
    target = sweeper.target
    if staying := planned.remaining.of(RootKind.SNAPSHOT, target.paths.branch):
        parameters = parameters | latest_after(staying[-1].snapshot)
    return sweeper.sweep(
        "expire-snapshots",
        planned.removal,
        planned.remaining,
        quarantine=quarantine,
        steps=RootSteps(
            prepare=lambda: _write_changelogs(target, planned.changelogs), settle=lambda: settle(target)
        ),
        parameters=parameters,
    )


def _as_changelog(target: Target, root: Root) -> Root:
    path = target.paths.changelog(root.snapshot.id)
    return Root(RootKind.CHANGELOG, root.branch, root.name, path, root.snapshot)


def _first_kept(roots: Sequence[Root], expiry: Expiry) -> Root | None:
    return next((root for root in roots if root.snapshot.id == expiry.end), None)


def _files(
    target: Target, old_roots: Sequence[Root], end: Root | None, needs: RequiredFiles
) -> list[PlannedDeletion]:
    """Return the files to delete: whatever is live before the end and not at it was removed by a delta up to
    the end's.

    Where ids are missing in between, a delta is missing too: there everything live before the gap counts.
    """
    old = Reach(target, strict=False)
    chain = [*old_roots, *([end] if end is not None else [])]
    deltas = [root.snapshot.delta_manifest_list for root in chain[1:]]
    parts = [old.candidates(deltas, EntryKind.DELETE)]
    for before, after in pairwise(chain):
        if after.snapshot.id != before.snapshot.id + 1:
            parts.append(old.candidates(before.snapshot.state, EntryKind.ADD))
    changelogs = [root.snapshot.changelog_manifest_list for root in old_roots]
    parts.append(old.candidates([name for name in changelogs if name is not None], EntryKind.ADD))
    return needs.deletions(Candidates.joined(parts), old.metadata(old_roots), _WHY)


def _write_changelogs(target: Target, changelogs: Sequence[Root]) -> None:
    """Write the bytes of each snapshot as its changelog, before the snapshot is removed. Raises
    CorruptDataError if a changelog exists that was committed after the snapshot.
    """
    for root in changelogs:
        data = target.file_io.read(target.paths.snapshot(root.snapshot.id))
        if not publish_resolved(target.file_io, root.path, data, target.clock):
            _replace_changelog(target, root, data)
    if changelogs:
        _hint(target, f"{target.paths.changelog_dir}/LATEST", changelogs[-1].snapshot.id)


def _replace_changelog(target: Target, root: Root, data: bytes) -> None:
    """Write `data` over the changelog of an earlier history, of which the snapshot with the same number was
    replaced: fast-forwards of Java leave these, and its expiry replaces them. An expiry of Java that was
    killed left the same changelog in other bytes.
    """
    present = Snapshot.from_json(target.file_io.read(root.path), root.path)
    if _changes(present) == _changes(root.snapshot):
        return
    if present.time_millis >= root.snapshot.time_millis:
        raise CorruptDataError(root.path, f"exists, but does not match snapshot {root.snapshot.id}")
    logger.info("%s is of a history that was replaced; snapshot %s takes its place", root.path, root.name)
    target.file_io.overwrite(root.path, data)


def _changes(snapshot: Snapshot) -> tuple[str | None, ...]:
    return *snapshot.state, snapshot.changelog_manifest_list


def settle(target: Target) -> None:
    """Set EARLIEST to the earliest snapshot, also after an interrupted run left it behind."""
    ids = target.snapshots.list_ids()
    try:
        if ids and target.file_io.read(target.paths.earliest_hint) == str(ids[0]).encode():
            return
    except LakeError:
        logger.info("%s does not exist or cannot be read", target.paths.earliest_hint)
    if ids:
        _hint(target, target.paths.earliest_hint, ids[0])


def _hint(target: Target, path: str, value: int) -> None:
    """Write a hint. Hints are advisory: readers list the directory where it is wrong."""
    try:
        target.file_io.overwrite(path, str(value).encode())
    except LakeError as err:
        logger.warning("hint %s could not be written: %s", path, err)
