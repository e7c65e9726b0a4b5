"""This module runs one step of a job, by the name of its command, and returns its report as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from lakecore.clock import Clock
from lakecore.errors import InvalidInputError, LakeError, OnHoldError, explain
from lakecore.executor import Executor
from lakecore.jobs.definitions.compaction import Compact, CompactDatabase, RewriteFileIndex
from lakecore.jobs.definitions.expiry import ExpireChangelogs, ExpireSnapshots, RemoveOrphanFiles
from lakecore.jobs.definitions.repair import CompactManifest, Fsck
from lakecore.jobs.definitions.rows import Analyze, ExpirePartitions, Rescale
from lakecore.jobs.definitions.table_job import Definition
from lakecore.jobs.definitions.tags import CreateBatchTags, ExpireTags, TriggerTagAutomaticCreation
from lakecore.jobs.definitions.versions import ExpireConsumers
from lakecore.jobs.remote.record import Step, StepResult, StepState

__all__ = ["RUNNABLE", "Progress", "check_step", "run_step", "step_of"]

Progress = Callable[[Mapping[str, Any]], None]
"""It receives how far a step is, as plain values."""

RUNNABLE: Mapping[str, type[Definition]] = {
    kind.command: kind
    for kind in (
        Analyze,
        Compact,
        CompactDatabase,
        CompactManifest,
        CreateBatchTags,
        ExpireChangelogs,
        ExpireConsumers,
        ExpirePartitions,
        ExpireSnapshots,
        ExpireTags,
        Fsck,
        RemoveOrphanFiles,
        Rescale,
        RewriteFileIndex,
        TriggerTagAutomaticCreation,
    )
}
"""These are the commands that a step may have: those with an engine, and the chores of policies."""
_LONGEST_TEXT = 4000


def step_of(job: Definition) -> Step:
    """Return the step that runs a job. Raises InvalidInputError for a job that is no step."""
    return check_step(Step(command=job.command, request=job.to_json()))


def check_step(step: Step) -> Step:
    """Return the step. Raises InvalidInputError for an unknown command or a request that is none of it."""
    job_of(step)
    return step


def job_of(step: Step) -> Definition:
    """Return the job of a step. Raises InvalidInputError."""
    if step.command not in RUNNABLE:
        names = ", ".join(RUNNABLE)
        raise InvalidInputError(f"{step.command!r} cannot be run from a job file; it runs {names}")
    return RUNNABLE[step.command].from_json(step.request)


def run_step(step: Step, lake: Any, executor: Executor, clock: Clock, tell: Progress) -> StepResult:
    """Run a step. An error of it is its result, whatever it is."""
    try:
        report = _run(job_of(step), lake, executor, clock, tell)
    except Exception as err:  # noqa: BLE001 - the border of a step: the submitter decides what an error means
        text = explain(err) if isinstance(err, LakeError) else f"unexpected {type(err).__name__}: {err}"
        return StepResult(
            command=step.command,
            state=StepState.FAILED,
            error=text[:_LONGEST_TEXT],
            error_class=type(err).__name__,
            automatic_hold=isinstance(err, OnHoldError) and err.automatic,
        )
    return StepResult(command=step.command, state=StepState.DONE, report=report)


def _run(job: Definition, lake: Any, executor: Executor, clock: Clock, tell: Progress) -> Mapping[str, Any]:
    """Run a job by its module. Raises the errors of that module."""
    if isinstance(job, Compact):
        return _compact(job, lake, executor, clock, tell)
    if isinstance(job, CompactDatabase):
        return _compact_database(job, lake, executor, clock, tell)
    module = importlib.import_module(f"lakecore.jobs.{job.module}")
    report = module.run(job, lake, *(() if isinstance(job, Fsck) else (executor,)), clock)
    raw: Mapping[str, Any] = report.to_json()
    return raw


def _with_share(tell: Progress, clock: Clock) -> Callable[[Mapping[str, Any], float], None]:
    """Return a function that tells counts with the share of the work that is done and the seconds since
    now.
    """
    began = clock.monotonic()

    def tell_share(counts: Mapping[str, Any], share: float) -> None:
        seconds = round(clock.monotonic() - began, 1)
        tell({**counts, "share": round(share, 4), "seconds": seconds})

    return tell_share


def _compact(job: Compact, lake: Any, executor: Executor, clock: Clock, tell: Progress) -> Mapping[str, Any]:
    from lakecore.jobs import compact

    tell_share = _with_share(tell, clock)

    def on_progress(one: compact.Progress) -> None:
        tell_share(
            {
                "table": job.table,
                "picks_done": one.picks_done,
                "picks": one.picks,
                "rows_done": one.rows_done,
                "rows": one.rows,
                "rows_proven": one.rows_proven,
            },
            one.share,
        )

    return compact.run(job, lake, executor, clock, on_progress).to_json()


def _compact_database(
    job: CompactDatabase, lake: Any, executor: Executor, clock: Clock, tell: Progress
) -> Mapping[str, Any]:
    from lakecore.jobs import compact, compact_database

    counts = {"tables": 0, "tables_done": 0}
    tell_share = _with_share(tell, clock)

    def tell_counts() -> None:
        tell_share(counts, counts["tables_done"] / counts["tables"] if counts["tables"] else 1.0)

    def on_tables(number: int) -> None:
        counts["tables"] = number
        tell_counts()

    def on_done(_: compact.Report) -> None:
        counts["tables_done"] += 1
        tell_counts()

    callbacks = compact.Callbacks(on_tables=on_tables, on_done=on_done)
    return compact_database.run(job, lake, executor, clock, callbacks).to_json()
