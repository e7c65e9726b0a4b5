"""This module measures how many sorted runs readers of a table see over time. Pure."""

from __future__ import annotations

from dataclasses import field

from lakecore.compact.engine.work import Place
from lakecore.data_class import dataclass

__all__ = ["RunMeter"]


@dataclass
class RunMeter:
    """It adds up the sorted runs of all buckets, weighted by time."""

    most: int = 0
    """This is the largest number of runs that a bucket had."""
    _runs: dict[Place, int] = field(default_factory=dict)
    _total: int = 0
    _time_ms: int | None = None
    _span_ms: int = 0
    _weighted: float = 0.0

    def at(self, time_ms: int) -> None:
        """Let time pass; a clock that goes back stands still."""
        if self._time_ms is not None and time_ms > self._time_ms:
            span = time_ms - self._time_ms
            self._span_ms += span
            self._weighted += span * self._mean
        self._time_ms = max(time_ms, self._time_ms or time_ms)

    def set(self, place: Place, runs: int) -> None:
        """Say how many runs a bucket has from now on; one without runs is none."""
        self._total += runs - self._runs.pop(place, 0)
        if runs:
            self._runs[place] = runs
        self.most = max(self.most, runs)

    @property
    def runs_by_time(self) -> float:
        """Return the average of the runs of a bucket over time."""
        return self._weighted / self._span_ms if self._span_ms else self._mean

    @property
    def total(self) -> int:
        """Return the runs of all buckets now."""
        return self._total

    @property
    def _mean(self) -> float:
        return self._total / len(self._runs) if self._runs else 0.0
