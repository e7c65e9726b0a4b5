"""This module orders the tables of a window, and says when each one's turn will be. Pure.

Tables that earlier windows left come first, for each night in a row; then the least healthy. A table whose
writers usually commit in the hours of its turn waits for a quieter hour of the window, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakecore.data_class import dataclass
from lakecore.maintain.survey.plan import SICK_BELOW
from lakecore.maintain.survey.record import State, TableRecord
from lakecore.maintain.survey.store import Survey
from lakecore.maintain.usage import Usage

__all__ = ["Turn", "by_need", "plan_window"]

_HOUR_MS = 3_600_000
_HOURS = 24
_LOOK_S = 1.0
"""A table that needs nothing takes a second or so to look at."""
_UNKNOWN_S = 30.0
_CONFLICT = 1.0
"""With so many commits expected during its work a table is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """This is the turn of one table in a window."""

    table: str
    record: TableRecord | None
    """This is what the survey knows of it; None for a table that it does not have."""
    start_ms: int
    end_ms: int
    """It says when the work will be over, if it takes as long as expected."""
    fits: bool
    """It tells whether the turn ends inside the window."""
    busy: bool
    """It tells whether writers usually commit to the table then; it comes later for that."""

    @property
    def is_due(self) -> bool:
        """Return whether the table needs work, as far as is known; another one only takes a look."""
        return self.record is None or _is_due(self.record)

    @property
    def usage(self) -> Usage:
        """Return what the turn will use, as of one process: bytes that are read to be rewritten, and core
        seconds.
        """
        seconds = (self.end_ms - self.start_ms) / 1000
        if self.record is None or not self.is_due:
            return Usage(core_seconds=seconds)
        figures = self.record.figures
        return Usage(bytes=int(figures.bytes * figures.due_share), core_seconds=seconds)


def by_need(
    names: Iterable[str], survey: Survey | None, start_ms: int = 0, end_ms: int | None = None
) -> list[str]:
    """Return the names in the order of their turns. Without a survey the order is that of the names."""
    if survey is None:
        return sorted(names)
    return [turn.table for turn in plan_window(survey, start_ms, end_ms, names)]


def plan_window(
    survey: Survey, start_ms: int, end_ms: int | None, names: Iterable[str] | None = None
) -> tuple[Turn, ...]:
    """Return the turns of a window, one table after another. `names` None: every table that is due.

    A table that the survey does not have is as one that is just about to be sick. The cost is a sort.
    """
    records = {record.table: record for record in survey.tables}
    chosen = [name for name, record in records.items() if _is_due(record)] if names is None else list(names)
    ordered = sorted(chosen, key=lambda name: _need(name, records.get(name)))
    quiet: list[str] = []
    busy: list[str] = []
    at_ms = start_ms
    for name in ordered:
        seconds = _seconds(records.get(name))
        later = busy if _is_busy(records.get(name), at_ms, seconds, end_ms) else quiet
        later.append(name)
        at_ms += int(seconds * 1000)
    return tuple(_turns([*quiet, *busy], frozenset(busy), records, (start_ms, end_ms)))


def _turns(
    names: Sequence[str],
    busy: frozenset[str],
    records: dict[str, TableRecord],
    window: tuple[int, int | None],
) -> Iterable[Turn]:
    at_ms, end_ms = window
    for name in names:
        over_ms = at_ms + int(_seconds(records.get(name)) * 1000)
        yield Turn(
            table=name,
            record=records.get(name),
            start_ms=at_ms,
            end_ms=over_ms,
            fits=end_ms is None or over_ms <= end_ms,
            busy=name in busy,
        )
        at_ms = over_ms


def _need(name: str, record: TableRecord | None) -> tuple[int, int, str]:
    if record is None:
        return 0, SICK_BELOW, name
    return -record.late.nights, record.score, name


def _is_due(record: TableRecord) -> bool:
    return record.expected_seconds is not None and record.state is not State.VANISHED


def _seconds(record: TableRecord | None) -> float:
    if record is None:
        return _UNKNOWN_S
    return _LOOK_S if record.expected_seconds is None else max(_LOOK_S, record.expected_seconds)


def _is_busy(record: TableRecord | None, at_ms: int, seconds: float, end_ms: int | None) -> bool:
    """Return whether commits are likely during the work, and less than half as many in a later hour of the
    window. Without an end of the window no later hour is better.
    """
    if record is None or len(record.rhythm) != _HOURS or record.expected_seconds is None or end_ms is None:
        return False
    now = record.rhythm[at_ms // _HOUR_MS % _HOURS]
    if now * seconds / 3600 < _CONFLICT:
        return False
    hours = range(at_ms // _HOUR_MS + 1, end_ms // _HOUR_MS + 1)
    return any(record.rhythm[hour % _HOURS] < now / 2 for hour in hours)
