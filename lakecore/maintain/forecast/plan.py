"""This module estimates time and memory from what earlier runs took, and the risk of a conflict. No IO, no
clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from lakecore.data_class import dataclass

__all__ = [
    "Environment",
    "Forecast",
    "PastRun",
    "RecentCommit",
    "Risk",
    "Throughput",
    "Work",
    "forecast",
    "risk_of",
]

_MB = 1 << 20
_UNKNOWN = 3.0
"""The factor of the range without earlier runs: the time may be a third of the estimate, or three times."""
_FIRST_RUN = "the job never ran on this table"
_HOUR = 3600.0
_LOW, _MEDIUM, _HIGH = 0.01, 0.1, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job reads, writes or removes so much. `bytes` are as stored; `entries` are those of manifests and
    listings that it reads.
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """These are the default figures of a job: fixed costs, and how much it does in a second."""

    seconds: float
    """These are the seconds that every run takes."""
    files: float
    bytes: float = math.inf
    rows: float = math.inf
    entries: float = math.inf
    memory: int = 110 * _MB
    """These are the bytes of memory that every run takes."""
    memory_of_file: int = 0
    memory_of_entry: int = 0
    memory_of_byte: float = 0.0
    most_of_bytes: int | None = None
    """The upper bound of the memory for the bytes of the work; None means no bound."""

    def seconds_for(self, work: Work) -> float:
        """Return the seconds for the work, by the slower of bytes and rows."""
        looked = work.files / self.files + work.entries / self.entries
        return self.seconds + looked + max(work.bytes / self.bytes, work.rows / self.rows)

    def memory_for(self, work: Work) -> float:
        """Return the memory for the work, in bytes."""
        streamed = work.bytes * self.memory_of_byte
        if self.most_of_bytes is not None:
            streamed = min(streamed, self.most_of_bytes)
        file_memory = work.files * self.memory_of_file + work.entries * self.memory_of_entry
        return self.memory + file_memory + streamed

    def __str__(self) -> str:
        parts = [f"{self.seconds} s", f"{self.files:g} files/s"]
        parts += [f"{self.bytes / _MB:g} MB/s"] if math.isfinite(self.bytes) else []
        parts += [f"{self.rows:g} rows/s"] if math.isfinite(self.rows) else []
        parts += [f"{self.entries:g} entries/s"] if math.isfinite(self.entries) else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """This is a run of the same job on the same table, which an estimate is based on."""

    work: Work
    seconds: float
    memory: int | None = None
    """This is the peak of memory in bytes; None when it was not measured."""
    lost: bool = False
    """It tells whether a part of it was given up because another commit came first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCommit:
    """This is a commit that was made recently."""

    time_ms: int
    kind: str
    by_lakecore: bool = False
    """It tells whether lakecore made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """This is the other activity that a table has."""

    now_ms: int
    commits: tuple[RecentCommit, ...] = ()
    """These are the recent commits, newest first."""
    inline: bool = False
    """It tells whether its writers may compact by themselves."""
    lease: str | None = None
    """This is the holder of the lease."""
    holders: tuple[str, ...] = ()
    """These are the tags, branches and consumers that retain old files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """This is the risk that the run conflicts with another commit."""

    level: str = "none"
    """This is the level, which is one of none, low, medium or high."""
    probability: float = 0.0
    """This is the probability of at least one commit meanwhile to which the job would lose work."""
    expected_commits: float = 0.0
    """This is the expected number of commits by others while it runs, of any kind."""
    commits_an_hour: float = 0.0
    compactor: bool = False
    """It tells whether another compactor seems to be running."""
    holders: tuple[str, ...] = ()
    words: str = ""
    """These are the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast is the estimated time, which has a range, and the risk."""

    seconds: float
    seconds_low: float
    seconds_high: float
    memory: int
    """This is the peak in bytes of the process that does the work."""
    based_on: str
    """It says which earlier runs, or which defaults, it is based on."""
    risk: Risk
    startup_seconds: float = 0.0
    """So much of `seconds`, `seconds_low` and `seconds_high` is for the start of a Spark session."""

    def with_startup(self, seconds: float) -> Forecast:
        """Return the forecast of a run that starts a Spark session first, which takes `seconds`."""
        words = f"{self.based_on}; about {seconds:g} s of it are for the start of a Spark session"
        return replace(
            self,
            seconds=round(self.seconds + seconds, 3),
            seconds_low=round(self.seconds_low + seconds, 3),
            seconds_high=round(self.seconds_high + seconds, 3),
            startup_seconds=seconds,
            based_on=words,
        )

    def to_json(self) -> dict[str, Any]:
        """Convert the forecast to plain values."""
        raw = asdict(self)
        return raw | {"risk": raw["risk"] | {"holders": list(self.risk.holders)}}

    def __str__(self) -> str:
        span = f"{self.seconds_low:.1f} to {self.seconds_high:.1f} s"
        return (
            f"the run takes about {self.seconds:.1f} s ({span}) and {self.memory // _MB} MB, "
            f"estimated from {self.based_on}; the risk of a conflict is {self.risk.level}: "
            f"{self.risk.words}"
        )


