"""This module has the request that a policy sends to a chore of a table, and the result that the chore
returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.definitions.table_job import Definition, Safety
    from lakecore.jobs.runner.lake import Lake

__all__ = ["ChoreRequest", "ChoreResult", "PolicyChore"]


@dataclass(frozen=True, kw_only=True)
class ChoreRequest:
    """This is a request to run one chore on one table."""

    table: str
    values: Mapping[str, Any]
    """These are the parameters by the names that operators use, as users write them."""
    commit: Mapping[str, Any] = field(default_factory=dict)
    """These are the fields that name the commits of a chore that is `repeatable`."""
    lake: Lake
    safety: Safety
    executor: Executor
    dry_run: bool = False
    until_ms: int | None = None
    """This is the end of the window, in milliseconds since the epoch. Chores that can stop early do so
    then.
    """
    started_ms: int = 0
    """This is when the run of the policy started, in milliseconds since the epoch."""

    def job_fields(self, definition: type[Definition]) -> dict[str, Any]:
        """Return the fields of a job. Raises InvalidInputError."""
        from lakecore.jobs.definitions.values import fields_of

        values = fields_of(definition, self.values, self.started_ms)
        return values | dict(self.commit) | {"table": self.table, "dry_run": self.dry_run}


@dataclass(frozen=True, kw_only=True)
class ChoreResult:
    """This is the result of one chore."""

    job: str
    report: dict[str, Any]
    """This is a small JSON object."""
    text: str
    """This is a line for the log."""


class PolicyChore(Protocol):
    """This is a chore that a policy may name."""

    definition: ClassVar[type[Definition]]
    """This is the definition of its job, whose parameters a policy may give."""
    repeatable: ClassVar[bool]
    """It tells whether its commits are those of the task run."""

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Run the chore. Raises errors of lakecore."""
        ...

    @classmethod
    def job_of(cls, request: ChoreRequest) -> Definition:
        """Return the job of the chore. Raises InvalidInputError."""
        ...

    @classmethod
    def result_of(cls, request: ChoreRequest, report: Mapping[str, Any]) -> ChoreResult:
        """Return the result of the chore, from the report of its job as JSON. Raises CorruptDataError for a
        check that found damage.
        """
        ...
