"""This module has the record of one attempt of a job. A record is what somebody wrote: its fields are checked
when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.metadata.json_record import json_object

__all__ = ["DAY_MS", "Attempt", "AttemptState", "settled"]

DAY_MS = 86_400_000
_LATEST_MS = 1 << 53
_LONGEST = 4096


class AttemptState(Enum):
    """This is how an attempt ended."""

    RUNNING = "running"
    """It has begun, and no end is recorded."""
    DONE = "done"
    NOTHING = "nothing"
    """There was nothing to do."""
    LEFT = "left"
    """The window ended, or the budget was used up, before it did anything."""
    FAILED = "failed"
    REFUSED = "refused"
    """The request is wrong, or this release cannot do it."""
    BUSY = "busy"
    """Another chore has the lease of the table."""
    ON_HOLD = "on hold"
    KILLED = "killed"
    """It was interrupted, or its process ended without a word."""


_ENDED_WITH_THE_TABLE = frozenset({AttemptState.DONE})
"""An attempt that ended so had the table for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """This is one attempt of a job on a table. Times are milliseconds since the epoch."""

    id: str
    table: str
    """It is empty for an attempt on the whole lake: a survey, a purge of the quarantine."""
    job: str
    state: AttemptState
    started_ms: int
    finished_ms: int | None = None
    error: str | None = None
    """This is the text of the error, without secrets."""
    error_class: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    """These are the figures of the report: files, bytes, snapshots, and `before` and `after` where the job
    reports them.
    """
    forecast: Mapping[str, Any] = field(default_factory=dict)
    """This is what the work was expected to take, from the runs before it: `seconds`, `seconds_low`,
    `seconds_high`, `memory` in bytes, `based_on`; empty where nothing was done.
    """
    cost: Mapping[str, Any] = field(default_factory=dict)
    """These are `seconds`, `core_seconds`, `cpu_seconds`, `peak_bytes`, and `requests`, `bytes_read` and
    `bytes_written` of storage; None is unknown. Core seconds are those for which the attempt had a core, of
    this process (divided by the attempts that ran in it at once) and of workers.
    """
    origin: Mapping[str, Any] = field(default_factory=dict)
    """This is who began it: `dag`, `run`, `task`, `map_index`, `try`, or `command`; `host`, `user`, `pid`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"state": self.state.value}

    def encoded(self) -> bytes:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Attempt:
        """Parse a record. Fields that this release does not know are ignored. Raises ValueError."""
        try:
            stored = json_object(data)
            raw = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
            attempt = cls(**raw | {"state": AttemptState(raw["state"])})
        except (KeyError, TypeError, RecursionError) as err:
            raise ValueError(f"this is no record of an attempt: {err}") from err
        _check(attempt)
        return attempt


def settled(attempts: Iterable[Attempt], now_ms: int) -> tuple[Attempt, ...]:
    """Return the attempts, the oldest first; those that cannot run any more are `killed`.

    An attempt without an end was killed when a later one of the same job did its work on the table, which
    two never do at once, or when it began more than a day ago. An attempt that takes longer than a day is
    `killed` until its end is recorded. The cost is a sort of the attempts.
    """
    ordered = sorted(attempts, key=lambda one: (one.started_ms, one.id))
    labels: set[tuple[str, str]] = set()
    result: list[Attempt] = []
    for one in reversed(ordered):
        key = (one.table, one.job)
        if one.state is AttemptState.RUNNING:
            if key in labels or now_ms - one.started_ms > DAY_MS:
                one = replace(one, state=AttemptState.KILLED)
        elif one.state in _ENDED_WITH_THE_TABLE:
            labels.add(key)
        result.append(one)
    return tuple(reversed(result))


def _check(one: Attempt) -> None:
    """Raise ValueError for fields of a wrong type, and for texts that nobody wrote for a person."""
    texts = ((one.id, 1), (one.table, 0), (one.job, 1))
    if not all(isinstance(text, str) and least <= len(text) <= _LONGEST for text, least in texts):
        raise ValueError("id, table and job are texts")
    if not all(text is None or isinstance(text, str) for text in (one.error, one.error_class)):
        raise ValueError("error and error_class are texts")
    ends = (one.started_ms, 0 if one.finished_ms is None else one.finished_ms)
    if not all(type(moment) is int and 0 <= moment < _LATEST_MS for moment in ends):
        raise ValueError("started_ms and finished_ms are times")
    if not all(isinstance(part, dict) for part in (one.figures, one.forecast, one.cost, one.origin)):
        raise ValueError("figures, forecast, cost and origin are objects")
    expected = (value for name, value in one.forecast.items() if name != "based_on")
    for value in (*one.cost.values(), *expected):
        good = value is None or (type(value) in (int, float) and math.isfinite(value) and value >= 0)
        if not good:
            raise ValueError(f"{value!r} is no cost, and no forecast of one")
