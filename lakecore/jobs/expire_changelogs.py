"""This module has the job that expires changelogs which outlived their snapshots."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.expiry import ExpireChangelogs as Job
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.retention import changelog_retention
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.expire_changelogs.apply import apply_expiry, collect, settle

__all__ = ["Job", "Report", "run"]

NAME = "expire-changelogs"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Expire changelogs of one table or branch. It raises the errors of `expire_snapshots.run`."""
    return run_on_table(ChoreKind(NAME, by_age=True), job, lake, partial(_expire, job), executor, clock)


def _expire(job: Job, chore: Chore) -> Report:
    retention = None if job.delete_all else changelog_retention(job, chore.target)
    protected = quarantined_roots(chore.sweeper.runs, chore.target.name)
    planned = collect(chore.target, retention, protected)
    report = replace(
        chore.report.planned(planned.removal),
        snapshots=planned.expiry.ids,
        blocker=planned.expiry.blocker,
        nothing_to_do=not planned.expiry.ids,
    )
    if not job.dry_run and planned.expiry.ids:
        swept = apply_expiry(planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job))
        report = report.with_sweep_result(swept)
    elif not job.dry_run:
        settle(chore.target)
    return report
