"""The request that a policy sends to a chore of a table, and the result that the chore returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.runner.chore import Lake, Safety

__all__ = ["ChoreRequest", "ChoreResult", "PolicyChore"]


@dataclass(frozen=True, kw_only=True)
class ChoreRequest:
    """A request to run one chore on one table."""

    table: str
    given: Mapping[str, Any]
    """The parameters by the names of the job, as users write them."""
    lake: Lake
    safety: Safety
    executor: Executor
    dry_run: bool = False
    until_ms: int | None = None
    """The end of the window, in milliseconds since the epoch. Chores that can stop early do so then."""


@dataclass(frozen=True, kw_only=True)
class ChoreResult:
    """The result of one chore."""

    job: str
    report: dict[str, Any]
    """A small JSON object."""
    text: str
    """A line for the log."""


class PolicyChore(Protocol):
    """A chore that a policy may name."""

    parameters: ClassVar[Mapping[str, str]]
    """The kind of each parameter by its name, as in `ChoreOperator`."""
    repeatable: ClassVar[bool]

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Run the chore. Raises errors of lakecore."""
        ...
