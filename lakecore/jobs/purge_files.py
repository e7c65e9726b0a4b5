"""This job empties a table and removes its history, as the procedure purge_files of Paimon does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.executor import Executor
from lakecore.jobs.definitions.expiry import PurgeFiles as Job
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
from lakecore.jobs.runner.counts import Counts
from lakecore.maintain.forecast.plan import Work
from lakecore.maintain.orphans.external import external_roots
from lakecore.maintain.partitions.in_step import remove_dropped
from lakecore.maintain.purge_files.apply import (
    PurgePlan,
    apply_purge,
    collect,
    empty_snapshot,
    remove_empty_branches,
)
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["Job", "Report", "run"]

NAME = "purge-files"
_EMPTY = Counts(files=0, bytes=0, rows=0, snapshots=1, sorted_runs=0)
_RESTORE = "undo restores the history, and then rollback-to or rollback-to-as-latest the rows"


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Empty one table, and remove its branches, tags, consumers, changelogs and older snapshots with all
    files that only these needed.

    Raises InvalidInputError for a branch, UnsupportedError for branches of a REST catalog; other errors are
    those of `expire_snapshots.run`.
    """
    kind = ChoreKind(NAME, quarantine=True, by_age=True)
    return run_on_table(kind, job, lake, partial(_purge, job), executor, clock)


def _purge(job: Job, chore: Chore) -> ChoreResult:
    target = chore.target
    _refuse_branches(job, chore)
    older_than = job.older_than_ms
    older_than = target.clock.now_ms() - DAY_MS if older_than is None else older_than
    author = chore.author(job)
    planned = collect(target, chore.sweeper, older_than, empty_snapshot(target, author))
    external = external_roots(target.file_io, target.warehouse, target.paths.table_path, target.schema)
    notes = tuple(f"{root} was not searched for files that nothing refers to" for root in external.own)
    report = _with_plan(replace(chore.report, notes=notes, nothing_to_do=planned.nothing_to_do), planned)
    work = Work(files=len(planned.removal))
    if planned.nothing_to_do and not job.dry_run:
        remove_empty_branches(target)
    if planned.nothing_to_do or job.dry_run:
        return ChoreResult(report, after=lambda _: _EMPTY, work=work)
    applied, swept = apply_purge(
        planned,
        partial(chore.table._committer().commit, ()),
        chore.sweeper,
        author,
        quarantine=chore.quarantine,
        parameters=parameters(job),
    )
    report = _with_plan(report, applied).with_sweep_result(swept)
    notes = (*notes, *remove_dropped(target, None), *((_RESTORE,) if chore.quarantine else ()))
    return ChoreResult(replace(report, notes=notes), work=work)


def _refuse_branches(job: Job, chore: Chore) -> None:
    target = chore.target
    if target.paths.branch != MAIN_BRANCH:
        raise InvalidInputError(
            f"{job.table}: purge-files empties whole tables; name the table without a branch, or delete the "
            "branch (delete-branch)"
        )
    branches = target.branches.list()
    if target.stores.versions is not None and branches:
        raise UnsupportedError(
            f"{job.table} has branches ({', '.join(branches[:3])}), which the server of its REST catalog "
            "manages; delete them first (delete-branch)"
        )


def _with_plan(report: Report, planned: PurgePlan) -> Report:
    return replace(
        report.planned(planned.removal),
        snapshot=planned.empty,
        snapshots=planned.snapshot_ids,
        names=tuple(deletion.path for deletion in planned.removal),
    )
