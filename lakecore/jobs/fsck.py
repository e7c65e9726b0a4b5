"""This module has the job that checks one table. It changes nothing in the table; only its holds follow
the findings.
"""

from __future__ import annotations

from typing import Any

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.jobs.definitions.repair import Fsck as Job
from lakecore.jobs.fsck_holds import after_check
from lakecore.jobs.repair.repair_plan import plan_repair
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.chore import DAY_MS
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.holds.user import this_user
from lakecore.maintain.lease.lease import holder
from lakecore.store.paths import MAIN_BRANCH
from lakecore.verify.fsck.check import fsck as check_table
from lakecore.verify.fsck.findings import Finding, FindingKind, FsckReport
from lakecore.verify.fsck.settled import settled, without_orphans

__all__ = ["CheckResult", "Job", "plan", "run"]

_COUNTS = (
    "snapshots",
    "manifests",
    "data_files",
    "files_read",
    "rows_read",
    "moved",
    "young_orphans",
    "young_bytes",
)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """This is the result that a check returns."""

    table: str
    report: FsckReport
    seconds: float
    holds: tuple[str, ...] = ()
    """It is text for users about what happened to the table's holds."""

    def to_json(self) -> dict[str, Any]:
        """Convert the result to plain values, with all findings."""
        counts = {name: getattr(self.report, name) for name in _COUNTS}
        findings = [
            {"kind": one.kind.value, "damage": one.kind.is_damage, "path": one.path, "problem": one.problem}
            for one in self.report.findings
        ]
        fields = {"holds": list(self.holds), "findings": findings}
        return {"table": self.table, "seconds": self.seconds, **counts, **fields}


def run(job: Job, lake: Lake, clock: Clock | None = None) -> CheckResult:
    """Check the table with all its branches, while others may write to it, compact and expire. Raises
    NotFoundError, UnavailableError: storage that does not answer is no finding.
    """
    clock = clock or SystemClock()
    with recorded(lake, job.table, "fsck", clock, enabled=job.holds) as end:
        result = _check(job, lake, clock)
        end.figures = {"findings": len(result.report.findings)}
        return result


def _check(job: Job, lake: Lake, clock: Clock) -> CheckResult:
    started = clock.monotonic()
    store = HoldStore(lake.file_io, lake.warehouse, clock)
    may_hold = grants_of(lake).may_change(job.table)
    before = store.of(job.table) if job.holds and may_hold else ()
    report = _look(job, lake, clock)
    notes: tuple[str, ...] = ()
    if job.holds and report.damage and not may_hold:
        notes = ("the table was not put on hold: that needs the privilege INSERT",)
    elif job.holds and (before or report.damage):
        notes = after_check(store, job, report.damage, before, job.owner or this_user())
    seconds = round(clock.monotonic() - started, 3)
    return CheckResult(table=job.table, report=report, seconds=seconds, holds=notes)


def _look(job: Job, lake: Lake, clock: Clock) -> FsckReport:
    try:
        table = lake.load_table(job.table)
        main = table._stores.paths.with_branch(MAIN_BRANCH)
        older_than = clock.now_ms() - DAY_MS if job.older_than_ms is None else job.older_than_ms

        def check(first: bool) -> FsckReport:
            return check_table(
                table._stores.file_io,
                main,
                now_ms=clock.now_ms(),
                deep=job.deep,
                read_data=job.read_data and first,
                older_than_ms=older_than,
            )

        report = settled(check, clock.sleep)
        if holder(lake.file_io, lake.warehouse, job.table, clock.now_ms()) is not None:
            return without_orphans(report)  # a chore is about to remove them, perhaps
        return report
    except CorruptDataError as err:
        # the table cannot even be opened: that is a finding, not a failure of the check
        return FsckReport(
            findings=(Finding(FindingKind.SCHEMA, err.path, err.problem),),
            snapshots=0,
            manifests=0,
            data_files=0,
            files_read=0,
            rows_read=0,
        )


def plan(
    checked: CheckResult, lake: Lake, clock: Clock | None = None, older_than_ms: int | None = None
) -> dict[str, Any]:
    """Plan the repair of what was found, as `apply-repair-plan` takes it.

    This only reads. It raises the errors of `plan_repair`.
    """
    return plan_repair(checked.table, lake, checked.report, clock, older_than_ms).to_json()
