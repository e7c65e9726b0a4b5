"""Jobs that return to an older state: they remove what came after it, or commit it again as the latest."""

from __future__ import annotations

from dataclasses import replace

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import RollbackTo, RollbackToAsLatest
from lakecore.jobs.runner.chore import (
    Chore,
    Lake,
    Report,
    begin,
    parameters,
)
from lakecore.jobs.runner.counts import Change, Counts, counts_of
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.rollback.apply import apply_rollback, choose, collect
from lakecore.maintain.rollback.recommit import recommit

__all__ = ["RollbackTo", "RollbackToAsLatest", "run"]


def run(
    job: RollbackTo | RollbackToAsLatest,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Roll the table back. Raises NotFoundError, InvalidInputError before anything is touched;
    CommitConflictError, while others write.
    """
    if isinstance(job, RollbackToAsLatest):
        return _again(job, lake, executor, clock)
    with begin("rollback-to", job, lake, quarantine=True, executor=executor, clock=clock) as chore:
        state = choose(
            chore.target,
            snapshot=job.snapshot,
            tag=job.tag,
            timestamp_ms=job.timestamp_ms,
            watermark=job.watermark,
        )
        planned = collect(chore.target, state)
        report = replace(
            chore.report.planned(planned.removal),
            snapshot=state.snapshot.id,
            snapshots=tuple(r.snapshot.id for r in planned.gone if r.kind is RootKind.SNAPSHOT)[::-1],
            names=tuple(root.name for root in planned.gone if root.kind is RootKind.TAG),
            nothing_to_do=not planned.gone,
            quarantined=chore.quarantine and bool(planned.gone),
        )
        chore.after = lambda before: _back_at(chore, state, before)
        if not job.dry_run:
            swept = apply_rollback(
                planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
            )
            report = report.swept(swept)
        return chore.timed(report)


def _back_at(chore: Chore, state: Root, before: Counts) -> Counts:
    """Return the state after the rollback; a state that only a tag has becomes a snapshot again."""
    found = counts_of(chore.target, state.snapshot)
    if before.snapshots is None:
        return replace(found, snapshots=None)
    kept = {number for number in chore.target.snapshots.list_ids() if number < state.snapshot.id}
    return replace(found, snapshots=len(kept) + 1)


def _again(job: RollbackToAsLatest, lake: Lake, executor: Executor | None, clock: Clock | None) -> Report:
    with begin("rollback-to-as-latest", job, lake, quarantine=False, executor=executor, clock=clock) as chore:
        state = choose(chore.target, snapshot=job.snapshot, tag=job.tag)
        report = replace(chore.report, notes=(f"to the state of {state}",))
        chore.estimate_manifest_work(state.snapshot)
        chore.after = lambda before: replace(
            counts_of(chore.target, state.snapshot), snapshots=Change(snapshots=1).of(before).snapshots
        )
        if job.dry_run:
            return chore.timed(report)
        done = recommit(chore.target, state, chore.author(job))
        found = replace(report, snapshot=done.snapshot_id, names=done.tags, nothing_to_do=done.repeated)
        return chore.timed(found)
