"""This module has the operator that compacts a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.compaction import Compact
from lakecore.jobs.remote.record import RunResult
from lakecore_airflow.airflow_names import AirflowException, AirflowSkipException
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.job import flag
from lakecore_airflow.tasks.lease_wait import LeaseWaitTask
from lakecore_airflow.tasks.progress import ProgressReporter
from lakecore_airflow.tasks.submit import SubmitTask, report_of
from lakecore_airflow.tasks.submit_settings import SUBMIT
from lakecore_airflow.tasks.table_task import TableTask, tell_outcome, xcom_summary
from lakecore_airflow.tasks.window import WINDOW_ENDS, WINDOW_SETTINGS, WindowTask, end_with_work_left

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CompactTableOperator"]

_LISTED = 20


class CompactTableOperator(WindowTask, SubmitTask, TableTask, LeaseWaitTask):
    """Compact one table and return the report of `lakecore.jobs.compact` (small, JSON) as XCom.

    A retry uses the commit identity of the first try. A commit whose answer was lost is recognised and not
    repeated, and the files of a killed try are removed. A table that needs no compaction is left alone, and
    the report says so. Two tasks never compact one table at the same time: the second one fails and is
    retried. If another engine has committed changes to the same files first, the run drops these files and
    names them in its report.

    :param table: `database.table`. (templated)
    :param strategy: `universal` (what needs it, as writers would) or `full`. (templated)
    :param order_strategy: put the rows of an append table without buckets in order: `order`, `zorder` or
        `hilbert`; all of its files are rewritten. (templated)
    :param force: also put in order what is in this order already. (templated)
    :param order_by: columns to order by, `a,b`; None: those of option `clustering.columns`. (templated)
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None means every partition. (templated)
    :param buckets: of a fixed number, `0-99,200`; None means every bucket. (templated)
    :param partition_idle_time: only partitions that got no new file for so long, `1 d`. (templated)
    :param time_zone: of the machines that wrote the files, for `partition_idle_time`. (templated)
    :param options: table options for this run only. (templated)
    :param dry_run: only look: the report says what the run would do and take. (templated)
    :param until: stop at the next unit boundary after this time, commit what is proven and report the rest:
        ISO date and time, or `HH:MM` (UTC) for the next such time after the DAG run started, so that every
        mapped task and every retry has the same end. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`: the task defers,
        and uses neither a worker nor a retry. (templated)
    :param engine: `spark`; `local`: in the task's own process; `auto`: the forecast decides, and a
        compaction that takes less than the start of a session runs in the process; `submit`: on a driver
        that spark-submit starts, while the task is deferred. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session, for example `spark.executor.memory`. (templated)
    :param submit: with `engine="submit"`, how the driver is submitted: `{"conn_id": "spark_default"}`; see
        docs/airflow.md. (templated)
    :param proof: `sampled`: keys of all rows, and every column of at least one row of 16; `keys`: keys only;
        `full`: every column of all rows. (templated)
    :param proof_seed: Chooses the rows of a sampled proof; empty means a fresh one, which the report names.
        (templated)
    :param skip_unsupported: skip the task, instead of failing it, when this release cannot compact the table.
        (templated)
    :param on_window_end: how the task ends when it leaves work, because its window is over or the budget is
        used up: `success`; `skip`: it is skipped if it did nothing; `fail`: it fails, without a retry.
        (templated)
    :param window_grace: stop the task, as by `execution_timeout`, when it is still at work so long after
        `until`: `30 min`; None: never. (templated)
    :param blackouts: days and hours at which nothing begins, as a list of `{"days", "hours", "why",
        "time_zone"}`; the beginning of the next one is the end of the window. (templated)
    :param budget_bytes: begin no table once the tasks of the same DAG run have read so much to rewrite it,
        `200 gb`; None: no limit. (templated)
    :param budget_core_seconds: the same for the core seconds of these tasks. (templated)
    :param budget_money: the same for their money, by the prices of the connection. (templated)
    """

    definition = Compact
    settings: ClassVar[Mapping[str, Any]] = {
        "engine": "spark",
        "master": None,
        "spark_conf": None,
        "submit": None,
        "skip_unsupported": False,
        **WINDOW_SETTINGS,
    }
    doing = "compacting a table"
    takes_auto = True
    words: ClassVar[Mapping[str, Sequence[str]]] = {
        "engine": ("spark", "local", AUTO, SUBMIT),
        "on_window_end": WINDOW_ENDS,
    }
    ui_color = "#dcefe3"

    skip_unsupported: bool | str
    _stopped_by: str = ""

    def run_job(self, context: Context) -> dict[str, Any]:
        from lakecore.errors import UnsupportedError

        try:
            with airflow_errors():
                report = self._compact(context)
        except Exception as err:  # the cause decides: unsupported tables may be skipped by request
            if isinstance(err.__cause__, UnsupportedError):
                self._skip_by_request(context, str(err.__cause__))
            raise
        if isinstance(report, RunResult):
            return self.take_result(context, report)
        if self._killed:
            raise AirflowException(
                f"killed: {report['picks_done']} picks are committed, {report['picks_left']} left"
            )
        return self._finish(context, report)

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of a compaction on a driver elsewhere."""
        for step in result.steps:
            if step.error_class == "UnsupportedError":
                self._skip_by_request(context, step.error or "")
        return self._finish(context, report_of(result))

    def _skip_by_request(self, context: Context, reason: str) -> None:
        """Skip the task if it is to be skipped for a table that this release cannot compact."""
        if not flag("skip_unsupported", self.skip_unsupported):
            return
        self.log.warning("left alone: %s", reason)
        context["ti"].xcom_push("refused", reason)
        tell_outcome(context, {"skipped": reason})
        raise AirflowSkipException(reason)

    def _finish(self, context: Context, report: dict[str, Any]) -> dict[str, Any]:
        self._log(report)
        raw = xcom_summary(report, "dropped", "planned")
        summary = self.publish_report(context, "compact", raw)
        if report["picks_left"] and not report["dry_run"]:
            context["ti"].xcom_push("report", summary)
            text = (
                f"{self.table}: {report['picks_left']} picks are left for the next window{self._stopped_by}"
            )
            end_with_work_left(self.on_window_end, text, idle=not report["picks_done"])
        return summary

    def _compact(self, context: Context) -> dict[str, Any] | RunResult:
        """Return the report as JSON, or the result of a driver elsewhere: then the task may defer here."""
        from lakecore.clock import SystemClock
        from lakecore.executor import SerialExecutor
        from lakecore.jobs import compact
        from lakecore.jobs.definitions.values import new_job

        submits = self.submits
        hook = LakeHook(self.lake_conn_id)
        user, identifier = commit_identity(context["ti"])
        name = {"commit_user": user, "commit_identifier": identifier}
        job = new_job(Compact, self.job_fields(context) | name)
        window = self.open_window(context, hook, dry_run=job.dry_run)
        job = replace(job, until_ms=window.end_ms)
        if reason := "" if job.dry_run else window.reason_to_stop():
            self.log.warning("%s; what %s needs is left for the next window", reason, self.table)
            self._stopped_by = f" ({reason})"
            job = replace(job, until_ms=SystemClock().now_ms())
        if submits and not reason:
            return self.submit_job(context, hook, [job])
        tell = ProgressReporter(self.table, context, self.log)
        if submits:  # nothing may begin, so the plan is made here
            return compact.run(job, hook.catalog(), SerialExecutor(), SystemClock(), tell).to_json()
        with self.workers(hook) as executor:
            return compact.run(job, hook.catalog(), executor, SystemClock(), tell).to_json()

    def _log(self, report: Mapping[str, Any]) -> None:
        if report["nothing_to_do"]:
            self.log.info("%s is in good shape: nothing to do", self.table)
            return
        before, after = report["before"], report["after"]
        self.log.info("%s: %d -> %d files", self.table, before["files"], after["files"])
        self.log.info("%s: %s", self.table, report["proof"] or "nothing was rewritten")
        if report["picks_left"] or report["dropped"]:
            self.log.warning(
                "%s: %d picks left for the next run; lost to other commits: %s",
                self.table,
                report["picks_left"],
                ", ".join(report["dropped"][:_LISTED]) or "none",
            )
