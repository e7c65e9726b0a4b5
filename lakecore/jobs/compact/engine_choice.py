"""This module chooses where a compaction runs: in this process, or on Spark.

A Spark session takes seconds before its first unit. A compaction that takes less in this process is sooner
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakecore.clock import Clock
from lakecore.errors import LakeError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact.report import Report
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.runner.lake import Lake

__all__ = ["MOST_TABLES", "SPARK_STARTS_S", "EngineChoice", "choose_engine", "engine_for", "engine_for_many"]

SPARK_STARTS_S = 6.0
"""A session with its first worker takes about so many seconds to start (two cores, a warm disk)."""

MOST_TABLES = 20
"""More tables are not planned twice: Spark takes them without a forecast."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The choice has the engine, `local` or `spark`, and the reason for it as a sentence."""

    engine: str
    reason: str


def choose_engine(report: Report, java_problem: str) -> EngineChoice:
    """Choose from the report of a dry run in this process. `java_problem` says why Spark cannot start here;
    it is empty where it can.
    """
    if report.forecast is None:
        return _NOTHING
    return _choice(report.forecast.seconds, java_problem)


def engine_for(job: Job, lake: Lake, clock: Clock, find_java: Callable[[], object]) -> EngineChoice:
    """Plan the job and choose its engine. It costs a dry run, and raises what a dry run raises. `find_java`
    raises a LakeError where Spark cannot start.
    """
    report = _dry_run(job, lake, clock)
    return choose_engine(report, "" if report.forecast is None else _problem(find_java))


def engine_for_many(
    jobs: Sequence[Job], lake: Lake, clock: Clock, find_java: Callable[[], object]
) -> EngineChoice:
    """Plan the jobs, which would run one after another in this process, and choose one engine for all.

    Planning ends once their forecasts together are longer than the start of a Spark session. A job that
    cannot be planned does not count: its run says why. `find_java` is as for `engine_for`.
    """
    if len(jobs) > MOST_TABLES:
        if problem := _problem(find_java):
            return _choice(0.0, problem)
        return EngineChoice(
            "spark", f"{len(jobs)} tables are named, and no more than {MOST_TABLES} are planned twice"
        )
    seconds: float | None = None
    for job in jobs:
        try:
            report = _dry_run(job, lake, clock)
        except LakeError:
            continue
        if report.forecast is not None:
            seconds = (seconds or 0.0) + report.forecast.seconds
        if (seconds or 0.0) > SPARK_STARTS_S:
            break
    return _NOTHING if seconds is None else _choice(seconds, _problem(find_java))


_NOTHING = EngineChoice("local", "there is nothing to do")


def _choice(seconds: float, java_problem: str) -> EngineChoice:
    if java_problem:
        return EngineChoice("local", f"Spark cannot start here: {java_problem}")
    if seconds <= SPARK_STARTS_S:
        why = f"the forecast is {seconds:.1f} s, and a Spark session alone takes some {SPARK_STARTS_S:.0f} s"
        return EngineChoice("local", why)
    return EngineChoice("spark", f"the forecast for one process is {seconds:.0f} s")


def _dry_run(job: Job, lake: Lake, clock: Clock) -> Report:
    return compact.run(replace(job, dry_run=True), lake, SerialExecutor(), clock)


def _problem(find_java: Callable[[], object]) -> str:
    """Return why Spark cannot start; the text is empty where it can."""
    try:
        find_java()
    except LakeError as err:
        return str(err)
    return ""
