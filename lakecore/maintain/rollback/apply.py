"""This module removes the snapshots, changelogs and tags after a state. Data files stay: they become orphans.

Newest first, so that whatever interrupts it leaves an unbroken row of snapshots; running it again completes
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, InvalidInputError, LakeError, NotFoundError, UnavailableError
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.deletion.restored_snapshots import latest_after
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult
from lakecore.maintain.hints import repair_hints
from lakecore.maintain.tagged_snapshot import snapshot_of_tag
from lakecore.maintain.target import Target
from lakecore.metadata.json_record import json_object

__all__ = ["RollbackPlan", "apply_rollback", "choose", "collect"]

_TRIES = 5
_NO_MARK = -(2**63)
"""What writers record that have seen no watermark yet."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """`state` becomes the latest snapshot; `removed_roots` are removed, in this order."""

    state: Root
    removed_roots: tuple[Root, ...]
    remaining: RootSet

    @property
    def removal(self) -> Removal:
        why = f"it was committed after snapshot {self.state.snapshot.id}"
        return Removal(tuple(root.planned_deletion(why) for root in self.removed_roots))


def choose(
    target: Target,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp_ms: int | None = None,
    watermark: int | None = None,
) -> Root:
    """Return the state to go back to: a snapshot (also one that only a tag keeps), a tag, the last snapshot
    committed at or before a time, the last with a watermark up to a value. Raises NotFoundError,
    InvalidInputError.
    """
    if sum(one is not None for one in (snapshot, tag, timestamp_ms, watermark)) != 1:
        raise InvalidInputError("give exactly one of snapshot, tag, timestamp and watermark")
    roots = read_roots(target.file_io, target.paths)
    branch = target.paths.branch
    snapshots, tags = roots.of(RootKind.SNAPSHOT, branch), roots.of(RootKind.TAG, branch)
    if tag is not None:
        candidates = [root for root in tags if root.name == tag]
        what = f"tag {tag!r}"
    elif snapshot is not None:
        candidates = [root for root in (*tags, *snapshots) if root.snapshot.id == snapshot]
        what = f"snapshot {snapshot}"
    elif timestamp_ms is not None:
        candidates = [root for root in snapshots if root.snapshot.time_millis <= timestamp_ms]
        what = f"snapshot at or before {timestamp_ms} ms"
    else:
        marks = [(root, root.snapshot.watermark) for root in snapshots]
        candidates = [
            root for root, mark in marks if mark is not None and _NO_MARK < mark <= (watermark or 0)
        ]
        what = f"snapshot with a watermark up to {watermark}"
    if not candidates:
        ids = f"{snapshots[0].name}-{snapshots[-1].name}" if snapshots else "none"
        names = ", ".join(root.name for root in tags[:20]) or "none"
        raise NotFoundError(f"{target.name} has no {what}; snapshots: {ids}; tags: {names}")
    return candidates[-1]


def collect(target: Target, state: Root) -> RollbackPlan:
    """Return what comes after `state`. Raises InvalidInputError for a tag whose snapshot is not one of the
    history that the table has now.
    """
    roots = read_roots(target.file_io, target.paths)
    if state.kind is RootKind.TAG:
        _check_in_history(target, state, roots.of(RootKind.SNAPSHOT, target.paths.branch))
    newer_roots = _after(target, roots, state.snapshot.id)
    return RollbackPlan(state, newer_roots, roots.without(root.path for root in newer_roots))


def _check_in_history(target: Target, tag: Root, snapshots: Sequence[Root]) -> None:
    """Refuse a tag of a snapshot that a rollback removed: one that `undo` restored, or that was copied.

    Its number may be that of another snapshot by now, which would be the state of the table afterwards; if it
    is higher than all numbers, snapshots would be missing before it.
    """
    number = tag.snapshot.id
    if not snapshots or number < snapshots[0].snapshot.id:
        return
    same = [root for root in snapshots if root.snapshot.id == number]
    if number <= snapshots[-1].snapshot.id and all(
        root.snapshot.state == tag.snapshot.state for root in same
    ):
        return
    raise InvalidInputError(
        f"{target.name}: the tag {tag.name!r} is of a snapshot {number} that a rollback removed; the history "
        f"of the table now has snapshots {snapshots[0].name}-{snapshots[-1].name}, to which it does not "
        f"belong. Commit its rows as a new snapshot instead: rollback-to-as-latest --tag {tag.name}"
    )


def apply_rollback(
    planned: RollbackPlan, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]
) -> SweepResult:
    """Carry it out. Raises CommitConflictError when writers keep committing: stop them first."""
    target, state = sweeper.target, planned.state
    try:
        return _apply(
            planned, sweeper, quarantine=quarantine, parameters=parameters | latest_after(state.snapshot)
        )
    except LakeError:
        # LATEST may name the state, which others would trust although it does not exist
        with suppress(LakeError):
            repair_hints(target.file_io, target.paths)
        raise


def _apply(
    planned: RollbackPlan, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]
) -> SweepResult:
    target, state = sweeper.target, planned.state
    swept = sweeper.sweep(
        "rollback-to",
        planned.removal,
        planned.remaining,
        quarantine=quarantine,
        steps=RootSteps(prepare=lambda: _prepare(target, state)),
        parameters=parameters,
    )
    for _ in range(_TRIES):
        roots = read_roots(target.file_io, target.paths)
        _check_state(target, roots, state)
        late = _after(target, roots, state.snapshot.id)
        if not late:
            repair_hints(target.file_io, target.paths)
            return swept
        more = RollbackPlan(state, late, roots.without(root.path for root in late))
        sweeper.sweep(
            "rollback-to", more.removal, more.remaining, quarantine=quarantine, parameters=parameters
        )
    raise CommitConflictError(
        f"{target.name}: other writers commit while it is rolled back to snapshot "
        f"{state.snapshot.id}; stop its writers and run again"
    )


def _check_state(target: Target, roots: RootSet, state: Root) -> None:
    """Raise UnavailableError if the table does not have the state any more: then the snapshots above its
    number are not those after it, but those of a history that began anew.
    """
    snapshots = roots.of(RootKind.SNAPSHOT, target.paths.branch)
    if any(
        root.snapshot.id == state.snapshot.id and root.snapshot.state == state.snapshot.state
        for root in snapshots
    ):
        return
    raise UnavailableError(
        f"{target.name}: the table was rolled back, created again or changed in another way while it was "
        f"rolled back to snapshot {state.snapshot.id}, which does not exist any more; nothing else was "
        "removed; run again"
    )


def _after(target: Target, roots: RootSet, snapshot_id: int) -> tuple[Root, ...]:
    """Return snapshots from the newest back, then changelogs, then tags."""
    branch = target.paths.branch
    parts: Sequence[tuple[Root, ...]] = [
        roots.of(kind, branch) for kind in (RootKind.SNAPSHOT, RootKind.CHANGELOG, RootKind.TAG)
    ]
    return tuple(root for part in parts for root in reversed(part) if root.snapshot.id > snapshot_id)


def _prepare(target: Target, state: Root) -> None:
    """Write the snapshot again if only its tag kept it; it lacks its changelog, if that was deleted with it.

    LATEST is set back first: others trust it blindly.
    """
    path = target.paths.snapshot(state.snapshot.id)
    if target.file_io.stat(path) is None:
        data = snapshot_of_tag(target, json_object(target.file_io.read(state.path)))
        publish_resolved(target.file_io, path, data, target.clock)
    target.file_io.overwrite(target.paths.latest_hint, str(state.snapshot.id).encode())
