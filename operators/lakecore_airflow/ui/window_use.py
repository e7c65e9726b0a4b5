"""This module reads from the ledger of attempts what a run that is at work has used of its budget so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecore.jobs.attempts import Attempt

__all__ = ["RunUse", "days_of_run", "run_use"]

_JOB = "compact"
_DAY_MS = 86_400_000
_LEAST_DAYS = 2
_MOST_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """This is what a run has used, and the cores that earlier compactions kept busy."""

    bytes: int = 0
    """They are the bytes that its attempts read which have ended."""
    core_seconds: float = 0.0
    """It has also the time so far of attempts that are at work, on as many cores as earlier ones used."""
    ended: frozenset[str] = frozenset()
    """The run has looked at these tables, or left them."""
    running: Mapping[str, float] = field(default_factory=dict)
    """These tables are at work, for so many seconds so far."""
    cores: float = 1.0
    """It is the number of cores that compactions of the last days kept busy, at least one."""
    table_cores: Mapping[str, float] = field(default_factory=dict)

    def cores_of(self, table: str) -> float:
        """Return how many cores a table keeps busy: those of its own compactions, or else those of all."""
        return self.table_cores.get(table, self.cores)


def days_of_run(running_ms: int | None, now_ms: int) -> int:
    """Return how many days of the ledger have the attempts of a run that began at `running_ms`: seven at
    most.
    """
    if running_ms is None:
        return _LEAST_DAYS
    return min(_MOST_DAYS, max(_LEAST_DAYS, (now_ms - running_ms) // _DAY_MS + _LEAST_DAYS))


def run_use(attempts: Iterable[Attempt], dag_id: str, run_id: str | None, now_ms: int) -> RunUse:
    """Return what the attempts of a run have used; `run_id` None: none is at work. Bytes and core seconds are
    those that the run itself counts. The cost is one pass over the attempts.
    """
    chosen = [one for one in attempts if one.job == _JOB]
    cores, table_cores = _cores(chosen)
    if run_id is None:
        return RunUse(cores=cores, table_cores=table_cores)
    own = [one for one in chosen if (one.origin.get("dag"), one.origin.get("run")) == (dag_id, run_id)]
    running = {
        one.table: max(0.0, (now_ms - one.started_ms) / 1000) for one in own if one.state.value == "running"
    }
    size, core_seconds = 0, 0.0
    for one in own:
        size += _number(one.figures.get("bytes_in") or one.figures.get("bytes"))
        core_seconds += one.cost.get("core_seconds") or 0.0
    core_seconds += sum(seconds * table_cores.get(table, cores) for table, seconds in running.items())
    return RunUse(
        bytes=size,
        core_seconds=round(core_seconds, 1),
        ended=frozenset(one.table for one in own if _has_ended(one)) - running.keys(),
        running=running,
        cores=cores,
        table_cores=table_cores,
    )


def _has_ended(one: Attempt) -> bool:
    """Return whether the run does not come back to the table: what failed or was killed is tried again."""
    return one.state.value in ("done", "nothing", "left", "refused", "on hold")


def _cores(attempts: Iterable[Attempt]) -> tuple[float, dict[str, float]]:
    """Return the mean number of cores of all compactions that did something, and of those of each table."""
    sums: dict[str, tuple[float, float]] = {}
    for one in attempts:
        seconds, core_seconds = one.cost.get("seconds"), one.cost.get("core_seconds")
        if one.state.value == "done" and seconds and core_seconds:
            before = sums.get(one.table, (0.0, 0.0))
            sums[one.table] = before[0] + seconds, before[1] + core_seconds
    whole = sum(seconds for seconds, _ in sums.values())
    mean = sum(core_seconds for _, core_seconds in sums.values()) / whole if whole else 1.0
    return max(1.0, mean), {
        table: max(1.0, core_seconds / seconds) for table, (seconds, core_seconds) in sums.items()
    }


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
