"""This module has the jobs on the quarantine: restore what a run moved there, and purge it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from lakecore.catalog.privileges.grants import Privilege
from lakecore.clock import Clock, SystemClock
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.fs.confined import with_trusted_roots
from lakecore.jobs.definitions.repair import Purge, Undo
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import UNKNOWN
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.deletion.quarantine import due_for_purge, purge_runs, quarantined_size, undo
from lakecore.maintain.deletion.runs import RunRecord, RunState, RunStore
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.maintain.dropped.store import DroppedTables
from lakecore.maintain.forecast.history import HistoryLine, HistoryStore
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.orphans.external import external_roots
from lakecore.types.counted import counted

__all__ = ["Purge", "Undo", "run", "runs_of"]

_PURGE = "purge-quarantine"


def runs_of(lake: Lake, table: str | None = None) -> tuple[RunRecord, ...]:
    """Return the ledger, oldest first: the runs that removed files, and the last runs of each job that
    removed none. Runs on tables that the user may neither read nor change are left out.
    """
    grants = grants_of(lake)
    removals = RunStore(lake.file_io, lake.warehouse, SystemClock()).list(table)
    lines = HistoryStore(lake.file_io, lake.warehouse).of(table)
    records = (*removals, *(_record(line) for line in lines if line.run is None))
    visible = (record for record in records if grants.may_see(record.table))
    return tuple(sorted(visible, key=lambda record: (record.started_ms, record.id)))


def _record(line: HistoryLine) -> RunRecord:
    """Convert a run that removed nothing to a line of the ledger; such a run cannot be undone."""
    stamp = datetime.fromtimestamp(line.started_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return RunRecord(
        id=f"{stamp}-{line.job}",
        table=line.table,
        job=line.job,
        state=RunState.DONE,
        keeps=False,
        started_ms=line.started_ms,
        estimate=line.estimate,
        outcome={**line.work, **line.outcome},
    )


def _kept_back(runs: RunStore) -> tuple[str, ...]:
    """Return the tables whose files stay in the quarantine because they are on hold."""
    on_hold = {hold.table for hold in HoldStore(runs.file_io, runs.warehouse, runs.clock).all()}
    in_quarantine = {record.table for record in runs.list() if record.state is RunState.QUARANTINED}
    return tuple(
        f"the files of {table} were not removed: the table is on hold"
        for table in sorted(on_hold & in_quarantine)
    )


def run(
    job: Undo | Purge, lake: Lake, executor: Executor | None = None, clock: Clock | None = None
) -> Report:
    """Undo a run or purge the quarantine. Raises NotFoundError for an unknown run, InvalidInputError for one
    that kept nothing, PrivilegeError for a purge by a user without INSERT and DROP_TABLE on the catalog, or
    of one run without INSERT on its table.
    """
    clock = clock or SystemClock()
    runs = RunStore(lake.file_io, lake.warehouse, clock)
    if isinstance(job, Purge):
        with recorded(lake, "", _PURGE, clock, enabled=not job.dry_run) as end:
            end.report = report = _purge(job, lake, runs)
            return report
    record = runs.find(job.run_id)
    work = partial(_undo, job, runs, record)
    kind = ChoreKind("undo", resume=False)
    return run_on_table(kind, replace(job, table=record.table), lake, work, executor, clock)


def _purge(job: Purge, lake: Lake, runs: RunStore) -> Report:
    """Purge what is due, or the run that is named. Raises NotFoundError for an unknown run, InvalidInputError
    for one whose files are not in the quarantine, PrivilegeError.
    """
    grants = grants_of(lake)
    if job.purge_run:
        due = [_find_quarantined(job.purge_run, runs)]
        grants.check_change(due[0][0].table)
    else:
        grants.check(Privilege.INSERT)
        grants.check(Privilege.DROP_TABLE)
        due = due_for_purge(runs, ttl_ms=job.ttl_ms, cap=job.cap)
    purged_runs = due if job.dry_run else purge_runs(runs, due)
    tables = DroppedTables(lake.file_io, lake.warehouse, runs.clock)
    dropped: tuple[DroppedTable, ...] = ()
    if not job.purge_run:
        dropped = tuple(tables.due_for_purge(job.ttl_ms)) if job.dry_run else tables.purge(job.ttl_ms)
    return Report(
        table="",
        job=_PURGE,
        dry_run=job.dry_run,
        names=(*(record.id for record, _ in purged_runs), *(f"{one.table} {one.id}" for one in dropped)),
        bytes=sum(size for _, size in purged_runs),
        notes=_kept_back(runs),
        nothing_to_do=not purged_runs and not dropped,
    )


def _find_quarantined(run_id: str, runs: RunStore) -> tuple[RunRecord, int]:
    record = runs.find(run_id)
    if record.state is not RunState.QUARANTINED:
        raise InvalidInputError(
            f"run {run_id} is {record.state.value}: the quarantine has no files of it to delete"
        )
    return record, quarantined_size(runs, record)


def _undo(job: Undo, runs: RunStore, record: RunRecord, chore: Chore) -> ChoreResult | Report:
    if job.dry_run:
        report = replace(chore.report.planned(runs.removal(record)), run=record.id)
        return ChoreResult(report, after=UNKNOWN.of)  # what comes back may be snapshots
    target = chore.main()
    if job.external:
        roots = external_roots(target.file_io, target.warehouse, target.paths.table_path, target.schema)
        target = target.with_storage(with_trusted_roots(target.file_io, roots.own))
    restored = undo(target, runs, record)
    missing = (f"{counted(restored.missing, 'file')} missing in the quarantine",) if restored.missing else ()
    notes = (*missing, *restored.notes)
    return replace(chore.report, files=restored.files, bytes=restored.size, notes=notes, names=(record.id,))
