"""The job that removes files nothing refers to; by default it moves them to the quarantine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.fs.confined import with_trusted_roots
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles as Job
from lakecore.jobs.runner.chore import (
    DAY_MS,
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.forecast.plan import Work
from lakecore.maintain.orphans.apply import apply_removal, collect
from lakecore.maintain.orphans.external import ExternalRoots, external_roots
from lakecore.maintain.orphans.plan import OrphanLimits

__all__ = ["Job", "Report", "run"]

NAME = "remove-orphan-files"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Remove orphans of one table, with all its branches.

    Raises UnsupportedError when a limit is exceeded; other errors are those of `expire_snapshots.run`.
    """
    kind = ChoreKind(NAME, quarantine=True, by_age=True)
    return run_on_table(kind, job, lake, partial(_remove, job), executor, clock)


def _remove(job: Job, chore: Chore) -> ChoreResult:
    target = chore.main()
    older_than = job.older_than_ms
    limits = OrphanLimits(
        older_than_ms=target.clock.now_ms() - DAY_MS if older_than is None else older_than,
        max_share=job.max_share,
        few=job.few,
        allow_empty=job.allow_empty,
    )
    external = external_roots(target.file_io, target.warehouse, target.paths.table_path, target.schema)
    roots = external.own if job.external else ()
    target = target.with_storage(with_trusted_roots(target.file_io, roots))
    protected = quarantined_roots(chore.sweeper.runs, target.name)
    planned = collect(target, limits, protected, roots, chore.sweeper.executor)
    removal = planned.removal
    report = replace(
        chore.report.planned(removal),
        names=tuple(deletion.path for deletion in removal.files),
        notes=(f"{planned.counts.files} files were checked", *_about(external, job)),
        nothing_to_do=not removal.files,
    )
    work = Work(files=len(removal), bytes=removal.size, entries=planned.counts.files)
    if removal.files and not job.dry_run:
        sweeper = replace(chore.sweeper, target=target)
        swept = apply_removal(planned, sweeper, quarantine=chore.quarantine, parameters=parameters(job))
        report = report.with_sweep_result(swept)
    return ChoreResult(report, work=work)


def _about(external: ExternalRoots, job: Job) -> tuple[str, ...]:
    """Return which directories were skipped, and why."""
    own = () if job.external else external.own
    return (*external.skipped, *(f"{root} was not checked: use --external to check it" for root in own))
