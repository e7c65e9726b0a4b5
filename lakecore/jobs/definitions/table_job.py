"""This module has the fields that all jobs on tables share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.json_form import from_json, to_json
from lakecore.jobs.definitions.parameter import Kind, Parameter

__all__ = [
    "DAY_MS",
    "CommittingJob",
    "Definition",
    "DryRun",
    "EndTime",
    "LeaseTime",
    "Safety",
    "TableJob",
    "TableOptions",
    "TablePatterns",
    "WaitTime",
]

DAY_MS = 86_400_000

TableOptions = Annotated[
    Mapping[str, str], Parameter("Set an option of the table for this run: key=value.", flags=("--option",))
]
DryRun = Annotated[bool, Parameter("Report what would happen, without any change.")]
EndTime = Annotated[
    int | None,
    Parameter(
        "Stop then (HH:MM or ISO date and time, UTC), commit what is proven, report the rest.", Kind.END
    ),
]
LeaseTime = Annotated[
    int,
    Parameter(
        "The table's lease outlives this process for so long if its end cannot be observed; 0 means none.",
        Kind.DURATION,
        default_text="60 s",
        on_operator=False,
    ),
]
WaitTime = Annotated[
    int,
    Parameter(
        "Wait so long for a table that another chore has leased: '10 min'.", Kind.DURATION, default_text="0 s"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """These are the safety settings of a job."""

    quarantine: Annotated[
        bool | None,
        Parameter(
            "Move files to the quarantine, from which `undo` restores them; or delete them immediately.",
            flags=("--quarantine/--no-quarantine",),
        ),
    ] = None
    """None takes the job's default."""
    quarantine_ttl_ms: Annotated[
        int,
        Parameter(
            "Keep a run in the quarantine for so long.", Kind.DURATION, default_text="7 d", on_operator=False
        ),
    ] = 7 * DAY_MS
    quarantine_cap: Annotated[
        int | None,
        Parameter(
            "Keep so many bytes in the quarantine, and delete the oldest runs beyond; 'none' means no limit.",
            Kind.SIZE,
            default_text="100 gb",
            on_operator=False,
        ),
    ] = 100 << 30
    purges: bool = True
    """True: the quarantine is purged at the end of this job."""
    lease_ms: LeaseTime = 60_000
    wait_ms: WaitTime = 0
    owner: str = ""
    """The owner of the lease; the same owner takes its own lease over at once."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The base of all jobs: they have a form in JSON, and say which module runs them."""

    command: ClassVar[str] = ""
    """This is the name of the command and of the job in reports."""
    module: ClassVar[str] = ""
    """This is the module of `lakecore.jobs` whose `run` takes the job."""
    names_run: ClassVar[bool] = True
    """True: the command takes the name of the run, where the job has `commit_user`."""
    names_user: ClassVar[bool] = False
    """True: the command chooses a fresh user, by which files of a killed run are known."""

    def to_json(self) -> dict[str, Any]:
        """Convert the job to plain values."""
        return to_json(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse a job. Raises InvalidInputError for unknown or missing keys and wrong values."""
        return from_json(cls, raw)


@dataclass(frozen=True, kw_only=True)
class TableJob(Definition):
    """This is a chore on one table."""

    leased: ClassVar[bool] = True
    """True: the job takes the table's lease."""
    removes: ClassVar[bool] = False
    """True: the job removes files, so its command offers the quarantine."""

    table: str
    options: TableOptions = field(default_factory=dict)
    """These are the table options for this run only."""
    dry_run: DryRun = False
    safety: Safety = field(default_factory=Safety)


@dataclass(frozen=True, kw_only=True)
class CommittingJob(TableJob):
    """A chore whose run has a name, (`commit_user`, `commit_identifier`): a run that has committed is not
    repeated. An empty user means a fresh one.
    """

    commit_user: str = ""
    commit_identifier: int = 1


@dataclass(frozen=True, kw_only=True)
class TablePatterns(Definition):
    """The tables of this job are those that match regular expressions."""

    including_databases: Annotated[
        str, Parameter("Select only databases whose whole name matches this regular expression.")
    ] = ".*"
    including_tables: Annotated[
        str, Parameter("Select only tables whose database.table matches this regular expression.")
    ] = ".*"
    excluding_tables: Annotated[
        str | None, Parameter("Exclude tables whose database.table matches this regular expression.")
    ] = None