def forecast(
    work: Work,
    past: Sequence[PastRun],
    pace: Throughput,
    around: Environment,
    conflicting_kinds: frozenset[str],
) -> Forecast:
    """Estimate a run. `past` are earlier runs of this job on this table, in any order. `conflicting_kinds`
    are the kinds of commits to which the job loses work.

    The defaults say how work of one size compares with work of another. Earlier runs say by how much the
    defaults are wrong here: the median of that factor is used, and its extremes are the range.
    """
    usual = pace.seconds_for(work)
    whole = [run for run in past if run.seconds > 0 and (run.work.files or not run.lost)]
    factors = sorted(run.seconds / pace.seconds_for(run.work) for run in whole)
    if factors:
        seconds, low, high = (usual * factor for factor in (median(factors), factors[0], factors[-1]))
        based_on = f"{len(factors)} earlier run{'s' if len(factors) > 1 else ''} on this table"
    else:
        seconds, low, high = usual, usual / _UNKNOWN, usual * _UNKNOWN
        missing = "no earlier run on this table did work to compare with" if past else _FIRST_RUN
        based_on = f"defaults ({pace}), because {missing}"
    measured = [run.memory / pace.memory_for(run.work) for run in past if run.memory]
    memory = pace.memory_for(work) * (max(measured) if measured else 1.0)
    lost = sum(run.lost for run in past) / (len(past) + 1)  # this run may end without a loss
    return Forecast(
        seconds=round(seconds, 3),
        seconds_low=round(low, 3),
        seconds_high=round(high, 3),
        memory=int(memory),
        based_on=based_on,
        risk=risk_of(around, seconds, conflicting_kinds, lost),
    )


def risk_of(
    around: Environment, seconds: float, conflicting_kinds: frozenset[str], lost: float = 0.0
) -> Risk:
    """Estimate the risk. `lost` is the share of earlier runs that lost work. Commits are taken to arrive at
    random, at the rate of all observed commits, or of the last few if that is higher.
    """
    others = [commit for commit in around.commits if not commit.by_lakecore]
    rate = _rate(others, around.now_ms)
    disturbing = [commit for commit in others if commit.kind in conflicting_kinds]
    compactor = any(commit.kind == "COMPACT" for commit in others)
    probability = max(-math.expm1(-_rate(disturbing, around.now_ms) * seconds), lost)
    if around.lease is not None:
        probability = 1.0
    return Risk(
        level=_level(probability),
        probability=round(probability, 4),
        expected_commits=round(rate * seconds, 3),
        commits_an_hour=round(rate * _HOUR, 3),
        compactor=compactor,
        holders=around.holders,
        words="; ".join(_words(around, others, disturbing, rate * seconds, lost)),
    )


def _rate(commits: Sequence[RecentCommit], now_ms: int) -> float:
    """Return the commits per second."""
    parts = (commits, commits[:8])
    return max(
        (len(part) / max(1.0, (now_ms - part[-1].time_ms) / 1000) for part in parts if part), default=0.0
    )


def _level(probability: float) -> str:
    bounds: Mapping[str, float] = {"none": _LOW, "low": _MEDIUM, "medium": _HIGH}
    return next((name for name, bound in bounds.items() if probability < bound), "high")


def _words(
    around: Environment,
    others: Sequence[RecentCommit],
    disturbing: Sequence[RecentCommit],
    expected: float,
    lost: float,
) -> list[str]:
    """Return the reasons, as sentences without a full stop."""
    words = []
    if around.lease is not None:
        words.append(f"{around.lease} holds the table's lease")
    if others:
        words.append(
            f"other writers made {len(others)} of the last {len(around.commits)} commits, "
            f"{expected:.1f} more commits are expected during the run, and {len(disturbing)} were "
            "of a kind that conflicts with it"
        )
    else:
        words.append("the available snapshots show no other writer")
    compactions = sum(commit.kind == "COMPACT" for commit in others)
    if compactions:
        words.append(f"another compaction job seems to be active ({compactions} compactions)")
    elif around.inline:
        words.append("writers of the table may compact it themselves (write-only is not set)")
    if lost:
        words.append(f"by the earlier runs, {lost:.0%} of the runs lose work to other commits")
    return [*words, *around.holders[:3]]
