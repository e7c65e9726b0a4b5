"""This module has the operator that compacts a whole database or catalog in one task."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.compaction import CompactDatabase
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.assets import announce_change
from lakecore_airflow.hooks import LakeHook, airflow_errors, is_permanent
from lakecore_airflow.links import ReportLink
from lakecore_airflow.reports.lineage import lineage_of_many
from lakecore_airflow.reports.metrics import count
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.job import JobTask, flag
from lakecore_airflow.tasks.submit import SubmitTask, refuse_budget, report_of
from lakecore_airflow.tasks.submit_settings import SUBMIT
from lakecore_airflow.tasks.table_task import xcom_summary
from lakecore_airflow.tasks.window import WINDOW_ENDS, WINDOW_SETTINGS, WindowTask, end_with_work_left

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from lakecore.jobs.remote.record import RunResult

__all__ = ["CompactDatabaseOperator", "failure_of", "is_changed", "tell_report", "xcom_of"]

_MOST_IN_LINEAGE = 100
"""Each table is read for its columns."""


class CompactDatabaseOperator(WindowTask, SubmitTask, JobTask):
    """Compact every table that matches the patterns, many at once, in one task and on one Spark session at
    most. This suits lakes with more tables than there should be mapped tasks.

    A table that fails does not stop the others. The task fails at the end; it is not retried when no retry
    can repair any of the failures. A retry uses the commit identity of the first try and finds what is done
    already. A table that another chore holds is skipped and named in the report. The report is the XCom
    (small JSON: counts, and the first failed and skipped tables), also of a task that fails. An outlet that
    is an `AssetAlias` gets the assets of the tables that were changed.

    :param including_databases: regular expression for whole names of databases. (templated)
    :param including_tables: the same for `database.table`. (templated)
    :param excluding_tables: the same, of tables to leave alone; None for none. (templated)
    :param options: table options for this run only. (templated)
    :param strategy: `universal` (what needs it, as writers would) or `full`. (templated)
    :param partition_idle_time: only partitions that got no new file for so long, `1 d`. (templated)
    :param time_zone: of the machines that wrote the files, for `partition_idle_time`. (templated)
    :param until: begin no table and no unit after this time, commit what is proven: ISO date and time, or
        `HH:MM` (UTC) for the next such time after the DAG run started. (templated)
    :param on_window_end: how the task ends when tables are left, because the window is over, a black-out has
        begun or the budget is used up: `success`; `skip`: it is skipped if no table was changed; `fail`: it
        fails, without a retry. (templated)
    :param window_grace: stop the task, as by `execution_timeout`, when it is still at work so long after
        `until`: `30 min`; None: never. (templated)
    :param blackouts: days and hours at which no table begins, as a list of `{"days", "hours", "why",
        "time_zone"}`; the beginning of the next one is the end of the window. (templated)
    :param budget_bytes: begin no table once the tasks of the same DAG run have read so much to rewrite it,
        `200 gb`; None: no limit. The sum is read before each table. (templated)
    :param budget_core_seconds: the same for the core seconds of these tasks. (templated)
    :param budget_money: the same for their money, by the prices of the connection. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`; without, such a
        table is skipped, and with it one that is held for longer counts as failed. (templated)
    :param engine: `spark`; `local`: in the task's own process; `auto`: in the process until the forecasts of
        the tables together are longer than Spark would take with its start, then on Spark; the log says why.
        `submit`: on a driver that spark-submit starts, while the task is deferred. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    :param submit: with `engine="submit"`, how the driver is submitted: `{"conn_id": "spark_default"}`; see
        docs/airflow.md. (templated)
    :param proof: `sampled`: keys of all rows, and every column of at least one row of 16; `keys`: keys only;
        `full`: every column of all rows. (templated)
    :param max_concurrent_tables: how many tables are worked on at once. (templated)
    :param max_plan_bytes: memory for the plans of these tables, in this task. (templated)
    :param skip_unsupported: tables that this release cannot compact are skipped. (templated)
    :param dry_run: only look: the report says how many tables have something to do. (templated)
    """

    definition = CompactDatabase
    settings: ClassVar[Mapping[str, Any]] = {
        "engine": "spark",
        "master": None,
        "spark_conf": None,
        "submit": None,
        **WINDOW_SETTINGS,
    }
    doing = "compacting many tables"
    only_waits = True
    takes_auto = True
    words: ClassVar[Mapping[str, Sequence[str]]] = {
        "engine": ("spark", "local", AUTO, SUBMIT),
        "on_window_end": WINDOW_ENDS,
    }
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(),)
    ui_color = "#dcefe3"
    _changed: Sequence[Mapping[str, Any]] = ()

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.executor import SerialExecutor
        from lakecore.jobs import compact, compact_database

        hook, stopped = LakeHook(self.lake_conn_id), _LeftTables()
        with airflow_errors():
            job = self._job(context)
            window = self.open_window(context, hook, dry_run=job.dry_run)
            job = replace(job, until_ms=window.end_ms)
            if self.submits and not window.reason_to_stop():
                return self.take_result(context, self._submit(context, hook, job))
            with nullcontext(SerialExecutor()) if self.submits else self.engines(hook) as engines:
                callbacks = compact.Callbacks(
                    on_done=lambda one: tell_report(one.to_json(), self.log),
                    reason_to_stop=lambda: stopped.counted(window.reason_to_stop()),
                )
                report = compact_database.run(job, hook.catalog(), engines, None, callbacks)
        return self._finish(context, report.to_json(), stopped)

    def _submit(self, context: Context, hook: LakeHook, job: CompactDatabase) -> RunResult:
        """Submit the job and defer. The driver begins no table after the end of the window; black-outs that
        begin later are its end.
        """
        refuse_budget(self)
        return self.submit_job(context, hook, [job])

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of a run on a driver elsewhere."""
        from lakecore.jobs.compact.many import TIME_IS_OVER

        report, stopped = report_of(result), _LeftTables()
        for one in report["reports"]:
            tell_report(one, self.log)
            stopped.counted("the window is over" if one["skipped"] == TIME_IS_OVER else "")
        return self._finish(context, report, stopped)

    def _finish(self, context: Context, report: Mapping[str, Any], stopped: _LeftTables) -> dict[str, Any]:
        changed = [one for one in report["reports"] if is_changed(one)]
        for raw in changed:
            count("compact", raw)
            if not raw["dry_run"]:
                extra = {"table": raw["table"], "job": "compact", "snapshot": raw.get("snapshot")}
                announce_change(context, self, raw["table"], extra)
        self._changed = [raw for raw in changed if not raw["dry_run"]]
        summary = xcom_of(report)
        counts = {name: value for name, value in report.items() if name != "reports"}
        self.log.info("%s", counts)
        if report["failed"]:
            context["ti"].xcom_push("report", summary)
            raise failure_of(report)
        cut = sum(bool(raw["picks_left"]) for raw in report["reports"])
        if not flag("dry_run", getattr(self, "dry_run", False)) and stopped.tables + cut:
            context["ti"].xcom_push("report", summary)
            reason = stopped.reason or "the window is over"
            text = f"{stopped.tables + cut} tables are left for the next window: {reason}"
            self.log.warning("%s", text)
            end_with_work_left(self.on_window_end, text, idle=not changed)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Airflow's OpenLineage provider asks for this when the task has succeeded: the tables that were
        changed, at most 100 of them.
        """
        return lineage_of_many(self.lake_conn_id, self._changed[:_MOST_IN_LINEAGE])

    def _job(self, context: Context) -> CompactDatabase:
        from lakecore.jobs.definitions.values import new_job

        user, identifier = commit_identity(context["ti"])
        name = {"commit_user": user, "commit_identifier": identifier}
        return new_job(CompactDatabase, self.job_fields(context) | name)


def tell_report(report: Mapping[str, Any], log: Any) -> None:
    """Say in the log of a task how one table ended. The report is that of a compaction as JSON."""
    table = report["table"]
    if report["error"] is not None:
        log.error("%s: %s: %s", table, report["error_class"], report["error"])
    elif report["skipped"]:
        log.warning("%s is skipped: %s", table, report["skipped"])
    elif report["snapshots"]:
        before, after = report["before"]["files"], report["after"]["files"]
        log.info("%s: %d -> %d files; %s", table, before, after, report["proof"])


def is_changed(report: Mapping[str, Any]) -> bool:
    """Return whether a table has a new snapshot, or in a dry run needs work."""
    return bool(report["snapshots"] or report["planned"])


class _LeftTables:
    """These are the tables that the window left. Several threads count."""

    def __init__(self) -> None:
        self.tables = 0
        self.reason = ""
        self._lock = threading.Lock()

    def counted(self, reason: str) -> str:
        """Count a table if there is a reason to leave it, and return the reason."""
        if reason:
            with self._lock:
                self.tables += 1
                self.reason = reason
        return reason


def xcom_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the report, as JSON, for XCom to counts, sums, and the first tables that failed or were
    skipped.
    """
    reports = report["reports"]
    changed = [one for one in reports if is_changed(one)]
    raw = {"job": "compact-database"} | {name: one for name, one in report.items() if name != "reports"}
    raw |= {name: sum(one[name] for one in changed) for name in ("files_in", "bytes_in", "rows_in")}
    raw |= {
        "failures": [
            {"table": one["table"], "class": one["error_class"], "error": (one["error"] or "")[:500]}
            for one in _failures(reports)
        ],
        "busy": [{"table": one["table"], "why": one["skipped"][:500]} for one in reports if one["skipped"]],
    }
    return xcom_summary(raw, "failures", "busy")


def failure_of(report: Mapping[str, Any]) -> AirflowException:
    """Return the error of the task; it is permanent when no retry can repair any of the failures."""
    from lakecore import errors

    failed = _failures(report["reports"])
    kinds = [getattr(errors, one["error_class"] or "", Exception) for one in failed]
    permanent = all(is_permanent(kind.__new__(kind)) for kind in kinds)
    first = failed[0]
    text = (
        f"{len(failed)} of {report['tables']} tables failed; "
        f"{first['table']}: {first['error_class']}: {first['error']}"
    )
    return AirflowFailException(text) if permanent else AirflowException(text)


def _failures(reports: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in reports if one["error"] is not None]
