"""This module adds up how far a run is: from the commits of its picks, and from what its units tell while
they run, wherever that is.

Every attempt at a unit begins to count anew, and a message may be lost: of each unit the largest number
counts, so that progress never goes back and is complete only when all units have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from lakecore.data_class import dataclass
from lakecore.executor import UnitListener, UnitWork, unit_key

__all__ = ["PlannedPick", "PlannedUnit", "Progress", "RunProgress"]

_PROOF_WEIGHT = 0.5
"""To prove a row takes about so much of the time to read, merge and write it."""
_READINGS = 2
"""A proof reads a row of the inputs, and again in the outputs."""


class PlannedUnit(Protocol):
    """It is a unit of a pick."""

    @property
    def name(self) -> str:
        """Return the name, which is unique within a run."""
        ...

    @property
    def rows(self) -> int:
        """Return how many rows the unit is expected to read."""
        ...


class PlannedPick(Protocol):
    """It is what a run does to a bucket."""

    @property
    def rows(self) -> int:
        """Return how many rows its units read."""
        ...

    @property
    def units(self) -> Sequence[PlannedUnit]:
        """Return the units, which share its rows."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """It says how far a run is: picks, and input rows, of those planned so far."""

    picks_done: int
    """So many picks are committed, or were dropped."""
    picks: int
    rows_done: int
    """So many input rows were read, also of picks that are not committed yet."""
    rows: int
    rows_proven: int = 0
    """So many of the input rows have been read again for the proof, with what they became."""
    share: float = 0.0
    """This part of the work is done, from 0 to 1: of the reading, and of the proof. It never falls, although
    later rounds may plan more.
    """


@dataclass(slots=True)
class _UnitShare:
    """It is a unit that stands for `rows` of the rows of its pick; `read` and `proven` of it are done, from 0
    to 1.
    """

    rows: float
    unit_rows: int
    read: float = 0.0
    proven: float = 0.0

    def take(self, work: UnitWork) -> None:
        if self.unit_rows > 0:
            self.read = max(self.read, min(1.0, work.read / self.unit_rows))
            self.proven = max(self.proven, min(1.0, work.proven / (_READINGS * self.unit_rows)))

    def end(self) -> None:
        self.read = self.proven = 1.0


@dataclass(slots=True)
class _Sum:
    """These are the picks and rows of some rounds."""

    picks: int = 0
    rows: int = 0


class RunProgress:
    """It adds up the progress of one run. Several threads may call it.

    `listener` gets it after each commit, and between commits some `tell_seconds` apart, from whichever thread
    brought the news; it must not raise.
    """

    def __init__(
        self,
        listener: Callable[[Progress], None] | None,
        monotonic: Callable[[], float],
        tell_seconds: float,
    ) -> None:
        self._listener = listener
        self._monotonic = monotonic
        self._tell_seconds = tell_seconds
        self._told_s = monotonic()
        self._lock = threading.RLock()
        self._groups = 1
        self._groups_begun = 0
        self._earlier = _Sum()
        self._of_group = _Sum()
        self._round = _Sum()
        self._picks_done = 0
        self._units: dict[str, _UnitShare] = {}
        self._rows_read = 0.0
        self._rows_proven = 0.0
        self._share = 0.0

    @property
    def unit_listener(self) -> UnitListener | None:
        """Return what units tell how far they are; None where nobody wants to know."""
        return None if self._listener is None else self.take

    def set_groups(self, count: int) -> None:
        """Set the number of groups of buckets that the run plans one after the other."""
        self._groups = max(1, count)

    def begin_group(self) -> None:
        """Start the next group; the one before ends."""
        with self._lock:
            self._end_round()
            self._groups_begun += 1
            self._of_group = _Sum()

    def begin_round(self, picks: Sequence[PlannedPick]) -> None:
        """Start a round of a group; the one before ends."""
        with self._lock:
            self._end_round()
            self._round = _Sum(len(picks), sum(pick.rows for pick in picks))
            self._units = {}
            for pick in picks:
                self._units |= _shares(pick.rows, pick.units)

    def commit(self, picks_done: int) -> None:
        """Take that so many picks of the round are committed or dropped, and tell the listener."""
        with self._lock:
            self._picks_done = picks_done
        self._tell()

    def take(self, work: UnitWork) -> None:
        """Take what an attempt at a unit tells."""
        self._update(str(work.unit[-1]), lambda unit: unit.take(work))

    def end_unit(self, name: str) -> None:
        """Take that the unit of that name has its result."""
        self._update(unit_key(name), _UnitShare.end)

    def now(self) -> Progress:
        """Return the progress of the run."""
        with self._lock:
            before, this = self._earlier, self._round
            share = self._share_of_group()
            if self._groups > 1:
                share = (min(max(self._groups_begun, 1), self._groups) - 1 + share) / self._groups
            self._share = max(self._share, min(1.0, share))
            return Progress(
                picks_done=before.picks + self._picks_done,
                picks=before.picks + this.picks,
                rows_done=before.rows + _whole(self._rows_read, this.rows),
                rows=before.rows + this.rows,
                rows_proven=before.rows + _whole(self._rows_proven, this.rows),
                share=self._share,
            )

    def _share_of_group(self) -> float:
        before, this = self._of_group, self._round
        if not before.rows + this.rows:
            whole = before.picks + this.picks
            return (before.picks + self._picks_done) / whole if whole else 0.0
        part = before.rows * (1 + _PROOF_WEIGHT) + self._rows_read + _PROOF_WEIGHT * self._rows_proven
        return part / ((before.rows + this.rows) * (1 + _PROOF_WEIGHT))

    def _update(self, key: str, change: Callable[[_UnitShare], None]) -> None:
        with self._lock:
            unit = self._units.get(key)
            if unit is None:  # of an earlier round
                return
            read, proven = unit.read, unit.proven
            change(unit)
            self._rows_read += (unit.read - read) * unit.rows
            self._rows_proven += (unit.proven - proven) * unit.rows
            is_due = self._monotonic() - self._told_s >= self._tell_seconds
        if is_due:
            self._tell()

    def _end_round(self) -> None:
        this = self._round
        for one in (self._earlier, self._of_group):
            one.picks += this.picks
            one.rows += this.rows
        self._round, self._units = _Sum(), {}
        self._picks_done, self._rows_read, self._rows_proven = 0, 0.0, 0.0

    def _tell(self) -> None:
        """Tell the listener; what is told first is never further than what is told later."""
        with self._lock:
            self._told_s = self._monotonic()
            if self._listener is not None:
                self._listener(self.now())


def _shares(rows: int, units: Sequence[PlannedUnit]) -> dict[str, _UnitShare]:
    """Divide the rows of a pick among its units."""
    whole = sum(unit.rows for unit in units)
    shares = [unit.rows / whole if whole else 1 / len(units) for unit in units]
    return {
        unit_key(unit.name): _UnitShare(rows * share, unit.rows)
        for unit, share in zip(units, shares, strict=True)
    }


def _whole(rows: float, most: int) -> int:
    return min(round(rows), most)
