"""This module chooses where a compaction runs: in this process, or on Spark.

A Spark session takes seconds before its first unit. A compaction that takes less in this process is sooner
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakecore.clock import Clock
from lakecore.errors import LakeError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact.report import Report
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.runner.lake import Lake

__all__ = ["SPARK_STARTS_S", "EngineChoice", "choose_engine", "engine_for"]

SPARK_STARTS_S = 6.0
"""A session with its first worker takes about so many seconds to start (two cores, a warm disk)."""


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
        return EngineChoice("local", "there is nothing to do")
    seconds = report.forecast.seconds
    if java_problem:
        return EngineChoice("local", f"Spark cannot start here: {java_problem}")
    if seconds <= SPARK_STARTS_S:
        why = f"the forecast is {seconds:.1f} s, and a Spark session alone takes some {SPARK_STARTS_S:.0f} s"
        return EngineChoice("local", why)
    return EngineChoice("spark", f"the forecast for one process is {seconds:.0f} s")


def engine_for(job: Job, lake: Lake, clock: Clock, find_java: Callable[[], object]) -> EngineChoice:
    """Plan the job and choose its engine. It costs a dry run, and raises what a dry run raises. `find_java`
    raises a LakeError where Spark cannot start.
    """
    report = compact.run(replace(job, dry_run=True), lake, SerialExecutor(), clock)
    problem = ""
    if report.forecast is not None:
        try:
            find_java()
        except LakeError as err:
            problem = str(err)
    return choose_engine(report, problem)
