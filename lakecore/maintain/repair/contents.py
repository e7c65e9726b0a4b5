"""This module repairs what a table has: manifests and data files that are gone, vectors of none, orphans."""

from __future__ import annotations

from dataclasses import replace

from lakecore.commit.author import Author
from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest
from lakecore.errors import CommitConflictError, InvalidInputError
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.orphans.apply import apply_removal
from lakecore.maintain.orphans.apply import collect as collect_orphans
from lakecore.maintain.orphans.plan import OrphanLimits
from lakecore.maintain.repair.context import (
    Action,
    ActionResult,
    Parameters,
    RepairContext,
    move_to_quarantine,
)
from lakecore.maintain.repair.plan import ActionPreview, Growth
from lakecore.maintain.target import Target
from lakecore.maintain.unexisting.files import (
    DAMAGED,
    damaged_files,
    find_missing_files,
    remove_missing_files,
)
from lakecore.maintain.unexisting.manifests import find_missing_manifests, remove_missing_manifests
from lakecore.maintain.unexisting.plan import AcceptedLoss
from lakecore.maintain.unexisting.vectors import discard, stale_vectors, without_vectors
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.store.indexes import IndexStore

__all__ = ["DAMAGED_FILES", "FILES", "MANIFESTS", "ORPHANS", "VECTORS"]

ALL = AcceptedLoss(rows=2**63, max_share=1.0)
"""The rows were accepted with the plan, which names each file."""


def _find_damage(context: RepairContext, branch: str, parameters: Parameters) -> ActionPreview | None:
    """Find the manifests and data files of the latest snapshot that have another size than they were written
    with.

    Of the data files that fsck could not decode (`unreadable`) those that still cannot be.
    """
    target = context.at(branch)
    latest = target.snapshots.latest()
    if latest is None:
        return None
    listed = {status.name: status.size for status in target.file_io.list(target.paths.manifest_dir)}
    manifests = target.manifests.data_manifests(latest)
    bad = [file for file in manifests if listed.get(file.file_name, file.file_size) != file.file_size]
    paths = tuple(sorted(target.paths.manifest(file.file_name) for file in bad))
    rows: int | None = None
    if not bad and all(file.file_name in listed for file in manifests):
        files = damaged_files(target, latest, frozenset(parameters.get("unreadable", ())))
        paths, rows = tuple(sorted(path for path, _ in files)), sum(count for _, count in files)
    if not paths:
        return None
    return ActionPreview(
        why=f"snapshot {latest.id} needs damaged files; they are moved to the quarantine, so "
        "that later steps can leave them out",
        changes=paths,
        rows=rows,
        loses="nothing that can be read; later steps leave the files out (create a new plan then)",
        undo=True,
        paths=frozenset(paths),
    )


def _set_damaged_aside(
    context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]
) -> ActionResult:
    removal = Removal(tuple(PlannedDeletion(path, 0, "damaged") for path in sorted(paths)))
    return move_to_quarantine(context, DAMAGED.removeprefix("repair-"), removal)


def _manifests(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    missing = find_missing_manifests(target)
    if missing is None or not missing.missing:
        return None
    paths = tuple(sorted(target.paths.manifest(file.file_name) for file in missing.missing))
    revived = f"; {missing.revived} recorded removals are lost; those files that exist become live again"
    return ActionPreview(
        why=f"snapshot {missing.snapshot.id} names manifests that do not exist",
        changes=paths,
        rows=None if missing.revived else missing.rows,
        loses="the rows of the files in them" + (revived if missing.revived else ""),
        paths=frozenset(paths),
    )


def _remove_manifests(
    context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]
) -> ActionResult:
    runs = context.sweeper.runs
    missing, snapshot = remove_missing_manifests(
        context.at(branch), runs, ALL, Author(context.user), accept_revived=True
    )
    return ActionResult(snapshot=snapshot, files=0 if missing is None else len(missing.missing))


