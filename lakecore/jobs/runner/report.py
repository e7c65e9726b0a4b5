"""This module has the reports of jobs: what all of them have in common, and the report of a chore."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from enum import Enum
from typing import Any, Generic, Self, TypeVar

from lakecore.data_class import dataclass
from lakecore.display import facts_of, html_table, one_line
from lakecore.errors import LakeError, explain
from lakecore.jobs.runner.counts import Counts
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import SweepResult
from lakecore.maintain.forecast.plan import Forecast

__all__ = ["JobReport", "JobResult", "Report"]


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """This is the result of a job on one table. Derived reports add the figures of their job."""

    table: str
    dry_run: bool = False
    seconds: float = 0.0
    snapshot: int | None = None
    """The last snapshot that the job committed or chose."""
    snapshots: tuple[int, ...] = ()
    """These are the ids of the snapshots that the job committed or expired."""
    forecast: Forecast | None = None
    """This is what the run takes; only a dry run has it."""
    nothing_to_do: bool = False
    error: str | None = None
    error_class: str | None = None
    """This is the type of `error`, one of `lakecore.errors`."""

    def __repr__(self) -> str:
        """Return on one line what differs from an empty report; a collection is shown by its length."""
        return one_line(type(self).__name__, self.table, self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table(type(self).__name__, self.table, self._facts())

    def _facts(self) -> dict[str, object]:
        """Return what a reader sees: what the job adds, then what all reports have."""
        common = tuple(one.name for one in fields(JobReport))
        own = facts_of(self, without=common)
        return own | facts_of(self, without=("table",))

    def failed(self, error: BaseException | None) -> Self:
        """Return the report with the error that ended the job early, if there was one."""
        if error is None:
            return self
        if isinstance(error, LakeError):
            text = explain(error)
        else:
            kind = type(error).__name__
            text = f"unexpected {kind}: {error} (--verbose shows where; please report it)"
        return replace(self, error=text, error_class=type(error).__name__)

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain values."""
        plain = {name: _plain(value) for name, value in asdict(self).items()}
        return plain | {"forecast": self.forecast and self.forecast.to_json()}


def _plain(value: object) -> object:
    """Convert a value to what JSON has: tuples become lists, members of enums their values."""
    if isinstance(value, tuple):
        return list(value)
    return value.value if isinstance(value, Enum) else value


R = TypeVar("R", bound=JobReport)


@dataclass(frozen=True, slots=True)
class JobResult(Generic[R]):
    """The report of a job, and the error that ended it early if there was one: what was committed before the
    error is in the report.
    """

    report: R
    error: LakeError | None = None

    def or_raise(self) -> R:
        """Return the report. Raises the error."""
        if self.error is not None:
            raise self.error
        return self.report


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(JobReport):
    """The result of a maintenance job, or for `dry_run` what it would do."""

    job: str
    run: str | None = None
    """This is the run's id, for `undo`."""
    quarantined: bool = False
    """It tells whether the files were moved to the quarantine."""
    files: int = 0
    """This is the number of files that were removed or moved to the quarantine, snapshots and tags
    included.
    """
    bytes: int = 0
    """This is their size, as far as it is recorded."""
    spared: int = 0
    """This is the number of planned files that became referenced again before their removal."""
    names: tuple[str, ...] = ()
    """These are the tags, branches, partitions, consumers or files that the report is about."""
    blocker: str = ""
    """It says why the job cannot do more."""
    notes: tuple[str, ...] = ()
    """These are the notes for users, for example that another writer replaced the snapshot of the job, and
    that the job committed it again.
    """
    resumed: int = 0
    """These are the interrupted runs that were finished first."""
    estimated_seconds: float | None = None
    """This is the estimated time; only a dry run has it."""
    before: Counts | None = None
    """This is what the table has; only a dry run reports it."""
    after: Counts | None = None
    """This is what the table would have; only a dry run reports it."""
    skipped: str = ""
    """It says why nothing was done, where that is no error."""
    on_hold: str = ""
    """It says why nothing was removed: the table is on hold."""

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain values. `held` is the earlier key of `on_hold`, for one release."""
        return super().to_json() | {"held": self.on_hold}

    def planned(self, removal: Removal) -> Report:
        """Return the report with the figures of what would be removed."""
        return replace(self, files=len(removal), bytes=removal.size)

    def with_sweep_result(self, swept: SweepResult) -> Report:
        """Return the report with the figures of what was removed."""
        files = swept.roots + swept.files
        return replace(self, run=swept.run, files=files, bytes=swept.size, spared=len(swept.still_referenced))
