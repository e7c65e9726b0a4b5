"""A turn of a table in a policy: what a chore is given, and what it tells afterwards."""

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
    """`given`: parameters by the names of the job, as people write them. `until_ms`: since the epoch; chores
    that can stop in the middle do so then.
    """

    table: str
    given: Mapping[str, Any]
    lake: Lake
    safety: Safety
    executor: Executor
    dry_run: bool = False
    until_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class ChoreResult:
    """`report`: small JSON. `text`: a line for the log."""

    job: str
    report: dict[str, Any]
    text: str


class PolicyChore(Protocol):
    """What a policy may ask for."""

    parameters: ClassVar[Mapping[str, str]]
    """Name to kind, as of `ChoreOperator`."""
    repeatable: ClassVar[bool]

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Do it. Raises errors of lakecore."""
        ...
