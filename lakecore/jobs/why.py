"""This module has the job that explains what retains a file or a snapshot, or blocks expiry."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs import expire_snapshots
from lakecore.jobs.definitions.repair import Why as Job
from lakecore.jobs.runner.chore import Chore, ChoreKind, Lake, Report, run_on_table
from lakecore.maintain.holds.gate import how_it_ends
from lakecore.maintain.why import expiry_blockers, holders_of_file, holders_of_snapshot
from lakecore.metadata.json_record import whole_number
from lakecore.types.counted import counted

__all__ = ["Job", "Report", "run"]


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Answer the question: `names` of the report are the holders. Nothing is changed."""
    looking = replace(job, dry_run=True)
    answer = partial(_answer, job, lake)
    return run_on_table(ChoreKind("why"), looking, lake, answer, executor, clock)


def _answer(job: Job, lake: Lake, chore: Chore) -> Report:
    report, target = replace(chore.report, dry_run=False), chore.target
    if chore.holds:
        report = replace(report, blocker=how_it_ends(job.table, chore.holds))
    if job.subject is None:
        expiry = expire_snapshots.run(
            expire_snapshots.Job(table=job.table, options=job.options, dry_run=True),
            lake,
            clock=chore.target.clock,
        )
        note = (
            f"expire-snapshots would now remove {counted(len(expiry.snapshots), 'snapshot')} "
            f"and {counted(expiry.files, 'file')}"
        )
        names = (*(f"the table is on hold: {hold}" for hold in chore.holds), *expiry_blockers(target))
        blocker = report.blocker or expiry.blocker
        return replace(report, blocker=blocker, names=names, notes=(note,))
    if whole_number(job.subject) is not None:
        holders = holders_of_snapshot(target, int(job.subject))
        what = f"snapshot {job.subject}"
    else:
        holders = holders_of_file(chore.main(), chore.sweeper.runs, job.subject)
        what = job.subject
    text = (
        f"{what} is kept for these reasons"
        if holders
        else (
            f"{what} is not needed: no snapshot, tag, branch or consumer keeps it; it was "
            "removed, is an orphan file, or never existed"
        )
    )
    return replace(report, names=tuple(holders), notes=(text,), nothing_to_do=not holders)