def _files(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    if TableOptions.from_schema(target.schema).data_evolution:
        return None
    missing = find_missing_files(target)
    if missing is None or not len(missing.entries):
        return None
    return ActionPreview(
        why=f"snapshot {missing.snapshot.id} names data files that do not exist",
        changes=tuple(sorted(missing.paths)),
        rows=missing.rows,
        loses="; ".join(map(str, missing.losses[:20])),
        paths=frozenset(missing.paths),
    )


def _remove_files(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    missing, snapshot = remove_missing_files(
        context.at(branch), context.sweeper.runs, ALL, Author(context.user)
    )
    return ActionResult(snapshot=snapshot, files=0 if missing is None else len(missing.paths))


def _index(target: Target) -> tuple[Snapshot | None, tuple[IndexFile, ...]]:
    latest = target.snapshots.latest()
    return latest, () if latest is None else target.manifests.read_index(latest.index_manifest)


def _vectors(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    latest, files = _index(target)
    if latest is None or not files:
        return None
    entries = live_entries(target.manifests.read(target.manifests.data_manifests(latest)))
    stale = stale_vectors(files, entries)
    if not stale:
        return None
    store = IndexStore(target.file_io, target.paths, target.schema)
    names = {(bucket, name) for bucket, file_names in stale.items() for name in file_names}
    owners = {
        store.path(file)
        for file in files
        if any(((file.partition, file.bucket), vector.data_file) in names for vector in file.deletions)
    }
    return ActionPreview(
        why=f"snapshot {latest.id} has deletion vectors for data files that it does not have",
        changes=tuple(sorted(f"bucket {bucket}: {name}" for (_, bucket), name in names)),
        paths=frozenset(owners),
    )


def _remove_vectors(
    context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]
) -> ActionResult:
    """Remove the vectors in a COMPACT snapshot: no row changes."""
    target = context.at(branch)
    latest, files = _index(target)
    if latest is None:
        return ActionResult()
    entries = live_entries(target.manifests.read(target.manifests.data_manifests(latest)))
    changes = without_vectors(target, files, stale_vectors(files, entries))
    messages = [
        CommitMessage(
            partition=change.bucket[0],
            bucket=change.bucket[1],
            total_buckets=-1,
            compact_new_index_files=change.added,
            compact_deleted_index_files=change.removed,
        )
        for change in changes
    ]
    committer = Committer(target.stores)
    try:
        result = committer.commit(messages, CommitRequest(user=context.user, identifier=BATCH_IDENTIFIER))
    except (InvalidInputError, CommitConflictError):
        discard(target, changes)
        raise
    return ActionResult(snapshot=result.snapshot_ids[-1] if result.snapshot_ids else None, files=len(changes))


def _limits(parameters: Parameters) -> OrphanLimits:
    return OrphanLimits(older_than_ms=int(parameters["older_than_ms"]))


def _orphans(context: RepairContext, branch: str, parameters: Parameters) -> ActionPreview | None:
    target = context.main
    protected = quarantined_roots(context.sweeper.runs, target.name)
    files = collect_orphans(target, _limits(parameters), protected).removal.files
    if not files:
        return None
    paths = tuple(sorted(deletion.path for deletion in files))
    size = sum(deletion.size for deletion in files)
    return ActionPreview(
        why=f"no snapshot, tag or changelog refers to {len(files)} files with {size} bytes",
        changes=paths,
        undo=True,
        paths=frozenset(paths),
    )


def _remove_orphans(
    context: RepairContext, branch: str, parameters: Parameters, paths: frozenset[str]
) -> ActionResult:
    protected = quarantined_roots(context.sweeper.runs, context.main.name)
    planned = collect_orphans(context.main, _limits(parameters), protected)
    chosen = tuple(deletion for deletion in planned.removal.files if deletion.path in paths)
    planned = replace(planned, removal=Removal(files=chosen))
    swept = apply_removal(
        planned, context.sweeper, quarantine=context.quarantine, parameters=dict(parameters)
    )
    return ActionResult(run=swept.run, files=swept.files)


DAMAGED_FILES = Action(look=_find_damage, do=_set_damaged_aside, last_of_branch=True)
MANIFESTS = Action(look=_manifests, do=_remove_manifests, changes_files=True)
FILES = Action(look=_files, do=_remove_files, changes_files=True)
VECTORS = Action(look=_vectors, do=_remove_vectors)
ORPHANS = Action(look=_orphans, do=_remove_orphans, whole_table=True, growth=Growth.LEFT)
