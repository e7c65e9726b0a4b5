"""Jobs that return to an older state: they remove what came after it, or commit it again as the latest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.errors import CorruptDataError
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import RollbackTo, RollbackToAsLatest
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.counts import Change, Counts, counts_of
from lakecore.jobs.versions.by_server import roll_back
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.rollback.apply import apply_rollback, choose, collect
from lakecore.maintain.rollback.recommit import recommit
from lakecore.maintain.target import Target

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
        kind = ChoreKind("rollback-to-as-latest")
        return run_on_table(kind, job, lake, partial(_again, job), executor, clock)
    kind = ChoreKind("rollback-to", quarantine=True)
    return run_on_table(kind, job, lake, partial(_back, job), executor, clock)


def _back(job: RollbackTo, chore: Chore) -> ChoreResult:
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
        snapshots=tuple(r.snapshot.id for r in planned.removed_roots if r.kind is RootKind.SNAPSHOT)[::-1],
        names=tuple(root.name for root in planned.removed_roots if root.kind is RootKind.TAG),
        nothing_to_do=not planned.removed_roots,
        quarantined=chore.quarantine and bool(planned.removed_roots),
        notes=_consumers_ahead(chore.target, state.snapshot.id),
    )
    versions = chore.target.stores.versions
    if versions is not None:
        report = replace(report, quarantined=False)
        if not job.dry_run and planned.removed_roots:
            report = roll_back(planned, versions, chore, report)
    elif not job.dry_run:
        swept = apply_rollback(
            planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
        )
        report = report.with_sweep_result(swept)
    return ChoreResult(report, after=lambda before: _back_at(chore, state, before))


def _consumers_ahead(target: Target, number: int) -> tuple[str, ...]:
    """Name the consumers that have read snapshots which the rollback removes."""
    try:
        consumers = target.consumers.list()
    except CorruptDataError as err:
        return (f"consumers were not compared with the state: {err}",)
    return tuple(
        f"consumer {one.id} waits for snapshot {one.next_snapshot}: it read rows that are lost, and would "
        f"leave out the commits up to there; set the results of its reader back to snapshot {number}; run "
        f"reset-consumer with --next-snapshot {number + 1}"
        for one in consumers
        if one.next_snapshot > number + 1
    )


def _back_at(chore: Chore, state: Root, before: Counts) -> Counts:
    """Return the state after the rollback; a state that only a tag has becomes a snapshot again."""
    counts = counts_of(chore.target, state.snapshot)
    if before.snapshots is None:
        return replace(counts, snapshots=None)
    staying = {number for number in chore.target.snapshots.list_ids() if number < state.snapshot.id}
    return replace(counts, snapshots=len(staying) + 1)


def _recommit(chore: Chore, state: Root, before: Counts) -> Counts:
    """Return the state as a new snapshot after those of the table."""
    counts = counts_of(chore.target, state.snapshot)
    return replace(counts, snapshots=Change(snapshots=1).of(before).snapshots)


def _again(job: RollbackToAsLatest, chore: Chore) -> ChoreResult:
    state = choose(chore.target, snapshot=job.snapshot, tag=job.tag)
    report = replace(chore.report, notes=(f"to the state of {state}",))
    work = chore.manifest_work(state.snapshot)
    if job.dry_run:
        return ChoreResult(report, after=partial(_recommit, chore, state), work=work)
    result = recommit(chore.target, state, chore.author(job))
    result_report = replace(
        report, snapshot=result.snapshot_id, names=result.tags, nothing_to_do=result.repeated
    )
    return ChoreResult(result_report, work=work)
