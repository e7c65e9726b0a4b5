"""This module has the operator that follows the tables of a lake and compacts what others write to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.compaction import CompactDatabase
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.lake.compact_database import failure_of, tell_report, xcom_of
from lakecore_airflow.links import ReportLink
from lakecore_airflow.reports.metrics import count
from lakecore_airflow.tasks.engine import EngineTask
from lakecore_airflow.tasks.job import JobTask
from lakecore_airflow.tasks.run_time import stopped_after
from lakecore_airflow.tasks.window import calendar_of, skip_in_blackout

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from lakecore.executor import Executor
    from lakecore.jobs import compact

__all__ = ["DedicatedCompactionOperator"]


class DedicatedCompactionOperator(EngineTask, JobTask):
    """Follow every table that matches the patterns, and compact those to which others have written, until
    `run_for` is over or the task is stopped. This is the compactor of tables with `write-only=true`; it is
    `lakecore compact-database --follow` as a task.

    One task follows all tables on one Spark session, also tables that are created meanwhile (Paimon's mode
    `combined`). A mapped task for each table (`divided`) is `.expand(including_tables=…)`. A table that
    another chore holds is looked at again in the next round, so that two such tasks share their work. A DAG
    that is scheduled every few minutes with `max_active_runs=1` keeps one alive: a task that was killed loses
    nothing but unfinished work, and the next one looks at all tables.

    After `run_for` the round in hand is ended. A task that is stopped cancels its units; what was committed
    stays. The task fails at its end when the last compaction of a table failed, and at once when the Spark
    session has ended. The XCom has the number of compactions, and the report of the last one of each table
    as `CompactDatabaseOperator` shortens it.

    :param including_databases: regular expression for whole names of databases. (templated)
    :param including_tables: the same for `database.table`. (templated)
    :param excluding_tables: the same, of tables to leave alone; None for none. (templated)
    :param options: table options for these compactions only. (templated)
    :param strategy: `universal` (what needs it, as writers would) or `full`. (templated)
    :param partition_idle_time: only partitions that got no new file for so long, `1 d`. (templated)
    :param time_zone: of the machines that wrote the files, for `partition_idle_time`. (templated)
    :param wait: how long a round waits for a table that another task holds; without, it is looked at in the
        next round. (templated)
    :param engine: `spark`, or `local`. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    :param proof: `sampled`: keys of all rows, and every column of at least one row of 16; `keys`: keys only;
        `full`: every column of all rows. (templated)
    :param max_concurrent_tables: how many tables are worked on at once. (templated)
    :param max_plan_bytes: memory for the plans of these tables, in this task. (templated)
    :param skip_unsupported: tables that this release cannot compact are skipped. (templated)
    :param checkpoint: a checkpoint location: the task is then a query of Structured Streaming, and each
        micro-batch compacts the tables that have changed (`lakecore compact-database --follow --checkpoint`);
        PySpark 4.2, engine `spark`, and no Spark Connect. The next task goes on with what the query knows of
        the tables. Empty: no query. (templated)
    :param interval: seconds between two looks at the tables. (templated)
    :param run_for: end after this time, a `timedelta` or a text such as `12 h`; None: run until the task is
        stopped. (templated)
    :param blackouts: days and hours at which the task is skipped, as a list of `{"days", "hours", "why",
        "time_zone"}`; the beginning of the next one ends the task as `run_for` does. (templated)
    """

    definition = CompactDatabase
    without = ("dry_run", "until")
    settings: ClassVar[Mapping[str, Any]] = {
        "engine": "spark",
        "master": None,
        "spark_conf": None,
        "checkpoint": None,
        "interval": 10.0,
        "run_for": None,
        "blackouts": None,
    }
    doing = "following tables"
    only_waits = True
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(),)
    ui_color = "#dcefe3"

    checkpoint: str | None
    interval: float | str
    run_for: timedelta | str | None
    blackouts: Sequence[Mapping[str, Any]] | str | None

    def execute(self, context: Context) -> dict[str, Any]:
        hook = LakeHook(self.lake_conn_id)
        with airflow_errors():
            skip_in_blackout(self.blackouts)
        with airflow_errors(), self.workers(hook) as executor:
            return self._follow(context, hook, executor)

    def _follow(self, context: Context, hook: LakeHook, executor: Executor) -> dict[str, Any]:
        from lakecore.clock import SystemClock
        from lakecore.jobs import compact_database
        from lakecore.jobs.compact.follow import follow
        from lakecore.jobs.definitions.values import new_job

        job = new_job(CompactDatabase, self.job_fields(context))
        last: dict[str, compact.Report] = {}
        compactions = 0

        def tell(reports: Sequence[compact.Report]) -> None:
            nonlocal compactions
            for report in reports:
                last[report.table] = report
                tell_report(report.to_json(), self.log)
                if report.snapshots:
                    compactions += 1
                    count("compact", report.to_json())

        clock, interval, run_for = SystemClock(), _seconds(self.interval), _run_time(self.run_for)
        next_start_ms = calendar_of(self.blackouts).next_start_ms(clock.now_ms())
        if next_start_ms is not None:
            open_time = timedelta(milliseconds=next_start_ms - clock.now_ms())
            run_for = open_time if run_for is None else min(run_for, open_time)
        started = clock.monotonic()
        with stopped_after(run_for) as stop:
            if self.checkpoint:
                self._follow_as_query(job, hook, executor, stop, tell)
            else:
                follower = compact_database.follower(job, hook.catalog(), executor)
                follow(follower, executor, stop, tell, interval=interval)
        report = compact_database.Report(
            tables=tuple(last[name] for name in sorted(last)), seconds=round(clock.monotonic() - started, 3)
        )
        raw = report.to_json()
        summary = {"compactions": compactions} | xcom_of(raw)
        if report.failed:
            context["ti"].xcom_push("report", summary)
            raise failure_of(raw)
        return summary

    def _follow_as_query(
        self,
        job: CompactDatabase,
        hook: LakeHook,
        executor: Executor,
        stop: threading.Event,
        tell: Callable[[Sequence[compact.Report]], None],
    ) -> None:
        """Follow in a streaming query. Its micro-batches run in this process, in threads of the session."""
        from lakecore.jobs import compact_database
        from lakecore.spark.follow_query import FollowRequest, follow_until

        lake, rounds = hook.catalog(), compact_database.without_run(job)
        request = FollowRequest(
            lake=lake,
            names=compact_database.PatternNames(rounds, lake),
            compact=lambda names, workers: compact_database.run_on(names, rounds, lake, workers),
            job=repr(rounds),
            checkpoint=self.checkpoint or "",
            on_round=tell,
        )
        interval = f"{round(_seconds(self.interval) * 1000)} milliseconds"
        follow_until(stop, executor, request, {"processingTime": interval})


def _seconds(interval: float | str) -> float:
    """Return the interval. Raises InvalidInputError for one that is not a positive number."""
    from lakecore.errors import InvalidInputError

    try:
        seconds = float(interval)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidInputError(f"interval={interval!r}: use a positive number of seconds, 10")
    return seconds


def _run_time(run_for: timedelta | str | None) -> timedelta | None:
    """Return the time that a task runs; an empty text means without an end. Raises InvalidInputError."""
    from lakecore.errors import InvalidInputError
    from lakecore.options import parse_duration_ms

    if run_for is None or run_for == "":
        return None
    try:
        time = (
            run_for if isinstance(run_for, timedelta) else timedelta(milliseconds=parse_duration_ms(run_for))
        )
    except ValueError:
        time = timedelta()
    if time <= timedelta():
        raise InvalidInputError(f"run_for={run_for!r}: use a positive time, 12 h, or none")
    return time
