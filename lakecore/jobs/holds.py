"""This module has jobs on holds for persons: put a table on hold, release it, list the tables on hold."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from lakecore.clock import Clock, SystemClock
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError, printable
from lakecore.executor import Executor
from lakecore.jobs.definitions.repair import HoldTable, ReleaseTable
from lakecore.jobs.runner.chore import Lake, Report
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.deletion.runs import Removal, RunRecord, RunState, RunStore
from lakecore.maintain.holds.record import EndsWith, Hold
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.holds.user import this_user
from lakecore.maintain.table_key import table_key

__all__ = ["HoldTable", "ReleaseTable", "holds_of", "recorded", "run"]


def run(
    job: HoldTable | ReleaseTable, lake: Lake, executor: Executor | None = None, clock: Clock | None = None
) -> Report:
    """Place or end holds. This works without the table's lease, and on a table that cannot be opened: a hold
    must always be possible.

    Raises InvalidInputError for an empty reason, NotFoundError for a table that does not exist, and
    PrivilegeError for a user who may not change it.
    """
    grants_of(lake).check_change(job.table)
    clock = clock or SystemClock()
    store = HoldStore(lake.file_io, lake.warehouse, clock)
    if isinstance(job, ReleaseTable):
        return _release(job, lake, store)
    return _hold(job, lake, store)


def holds_of(
    lake: Lake, pattern: str = "*", *, table: str | None = None, clock: Clock | None = None
) -> tuple[Hold, ...]:
    """Return the holds of one table, or of those whose names match a glob, by table. Cost: a listing a table
    that ever had one, and a small read a hold.
    """
    store, grants = HoldStore(lake.file_io, lake.warehouse, clock or SystemClock()), grants_of(lake)
    holds = store.all() if table is None else store.of(table)
    return tuple(
        hold
        for hold in holds
        if grants.may_see(hold.table) and (table is not None or fnmatchcase(hold.table, pattern))
    )


def recorded(store: HoldStore, table: str, job: str, parameters: Mapping[str, Any]) -> RunRecord:
    """Add a line to the ledger, which `RunStore.finish` completes."""
    runs = RunStore(store.file_io, store.warehouse, store.clock)
    return runs.begin(table, job, Removal(), parameters=parameters)


def _hold(job: HoldTable, lake: Lake, store: HoldStore) -> Report:
    if not job.reason.strip():
        raise InvalidInputError(f"{job.table}: a hold needs a reason, which others will read")
    _check_exists(job.table, lake)
    report = Report(table=job.table, job="hold", dry_run=job.dry_run, names=(table_key(job.table),))
    if job.dry_run:
        return report
    hold = Hold(
        id="",
        table=table_key(job.table),
        ends_with=EndsWith.PERSON,
        reason=job.reason,
        since_ms=store.clock.now_ms(),
        job="hold",
        by=_by(job),
    )
    store.place(hold)
    record = recorded(store, job.table, "hold", {"user": _by(job), "reason": job.reason})
    RunStore(store.file_io, store.warehouse, store.clock).finish(record, RunState.DONE)
    return replace(
        report,
        run=record.id,
        notes=(f"nothing is removed from the table until the hold is released: {hold}",),
    )


def _release(job: ReleaseTable, lake: Lake, store: HoldStore) -> Report:
    holds = store.of(job.table)
    if not holds:
        _check_exists(job.table, lake)
    notes = tuple(f"{'would end' if job.dry_run else 'ended'}: {hold}" for hold in holds)
    report = Report(table=job.table, job="release", dry_run=job.dry_run, notes=notes)
    if job.dry_run or not holds:
        return replace(report, nothing_to_do=not holds)
    with suppress(NotFoundError):  # holds of a table that was dropped end, too
        _check_exists(job.table, lake)
    ended = [hold.to_json() for hold in holds]
    record = recorded(store, job.table, "release", {"user": _by(job), "holds": ended})
    store.end(holds)
    RunStore(store.file_io, store.warehouse, store.clock).finish(record, RunState.DONE, {"ended": len(holds)})
    return replace(report, run=record.id, names=tuple(printable(hold.id) for hold in holds))


def _by(job: HoldTable | ReleaseTable) -> str:
    """Return the person that the hold and the ledger record."""
    return job.user or job.safety.owner or this_user()


def _check_exists(table: str, lake: Lake) -> None:
    """Raise NotFoundError, InvalidInputError unless the table exists. A table that is too damaged to be
    opened exists.
    """
    try:
        lake.load_table(table)
    except (CorruptDataError, UnsupportedError):
        return
    except NotFoundError as err:
        raise NotFoundError(f"{table} is not on hold and cannot be: {err}") from err
