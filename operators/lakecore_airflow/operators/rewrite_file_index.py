"""This module has the operator that builds the file indexes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException

from lakecore.jobs.definitions.compaction import RewriteFileIndex
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore import lease_owner
from lakecore_airflow.tasks.engine import EngineTask
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.lease_wait import LeaseWaitTask
from lakecore_airflow.tasks.table_task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context


__all__ = ["RewriteFileIndexOperator"]


class RewriteFileIndexOperator(EngineTask, TableTask, LeaseWaitTask):
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
    :param engine: `spark`, or `local` for tables too small to be worth a session. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    """

    definition = RewriteFileIndex
    settings: ClassVar[Mapping[str, Any]] = {"engine": "spark", "master": None, "spark_conf": None}
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local")}
    doing = "making file indexes"
    ui_color = "#dcefe3"

    def run_job(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import rewrite_file_index
        from lakecore.jobs.definitions.values import new_job

        user, identifier = commit_identity(context["ti"])
        owner = lease_owner(context["ti"])
        name = {"commit_user": user, "commit_identifier": identifier, "owner": owner}
        hook = LakeHook(self.lake_conn_id)
        with airflow_errors(), self.workers(hook) as executor:
            job = new_job(RewriteFileIndex, self.job_fields(context) | name)
            report = rewrite_file_index.run(job, hook.catalog(), executor)
        self.log.info(
            "%s: %d of %d files have new indexes, for %d rows read",
            self.table,
            report.files,
            report.planned,
            report.rows,
        )
        if self._killed:
            raise AirflowException(
                f"killed: {report.files} files have new indexes, {report.files_left} do not"
            )
        return self.publish_report(context, "rewrite-file-index", xcom_summary(report.to_json(), "dropped"))
