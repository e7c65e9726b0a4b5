"""This module has the job that changes the number of buckets of partitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from lakecore.clock import Clock
from lakecore.compact.engine.request import RunName
from lakecore.compact.kinds.rescale.apply import COMMIT_PICKS, RescaleOutcome, RescaleRequest, RescaleRun
from lakecore.executor import Executor
from lakecore.jobs.compact.scope import partitions_of
from lakecore.jobs.definitions.rows import Rescale as Job
from lakecore.jobs.engines.forecast_choice import choose_engine
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    ChoreResult,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.counts import UNKNOWN
from lakecore.jobs.runner.lake import rewrite_target
from lakecore.maintain.deletion.runs import Removal, RunState
from lakecore.maintain.forecast.plan import Work

__all__ = ["Job", "run"]


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Rescale the partitions. Raises NotFoundError, InvalidInputError, UnsupportedError before anything is
    touched. When units of a partition fail, the others are committed first; then the first failure is raised.
    """
    return run_on_table(ChoreKind("rescale", units=True), job, lake, partial(_rescale, job), executor, clock)


def _rescale(job: Job, chore: Chore) -> ChoreResult:
    table, clock = chore.table, chore.target.clock
    target = rewrite_target(table, clock)
    request = RescaleRequest(
        run=RunName(
            commit_user=job.commit_user or f"lakecore-rescale-{clock.fresh_id()}",
            identifier=job.commit_identifier,
            until_ms=job.until_ms,
            repeatable=bool(job.commit_user),
        ),
        buckets=job.bucket_num,
        where=partitions_of(table, job.where),
    )
    work = RescaleRun(target, request, chore.sweeper.alive)
    picks = work.plan()
    files = [file for pick in picks for file in pick.all_files]
    size = sum(file.file_size for file in files)
    report = replace(chore.report, names=work.names(), nothing_to_do=not picks)
    notes = _advice(job, chore, work.count)
    same = None if any(pick.deletions for pick in picks) else 0  # deleted rows are not moved
    commits = -(-len(picks) // COMMIT_PICKS)
    if job.dry_run or not picks:
        after = replace(UNKNOWN, rows=same, snapshots=commits).of
        return ChoreResult(replace(report, files=len(files), bytes=size, notes=notes), after=after)
    amount = Work(files=len(files), bytes=size, rows=sum(file.row_count for file in files))
    notes = (*choose_engine(chore.sweeper.executor, chore.target, "rescale", amount), *notes)
    runs = chore.sweeper.runs
    record = runs.begin(
        chore.target.name,
        "rescale",
        Removal(),
        parameters=parameters(job),
        estimate={"partitions": len(picks), "files": len(files), "bytes": size},
    )
    try:
        work.run(chore.sweeper.executor)
    finally:
        runs.finish(record, RunState.DONE, _figures(work.outcome))
    return ChoreResult(_with_outcome(replace(report, run=record.id), work.outcome, notes))


def _with_outcome(report: Report, outcome: RescaleOutcome, notes: tuple[str, ...]) -> Report:
    proof = "; ".join(dict.fromkeys(str(proof) for proof in outcome.proofs[:1]))
    moved = f"{outcome.rows} rows of {outcome.files_in} files are now in {outcome.files_out} files"
    proven = f"one of the proofs is: {proof}" if proof else ""
    notes_of_run = (note for note in (moved, proven, outcome.decoded) if note)
    dropped = (
        f"partition {name} was not rescaled, because other jobs kept writing to it; stop them and run again"
        for name in outcome.dropped
    )
    rest = (
        f"partition {name} was not rescaled, because the job's time was over; run again"
        for name in outcome.remaining
    )
    return replace(
        report,
        files=outcome.files_in,
        bytes=outcome.bytes_in,
        snapshot=outcome.snapshots[-1] if outcome.snapshots else None,
        blocker=", ".join(outcome.dropped),
        notes=(*notes_of_run, *dropped, *rest, *notes),
    )


def _figures(outcome: RescaleOutcome) -> dict[str, Any]:
    """Return the figures for the ledger."""
    return {
        "files": outcome.files_in,
        "bytes": outcome.bytes_in,
        "files_out": outcome.files_out,
        "rows": outcome.rows,
        "snapshots": list(outcome.snapshots),
        "partitions": list(outcome.partitions),
        "dropped": list(outcome.dropped),
        "left": list(outcome.remaining),
    }


def _advice(job: Job, chore: Chore, count: int) -> tuple[str, ...]:
    """Return what writers need to continue."""
    option = chore.table.options.bucket
    if option in (count, -2):
        return ()
    return (
        f"option bucket is {option}. Until it is set, writers refuse partitions with {count} buckets; those "
        "of Java refuse only buckets with files, and otherwise write keys into wrong buckets. Before they "
        "start: "
        f"lakecore alter {job.table} --set bucket={count}",
    )
