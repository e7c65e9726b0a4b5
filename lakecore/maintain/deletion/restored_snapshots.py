"""This module decides whether the roots that a run removed may be restored, after what came since."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lakecore.errors import AlreadyExistsError, NotFoundError
from lakecore.maintain.deletion.root_states import snapshot_place
from lakecore.maintain.deletion.runs import RunRecord
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.paths import MAIN_BRANCH, TablePaths

__all__ = ["check_branches", "check_latest_is_known", "latest_after"]

_AFTER = "latest_after"
_REPAIR_OF_BRANCH = "repair-branch"
"""The job of a repair that sets aside a branch that has no schema."""


def latest_after(snapshot: Snapshot) -> dict[str, Any]:
    """Return the entry of the ledger's parameters that says which snapshot a run leaves as the latest."""
    return {_AFTER: _identity(snapshot)}


def check_branches(target: Target, record: RunRecord, absent: Collection[str]) -> None:
    """Raise NotFoundError if a root is of a branch that was deleted since: without a schema the branch could
    not be read, and it would not be known which files it needs. The deletion of a branch has its schemas; the
    repair that sets a branch aside has none, because the branch had none before.
    """
    if record.job == _REPAIR_OF_BRANCH:
        return
    for name in sorted({target.paths.branch_of(path) for path in absent} - {MAIN_BRANCH}):
        own = target.at_branch(name)
        if own.schemas.list_ids() or any(path.startswith(f"{own.paths.schema_dir}/") for path in absent):
            continue
        raise NotFoundError(
            f"{target.name}: run {record.id} removed files of branch {name}, which was deleted or renamed "
            "since; undo that first (`lakecore runs` lists it), and then this run"
        )


def check_latest_is_known(
    target: Target, record: RunRecord, absent: Collection[str], restored: Collection[str]
) -> None:
    """Raise AlreadyExistsError if a snapshot of the run would become the latest of its branch in place of one
    that the run did not leave: a commit or a rollback since would be taken back without a word.

    `absent` are the paths of the run's roots that are in the quarantine, `restored` those of its other roots:
    an undo that was interrupted has restored some.
    """
    for branch in (MAIN_BRANCH, *target.branches.list()):
        own = target.at_branch(branch)
        latest = own.snapshots.latest()
        if latest is None:
            continue
        above = [path for path in absent if (_number(own.paths, path) or 0) > latest.id]
        if not above or own.paths.snapshot(latest.id) in restored:
            continue
        if not _is_as_left(latest, record):
            raise AlreadyExistsError(
                f"{own.name}: snapshot {latest.id} of branch {branch} is the latest, but the run {record.id} "
                "left another one: there was a commit or a rollback since. With "
                f"{above[0].rpartition('/')[2]} as the latest, it would be taken back, and rows be lost. To "
                "keep the present rows, create a tag, and a branch from it; then go back to the snapshot "
                "that the run had left (undo of the later runs, or rollback-to), and undo again"
            )


def _number(paths: TablePaths, path: str) -> int | None:
    directory, number = snapshot_place(path)
    return number if directory == paths.snapshot_dir and number >= 0 else None


def _is_as_left(latest: Snapshot, record: RunRecord) -> bool:
    """Records of earlier releases do not have the snapshot; there its time must do."""
    recorded = record.parameters.get(_AFTER)
    if recorded is None:
        return latest.time_millis <= record.started_ms
    return bool(recorded == _identity(latest))


def _identity(snapshot: Snapshot) -> list[Any]:
    return [snapshot.id, *snapshot.state]
