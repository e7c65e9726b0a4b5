"""This module expires changelogs of one branch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakecore.errors import InvalidInputError, LakeError
from lakecore.maintain.deletion.candidates import Candidates, PlannedDeletion
from lakecore.maintain.deletion.drop import RequiredFiles
from lakecore.maintain.deletion.quarantined import QuarantinedRoots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult
from lakecore.maintain.expire_changelogs.plan import plan_changelog_expiry
from lakecore.maintain.expire_snapshots.apply import ExpiryPlan
from lakecore.maintain.expire_snapshots.plan import AgedSnapshot, Expiry, Retention
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind

__all__ = ["apply_expiry", "collect", "settle"]

logger = logging.getLogger(__name__)

_EMPTY_QUARANTINE = QuarantinedRoots()
_WHY = "only expired changelogs referred to it"


def collect(
    target: Target, retention: Retention | None, quarantined: QuarantinedRoots = _EMPTY_QUARANTINE
) -> ExpiryPlan:
    """Return what would expire. With `retention` None these are all changelogs. Raises the same errors as for
    snapshots.
    """
    roots = read_roots(target.file_io, target.paths)
    branch = target.paths.branch
    old = roots.of(RootKind.CHANGELOG, branch)
    snapshots = roots.of(RootKind.SNAPSHOT, branch)
    aged = [AgedSnapshot(root.snapshot.id, root.snapshot.time_millis) for root in old]
    if not snapshots:
        expiry = Expiry((), None, "there are no snapshots")
    elif retention is None:
        expiry = _all(aged, snapshots[0].snapshot.id)
    else:
        consumers = {c.id: c.next_snapshot for c in target.consumers.list()}
        expiry = plan_changelog_expiry(aged, snapshots[-1].snapshot.id, retention, consumers)
    ids = frozenset(expiry.ids)
    old_roots = [root for root in old if root.snapshot.id in ids]
    staying = roots.without(root.path for root in old_roots)
    deletion = tuple(root.planned_deletion("expired") for root in old_roots)
    files = (
        tuple(_files(target, old_roots, RequiredFiles(target, staying.roots, quarantined)))
        if old_roots
        else ()
    )
    return ExpiryPlan(expiry=expiry, removal=Removal(deletion, files), remaining=staying)


def apply_expiry(
    planned: ExpiryPlan, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]
) -> SweepResult:
    """Carry it out."""
    return sweeper.sweep(
        "expire-changelogs",
        planned.removal,
        planned.remaining,
        quarantine=quarantine,
        steps=RootSteps(settle=lambda: settle(sweeper.target)),
        parameters=parameters,
    )


def _all(changelogs: Sequence[AgedSnapshot], earliest_snapshot: int) -> Expiry:
    if changelogs and changelogs[-1].id >= earliest_snapshot:
        raise InvalidInputError(
            f"changelog {changelogs[-1].id} is not older than the earliest snapshot {earliest_snapshot}; "
            "run fsck"
        )
    return Expiry(tuple(one.id for one in changelogs), None, "all changelogs are to be expired")


def _files(target: Target, old_roots: Sequence[Root], needs: RequiredFiles) -> list[PlannedDeletion]:
    old = Reach(target, strict=False)
    changelogs = [r.snapshot.changelog_manifest_list for r in old_roots]
    deltas = [r.snapshot.delta_manifest_list for r in old_roots if r.snapshot.changelog_manifest_list is None]
    parts = [old.candidates([name for name in changelogs if name is not None], EntryKind.ADD)]
    parts += [old.candidates(deltas, kind) for kind in EntryKind]
    return needs.deletions(Candidates.joined(parts), old.metadata(old_roots), _WHY)


def settle(target: Target) -> None:
    """Correct EARLIEST, which an earlier run or this one may have left wrong; without changelogs there are no
    hints.
    """
    ids, earliest = target.changelogs.list_ids(), f"{target.paths.changelog_dir}/EARLIEST"
    try:
        if ids and target.file_io.stat(earliest) is not None:
            if target.file_io.read(earliest) != str(ids[0]).encode():
                target.file_io.overwrite(earliest, str(ids[0]).encode())
        elif ids and ids[0] > 1:
            target.file_io.overwrite(earliest, str(ids[0]).encode())
        elif not ids:
            target.file_io.delete(earliest)
            target.file_io.delete(f"{target.paths.changelog_dir}/LATEST")
    except LakeError as err:
        logger.warning("the hints of %s could not be written: %s", target.paths.changelog_dir, err)
