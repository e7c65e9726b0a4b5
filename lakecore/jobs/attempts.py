"""This module lists the attempts of jobs, from the ledger of a warehouse."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, printable
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.attempts.record import DAY_MS, Attempt, AttemptState
from lakecore.maintain.attempts.store import Attempts, AttemptStore

__all__ = [
    "DEFAULT_DAYS",
    "FAILURES",
    "Attempt",
    "AttemptFilter",
    "AttemptState",
    "Attempts",
    "attempts_of",
    "newest_by_table",
    "started_by",
]

DEFAULT_DAYS = 7
FAILURES = frozenset({AttemptState.FAILED, AttemptState.REFUSED, AttemptState.KILLED})
"""These ends need a person; a table that is busy or on hold does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """These are the wanted attempts; an empty text is no condition. `since_ms` None means 7 days ago."""

    table: str = ""
    """This is a name or a pattern of tables, `db.*`."""
    job: str = ""
    state: str = ""
    since_ms: int | None = None

    def __post_init__(self) -> None:
        states = [state.value for state in AttemptState]
        if self.state and self.state not in states:
            raise InvalidInputError(f"state {self.state!r} is unknown; use one of {', '.join(states)}")

    def selects(self, one: Attempt) -> bool:
        """Return whether an attempt fulfils the conditions except for the time."""
        return (
            (not self.table or fnmatchcase(one.table, self.table))
            and self.job in ("", one.job)
            and self.state in ("", one.state.value)
        )


def attempts_of(lake: Lake, attempt_filter: AttemptFilter, clock: Clock | None = None) -> Attempts:
    """Return the attempts of a warehouse that are wanted, the oldest first. For its cost see
    `lakecore.maintain.attempts.store`. Raises UnavailableError.
    """
    now_ms = (clock or SystemClock()).now_ms()
    since_ms = now_ms - DEFAULT_DAYS * DAY_MS if attempt_filter.since_ms is None else attempt_filter.since_ms
    attempts, grants = AttemptStore(lake.file_io, lake.warehouse).read(since_ms, now_ms), grants_of(lake)
    visible = (one for one in attempts.attempts if attempt_filter.selects(one) and grants.may_see(one.table))
    return Attempts(tuple(visible), attempts.damaged)


def newest_by_table(attempts: Iterable[Attempt]) -> dict[str, dict[str, Attempt]]:
    """Return the newest attempt of each job by table, of attempts that are the oldest first."""
    newest: dict[str, dict[str, Attempt]] = {}
    for one in attempts:
        newest.setdefault(one.table, {})[one.job] = one
    return newest


def started_by(one: Attempt) -> str:
    """Return who began an attempt, in a word: a DAG, a command or a user. The text is what somebody wrote."""
    origin = one.origin
    return printable(str(origin.get("dag") or origin.get("command") or origin.get("user") or ""), 80)
