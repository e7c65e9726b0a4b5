"""This module makes the forecasts of jobs before they run, and the figures that are recorded afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from lakecore.data_class import dataclass
from lakecore.maintain.forecast.history import HistoryLine, HistoryStore
from lakecore.maintain.forecast.plan import Environment, Forecast, Throughput, Work, forecast
from lakecore.maintain.target import Target

__all__ = ["COMPACT", "SORT", "PastRun", "Work", "expected_seconds", "forecast_of", "remember"]

_MB = 1 << 20

COMPACT = "compact"
SORT = "sort-compact"
"""A compaction that puts rows in order: all of them, whatever the files look like."""
# one core; a merge stays below 500 MB a worker (figures: README)
_REWRITE = Throughput(
    seconds=0.2,
    files=500,
    bytes=25 * _MB,
    rows=1e6,
    memory=120 * _MB,
    memory_of_file=3000,
    memory_of_byte=6,
    most_of_bytes=380 * _MB,
)
_INDEX = Throughput(seconds=0.2, files=100, rows=5e5, memory=150 * _MB)
# 3 M rows of four columns in order, with spilling
_SORT = Throughput(
    seconds=0.2,
    files=500,
    bytes=10 * _MB,
    rows=4e5,
    memory=120 * _MB,
    memory_of_file=3000,
    memory_of_byte=12,
    most_of_bytes=380 * _MB,
)
_THROUGHPUTS: Mapping[str, Throughput] = MappingProxyType(
    {
        COMPACT: _REWRITE,
        SORT: _SORT,
        "rescale": _REWRITE,
        "analyze": _REWRITE,
        "rewrite-file-index": _INDEX,
        # 36 manifests with 80,000 entries in 2 s of CPU, 400 with 8,000 in 0.7 s
        "compact-manifest": Throughput(seconds=0.1, files=700, entries=1e5, memory_of_entry=800),
        # a million listed files in 19 s and 364 MB
        "remove-orphan-files": Throughput(seconds=0.2, files=10_000, entries=5e4, memory_of_entry=250),
        **dict.fromkeys(
            (
                "drop-partition",
                "expire-partitions",
                "merge-branch",
                "remove-unexisting-files",
                "remove-unexisting-manifests",
                "rollback-to-as-latest",
            ),
            Throughput(seconds=0.2, files=10_000, entries=2.5e4, memory_of_entry=800),
        ),
    }
)
# on a local disk 100,000 files of 2,000 snapshots in 4 s and 243 MB; a remote store takes longer, which the
# first run there tells
_CHORE = Throughput(seconds=0.2, files=20_000, memory=110 * _MB, memory_of_file=1300)

_ANY = frozenset({"APPEND", "COMPACT", "OVERWRITE", "ANALYZE"})
_DISTURBED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        COMPACT: frozenset({"COMPACT", "OVERWRITE"}),
        SORT: frozenset({"COMPACT", "OVERWRITE"}),
        "rewrite-file-index": frozenset({"COMPACT", "OVERWRITE"}),
        "compact-manifest": frozenset({"COMPACT", "OVERWRITE"}),
        "drop-partition": _ANY,
        "rollback-to": _ANY,
        "rollback-to-as-latest": _ANY,
        "fast-forward": _ANY,
        "merge-branch": _ANY,
        "rescale": _ANY,
    }
)
"""Kinds of commits that take work away from a job. Those that only remove what nobody needs lose none: what a
new commit needs is spared.
"""


def forecast_of(target: Target, job: str, work: Work, engine: str, *, around: bool = True) -> Forecast:
    """Return what the job will take, from its history on this table. With `around` the environment is
    observed for conflicts, which costs some reads; without it the forecast has no risk.
    """
    environment = Environment(now_ms=target.clock.now_ms())
    if around:
        from lakecore.maintain.forecast.observe import observe  # much of maintenance: for dry runs only

        environment = observe(target)
    return _of_history(target, job, work, engine, environment)[0]


def expected_seconds(target: Target, job: str, work: Work, processes: int = 1) -> float:
    """Return how long the job will take on the local engine: as long as before, or without earlier runs what
    one process is assumed to take, divided by `processes`. It costs a read of the history of the job.
    """
    now = Environment(now_ms=target.clock.now_ms())
    expected, is_measured = _of_history(target, job, work, "local", now)
    return expected.seconds if is_measured else expected.seconds / processes


def _of_history(
    target: Target, job: str, work: Work, engine: str, environment: Environment
) -> tuple[Forecast, bool]:
    """Return the forecast, and whether there are earlier runs that it is based on."""
    past = HistoryStore(target.file_io, target.warehouse).past(target.name, job, engine)
    pace, disturbed = _THROUGHPUTS.get(job, _CHORE), _DISTURBED.get(job, frozenset())
    return forecast(work, past, pace, environment, disturbed), bool(past)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """This run has ended, and its figures go to the history of its table."""

    job: str
    work: Work
    """This is what it worked on."""
    engine: str
    started_ms: int
    outcome: Mapping[str, Any]
    """These are its figures: later estimates use `seconds`, `memory` and `lost`."""
    run: str | None = None
    """It is the id of a run that `undo` knows."""


def remember(target: Target, past: PastRun) -> Forecast:
    """Record what a run was expected to take and what it took; return the former."""
    expected = forecast_of(target, past.job, past.work, past.engine, around=False)
    line = HistoryLine(
        table=target.name,
        job=past.job,
        started_ms=past.started_ms,
        engine=past.engine,
        work=asdict(past.work),
        estimate={"seconds": expected.seconds, "memory": expected.memory, "based_on": expected.based_on},
        outcome=past.outcome,
        run=past.run,
    )
    HistoryStore(target.file_io, target.warehouse).add(line)
    return expected
