"""The job that checks one table; it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakecore.clock import Clock, SystemClock
from lakecore.errors import CorruptDataError
from lakecore.jobs.chore import job_from_json, job_to_json
from lakecore.jobs.lake import Lake
from lakecore.jobs.repair_plan import plan_repair
from lakecore.store.paths import MAIN_BRANCH
from lakecore.verify.findings import Finding, FindingKind, FsckReport
from lakecore.verify.fsck import fsck as check_table

__all__ = ["Checked", "Job", "plan", "run"]

_COUNTS = ("snapshots", "manifests", "data_files", "files_read", "rows_read", "moved")


@dataclass(frozen=True, kw_only=True)
class Job:
    """`deep`: every snapshot on its own, every column decoded. `read_data`: data files are opened."""

    table: str
    deep: bool = False
    read_data: bool = True

    to_json = job_to_json

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Job:
        """Raises InvalidInputError for unknown or missing keys."""
        return job_from_json(cls, raw)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What was found."""

    table: str
    report: FsckReport
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values, all findings."""
        counts = {name: getattr(self.report, name) for name in _COUNTS}
        findings = [
            {"kind": one.kind.value, "damage": one.kind.is_damage, "path": one.path, "problem": one.problem}
            for one in self.report.findings
        ]
        return {"table": self.table, "seconds": self.seconds, **counts, "findings": findings}


def run(job: Job, lake: Lake, clock: Clock | None = None) -> Checked:
    """Check the table with all its branches. Raises NotFoundError, UnavailableError: storage that does not
    answer is no finding.
    """
    clock = clock or SystemClock()
    started = clock.monotonic()
    try:
        table = lake.load_table(job.table)
        main = table.paths.with_branch(MAIN_BRANCH)
        report = check_table(
            table.file_io, main, now_ms=clock.now_ms(), deep=job.deep, read_data=job.read_data
        )
    except CorruptDataError as err:
        # the table cannot even be opened: that is a finding, not a failure of the check
        report = FsckReport(
            findings=(Finding(FindingKind.SCHEMA, err.path, err.problem),),
            snapshots=0,
            manifests=0,
            data_files=0,
            files_read=0,
            rows_read=0,
        )
    return Checked(table=job.table, report=report, seconds=round(clock.monotonic() - started, 3))


def plan(checked: Checked, lake: Lake, clock: Clock | None = None) -> dict[str, Any]:
    """What could be done about it, as `repair` takes it. Reads only. Errors as `plan_repair`."""
    return plan_repair(checked.table, lake, checked.report, clock).to_json()
