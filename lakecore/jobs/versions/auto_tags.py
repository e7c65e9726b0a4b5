"""The job `trigger-tag-automatic-creation`: it makes now the automatic tags that the table's options
ask for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.tags import TriggerTagAutomaticCreation as Job
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.maintain.auto_tags.apply import DueTags, due_tags, expired, make
from lakecore.maintain.auto_tags.plan import CreationMode
from lakecore.maintain.tags import apply

__all__ = ["Job", "run"]

_JOB = "trigger-tag-automatic-creation"
_IDLE = {
    CreationMode.NONE: "option tag.automatic-creation is not set: no tag is created automatically",
    CreationMode.BATCH: (
        "option tag.automatic-creation=batch: only writes create tags (see create-batch-tags)"
    ),
}


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Create and delete automatic tags. `names` of the report are the tags that were created. On a table that
    is on hold no tag is deleted: `held` says so.

    Raises NotFoundError, InvalidOptionError.
    """
    return run_on_table(ChoreKind(_JOB), job, lake, partial(_run, job), executor, clock)


def _run(job: Job, chore: Chore) -> Report:
    due = due_tags(chore.target, job.zone)
    new_names = tuple(tag.name for tag in due.new) if job.dry_run else make(chore.target, due, job.zone)
    surplus = tuple(sorted({*due.surplus, *expired(chore.target, job.zone)}))
    old_names = () if chore.holds else surplus
    report = replace(
        chore.report,
        names=new_names,
        snapshot=due.new[-1].snapshot if due.new else None,
        notes=_notes(due, old_names, "would be removed" if job.dry_run else "were removed"),
        nothing_to_do=not new_names and not old_names,
        on_hold=chore.hold_text() if surplus else "",
    )
    if not old_names:
        return replace(report, quarantined=False)
    planned = apply.deletion(chore.target, chore.sweeper, old_names)
    if job.dry_run:
        return report.planned(planned[0])
    swept = apply.delete(
        _JOB, planned, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
    )
    return report.with_sweep_result(swept)


def _notes(due: DueTags, old_names: tuple[str, ...], verb: str) -> tuple[str, ...]:
    idle = (_IDLE[due.mode],) if due.mode in _IDLE else ()
    return (*idle, f"tags that {verb}: {', '.join(old_names)}") if old_names else idle
