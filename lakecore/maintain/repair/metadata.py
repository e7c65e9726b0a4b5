"""This module repairs what refers to data: hints, branches without a schema, snapshots and tags of lost
files.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakecore.commit.publication import publish
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    CorruptDataError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.fs.walk import files_below
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.hints import earliest_after_gap, repair_hints, wrong_earliest, wrong_hints
from lakecore.maintain.repair.context import (
    Action,
    ActionResult,
    Parameters,
    RepairContext,
    move_to_quarantine,
)
from lakecore.maintain.repair.plan import ActionPreview, Growth
from lakecore.maintain.repair.readable import broken_roots, lost_changelog, newest_readable
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot

__all__ = ["BROKEN_ROOTS", "EARLIEST", "HINTS", "LOST_BRANCH", "LOST_CHANGELOG", "ROLLBACK", "TOTALS"]


def _hints(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    wrong = wrong_hints(context.main.file_io, context.main.paths.with_branch(branch))
    if not wrong:
        return None
    changes = tuple(f"{path} -> {right}" for path, right in sorted(wrong.items()))
    return ActionPreview(
        why="hints do not name the snapshots that exist", changes=changes, paths=frozenset(wrong)
    )


def _repair_hints(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    return ActionResult(files=len(repair_hints(context.main.file_io, context.main.paths.with_branch(branch))))


def _earliest(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    paths = context.main.paths.with_branch(branch)
    right = wrong_earliest(context.main.file_io, paths)
    if right is None:
        return None
    return ActionPreview(
        why="snapshots are missing in between, and Java's expiry never runs again unless "
        "EARLIEST is after the gap",
        changes=(f"{paths.earliest_hint} -> {right}",),
        loses="nothing; Java no longer sees the snapshots before the gap",
        paths=frozenset((paths.earliest_hint, paths.snapshot(right))),
    )


def _repair_earliest(
    context: RepairContext, branch: str, _: Parameters, finding_paths: frozenset[str]
) -> ActionResult:
    paths = context.main.paths.with_branch(branch)
    right = earliest_after_gap(context.main.file_io, paths)
    if right is not None:
        context.main.file_io.overwrite(paths.earliest_hint, str(right).encode())
    return ActionResult(files=1)


def _lost_branch(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    """Find a branch without any schema: what it needs cannot be known, so every chore on the table stops."""
    paths = context.main.paths.with_branch(branch)
    if branch == context.main.paths.branch or _has_schema(context, branch):
        return None
    files = tuple(sorted(files_below(context.main.file_io, paths.root)))
    if not files:
        return None
    why = f"branch {branch!r} has no schema, so it cannot be read and stops every job"
    return ActionPreview(why=why, changes=files, loses="the branch", undo=True, paths=frozenset(files))


def _has_schema(context: RepairContext, branch: str) -> bool:
    listed = context.main.file_io.list(context.main.paths.with_branch(branch).schema_dir)
    return any(status.name.startswith("schema-") for status in listed)


def _remove_branch(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    why = f"branch {branch!r} has no schema"
    return move_to_quarantine(
        context, "branch", Removal(tuple(PlannedDeletion(path, 0, why) for path in sorted(paths)))
    )


def _rollback(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    """Find a latest snapshot that is beyond repair: its lists, its index manifest or its own file are
    gone.
    """
    target = context.at(branch)
    broken = broken_roots(target)
    if not broken.beyond:
        return None
    goal = newest_readable(target, broken)
    if goal is None:
        raise UnsupportedError(
            f"{target.name}: no snapshot of branch {branch!r} can be read; restore the branch from a tag"
        )
    paths = _after(target, goal)
    return ActionPreview(
        why=f"snapshot {broken.latest} cannot be read ({broken.beyond}); snapshot {goal} is "
        "the newest that can be read",
        changes=tuple(paths),
        rows=None,
        loses=f"the commits after snapshot {goal}",
        undo=True,
        paths=frozenset(paths),
    )


def _after(target: Target, goal: int) -> list[str]:
    """Return the paths of the snapshots from the newest back, then of changelogs and tags, that came after
    one.
    """
    paths = target.paths
    paths_after = [
        paths.snapshot(number) for number in reversed(target.snapshots.list_ids()) if number > goal
    ]
    paths_after += [
        paths.changelog(number) for number in reversed(target.changelogs.list_ids()) if number > goal
    ]
    for name in target.tags.list():
        path = paths.tag(name)
        with suppress(CorruptDataError, NotFoundError):
            if Snapshot.from_json(target.file_io.read(path), path).id > goal:
                paths_after.append(path)
    return paths_after


def _roll_back(
    context: RepairContext, branch: str, _: Parameters, finding_paths: frozenset[str]
) -> ActionResult:
    """Roll back. LATEST is changed first, because others trust it."""
    target = context.at(branch)
    goal = newest_readable(target, broken_roots(target))
    if goal is None:
        return ActionResult()
    why = f"it was committed after snapshot {goal}, the newest that can be read"
    paths = [path for path in _after(target, goal) if path in finding_paths]
    target.file_io.overwrite(target.paths.latest_hint, str(goal).encode())
    removal = Removal(tuple(PlannedDeletion(path, 0, why) for path in paths))
    result = move_to_quarantine(context, "roll-back", removal, settle=lambda: _settle(context, branch))
    return replace(result, snapshot=goal)


def _roots(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    """Find roots to remove. Old snapshots are removed with all that are older, so that no gap is left; tags
    and changelogs one by one.

    The latest stays: it is removed when a newer one exists.
    """
    target = context.at(branch)
    broken = broken_roots(target)
    keep_roots = broken.beyond and newest_readable(target, broken) is None  # nothing would be won
    old = [number for number in broken.snapshots if number != broken.latest and not keep_roots]
    ids = _up_to(target, old)
    changes = (*(target.paths.snapshot(number) for number in ids), *sorted(broken.others))
    if not changes:
        return None
    reasons = [(f"snapshot {number}", broken.snapshots[number]) for number in old] + [*broken.others.items()]
    text = "; ".join(f"{name}: {why}" for name, why in reasons[:3])
    healthy = [str(number) for number in ids if number not in old]
    return ActionPreview(
        why=f"these cannot be read, and stop every job: {text}",
        changes=changes,
        rows=None if healthy else 0,
        loses=f"time travel to snapshots {', '.join(healthy)}, which can be read" if healthy else "",
        undo=True,
        paths=frozenset(changes),
    )


def _up_to(target: Target, broken: list[int]) -> list[int]:
    return [number for number in target.snapshots.list_ids() if broken and number <= max(broken)]


def _remove_roots(
    context: RepairContext, branch: str, _: Parameters, finding_paths: frozenset[str]
) -> ActionResult:
    """Remove roots, oldest first, as expiry does: an interruption leaves no gap."""
    target = context.at(branch)
    paths = [
        path for path in map(target.paths.snapshot, target.snapshots.list_ids()) if path in finding_paths
    ]
    paths += sorted(finding_paths.difference(paths))
    removal = Removal(
        tuple(PlannedDeletion(path, 0, "it points at files that do not exist") for path in paths)
    )
    return move_to_quarantine(context, "unreadable", removal, settle=lambda: _settle(context, branch))


def _settle(context: RepairContext, branch: str) -> None:
    repair_hints(context.main.file_io, context.main.paths.with_branch(branch))


def _changelog(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    """Find a latest snapshot that can be read while its change stream cannot; every chore stops at it."""
    target = context.at(branch)
    latest = target.snapshots.latest()
    why = lost_changelog(target)
    if latest is None or not why or broken_roots(target).snapshots.get(latest.id):
        return None
    return ActionPreview(
        why=f"the changelog of snapshot {latest.id} is damaged ({why}); it can expire when "
        "there is a newer snapshot (create a new plan then)",
        changes=(f"a snapshot with the same files after {target.paths.snapshot(latest.id)}",),
        loses=f"the changes that streams would have read from snapshot {latest.id}",
        paths=frozenset((target.paths.snapshot(latest.id),)),
    )


def _supersede(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    """Commit a COMPACT snapshot that changes nothing. Raises CommitConflictError when another commit was
    first.
    """
    target = context.at(branch)
    latest = target.snapshots.latest()
    return ActionResult() if latest is None else _succeed(context, target, latest, CommitKind.COMPACT)


def _totals(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    """Find a latest snapshot that counts other rows than its files have; each commit after it would carry
    that on.
    """
    target = context.at(branch)
    latest = target.snapshots.latest()
    if latest is None or latest.total_record_count is None:
        return None
    rows = _rows(target, latest)
    if rows == latest.total_record_count:
        return None
    stored_totals = f"totalRecordCount {latest.total_record_count}"
    return ActionPreview(
        why=f"snapshot {latest.id} has {stored_totals}, but its files contain {rows} rows; later "
        "commits would count on from there",
        changes=(f"{stored_totals} -> {rows} in a new snapshot",),
        paths=frozenset((target.paths.snapshot(latest.id),)),
    )


def _count_again(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    """Commit an OVERWRITE snapshot without changes: a state that does not follow from the one before."""
    target = context.at(branch)
    latest = target.snapshots.latest()
    if latest is None:
        return ActionResult()
    rows = _rows(target, latest)
    return _succeed(context, target, latest, CommitKind.OVERWRITE, total_record_count=rows)


def _rows(target: Target, snapshot: Snapshot) -> int:
    """Return the rows of all live files, as their entries record them."""
    entries = target.manifests.read(target.manifests.data_manifests(snapshot))
    return int(live_entries(entries, where=f"snapshot {snapshot.id}").row_count.sum())


def _succeed(
    context: RepairContext, target: Target, latest: Snapshot, kind: CommitKind, **fields: Any
) -> ActionResult:
    """Commit the same files in a snapshot after `latest`. Raises CommitConflictError when there is one."""
    base, delta = (
        target.manifests.write_list(target.manifests.data_manifests(latest)),
        target.manifests.write_list(()),
    )
    author = {"commit_user": context.user, "commit_identifier": BATCH_IDENTIFIER}
    planned = next_metadata_only(latest, base, delta, kind, target.clock.now_ms(), **author, **fields)
    publication = publish(target.snapshots, planned, latest, target.settle_ms)
    if publication.replaced:
        raise CommitUncertainError(
            f"{target.name}: {publication.note}; create a new plan, and delete nothing"
        )
    if not publication.published:
        target.manifests.delete(base[0])
        target.manifests.delete(delta[0])
        raise CommitConflictError(f"{target.name}: another writer committed first; create a new plan")
    return ActionResult(snapshot=planned.id)


HINTS = Action(look=_hints, do=_repair_hints, growth=Growth.FOLLOWED)
EARLIEST = Action(look=_earliest, do=_repair_earliest)
LOST_BRANCH = Action(look=_lost_branch, do=_remove_branch, last_of_branch=True)
ROLLBACK = Action(look=_rollback, do=_roll_back)
BROKEN_ROOTS = Action(look=_roots, do=_remove_roots, growth=Growth.LEFT)
LOST_CHANGELOG = Action(look=_changelog, do=_supersede, changes_files=True)
TOTALS = Action(look=_totals, do=_count_again, needs_final_files=True)
