"""This module has the operator that builds the file indexes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.compaction import RewriteFileIndex
from lakecore_airflow.airflow_names import AirflowException
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore import lease_owner
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.lease_wait import LeaseWaitTask
from lakecore_airflow.tasks.submit import SubmitTask, report_of
from lakecore_airflow.tasks.submit_settings import SUBMIT
from lakecore_airflow.tasks.table_task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.jobs.remote.record import RunResult

__all__ = ["RewriteFileIndexOperator"]


class RewriteFileIndexOperator(SubmitTask, TableTask, LeaseWaitTask):
    """Build the file indexes that a table's options ask for and its files lack. The XCom is the report of
    `lakecore.jobs.rewrite_file_index` (small, JSON): figures, and the coverage of every index.

    Data files are not rewritten. A retry uses the commit identity of the first try. If another commit
    changes the same files first, the run plans the files that are left again.

    :param table: `database.table`. (templated)
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None means every partition. (templated)
    :param options: table options for this run only. (templated)
    :param dry_run: only look: the report says what would be done. (templated)
    :param until: stop then, commit what is built and report the rest: ISO date and time, or `HH:MM` (UTC) for
        the next such time after the DAG run started. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`: the task defers,
        and uses neither a worker nor a retry. (templated)
    :param engine: `spark`; `local`: in the task's own process; `auto`: in the process unless the forecast is
        longer than Spark takes with its start (the report says why); `submit`: on a driver that
        spark-submit starts, while the task is deferred. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    :param submit: with `engine="submit"`, how the driver is submitted: `{"conn_id": "spark_default"}`; see
        docs/airflow.md. (templated)
    """

    definition = RewriteFileIndex
    settings: ClassVar[Mapping[str, Any]] = {
        "engine": "spark",
        "master": None,
        "spark_conf": None,
        "submit": None,
    }
    takes_auto = True
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local", AUTO, SUBMIT)}
    doing = "making file indexes"
    ui_color = "#dcefe3"

    def run_job(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import rewrite_file_index
        from lakecore.jobs.definitions.values import new_job

        user, identifier = commit_identity(context["ti"])
        owner = lease_owner(context["ti"])
        name = {"commit_user": user, "commit_identifier": identifier, "owner": owner}
        hook = LakeHook(self.lake_conn_id)
        result: RunResult | None = None
        with airflow_errors():
            job = new_job(RewriteFileIndex, self.job_fields(context) | name)
            if self.submits:
                result = self.submit_job(context, hook, [job])
            else:
                with self.workers(hook) as executor:
                    report = rewrite_file_index.run(job, hook.catalog(), executor)
        if result is not None:
            return self.take_result(context, result)
        if self._killed:
            raise AirflowException(
                f"killed: {report.files} files have new indexes, {report.files_left} do not"
            )
        return self._finish(context, report.to_json())

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of a run on a driver elsewhere."""
        return self._finish(context, report_of(result))

    def _finish(self, context: Context, report: Mapping[str, Any]) -> dict[str, Any]:
        self.log.info(
            "%s: %d of %d files have new indexes, for %d rows read",
            self.table,
            report["files"],
            report["planned"],
            report["rows"],
        )
        return self.publish_report(context, "rewrite-file-index", xcom_summary(report, "dropped"))
