"""The job that expires snapshots of a table, and deletes the files that only they needed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.expiry import ExpireSnapshots as Job
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.counts import Change
from lakecore.jobs.runner.retention import changelogs_live_longer, snapshot_retention
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.expire_snapshots.apply import ExpiryPlan, apply_expiry, collect, settle
from lakecore.maintain.retention_options import CONSUMER_CHANGELOG_ONLY
from lakecore.types.counted import counted

__all__ = ["Job", "Report", "run"]

NAME = "expire-snapshots"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Expire snapshots of one table or branch.

    Raises NotFoundError, InvalidInputError before anything is touched; UnavailableError, CorruptDataError
    when what must stay is not known for certain.
    """
    return run_on_table(ChoreKind(NAME, by_age=True), job, lake, partial(_expire, job), executor, clock)


def _expire(job: Job, chore: Chore) -> ChoreResult:
    target = chore.target
    retention = snapshot_retention(job, target, by_successor=job.by_successor)
    planned = collect(
        target,
        retention,
        decoupled=changelogs_live_longer(retention, target),
        quarantined=quarantined_roots(chore.sweeper.runs, target.name),
        consumers_hold=not CONSUMER_CHANGELOG_ONLY.read(target.schema.options),
    )
    report = _report(chore, planned)
    if not job.dry_run and planned.expiry.ids:
        swept = apply_expiry(planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job))
        report = report.with_sweep_result(swept)
    elif not job.dry_run:
        settle(target)
    return ChoreResult(report, after=Change(snapshots=-len(report.snapshots)).of)


def _report(chore: Chore, planned: ExpiryPlan) -> Report:
    ids = planned.expiry.ids
    notes = (
        [f"the changelogs of {counted(len(planned.changelogs), 'snapshot')} are kept"]
        if planned.changelogs
        else []
    )
    return replace(
        chore.report.planned(planned.removal),
        snapshots=ids,
        blocker=planned.expiry.blocker,
        notes=tuple(notes),
        nothing_to_do=not ids,
    )
