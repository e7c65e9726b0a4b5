"""The operator that builds the file indexes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from operators.chore import flag, lease_owner, waiting_ms
from operators.engine import EngineTask
from operators.hooks import LakeHook, airflow_errors
from operators.identity import commit_identity
from operators.task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context


__all__ = ["RewriteFileIndexOperator"]

_LEASE_MS = 60_000


class RewriteFileIndexOperator(EngineTask, TableTask):
    """Build the file indexes that a table's options ask for and its files lack. The XCom is the report of
    `lakecore.jobs.rewrite_file_index` (small, JSON): figures, and the coverage of every index.

    Data files are not rewritten. A retry uses the commit identity of the first try. If another commit changes
    the same files first, the run plans the files that are left again.

    :param table: `database.table`. (templated)
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None means every partition. (templated)
    :param options: table options for this run only. (templated)
    :param dry_run: only look: the report says what would be done. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`. (templated)
    :param engine: `spark`, or `local` for tables too small to be worth a session. (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    """

    template_fields: Sequence[str] = (
        "table",
        "where",
        "options",
        "only_look",
        "wait",
        "engine",
        "master",
        "spark_conf",
        "lake_conn_id",
    )
    doing = "making file indexes"
    ui_color = "#dcefe3"

    def __init__(
        self,
        *,
        table: str,
        where: str | None = None,
        options: Mapping[str, str] | None = None,
        dry_run: bool | str = False,
        wait: str | None = None,
        engine: str = "spark",
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.where = where
        self.options = options
        self.only_look = dry_run
        self.wait = wait
        self.engine = engine
        self.master = master
        self.spark_conf = spark_conf
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import rewrite_file_index

        user, identifier = commit_identity(context["ti"])
        hook = LakeHook(self.lake_conn_id)
        with airflow_errors(), self.workers(hook) as executor:
            job = rewrite_file_index.Job(
                table=self.table,
                where=self.where or None,
                options=dict(self.options or {}),
                dry_run=bool(flag("dry_run", self.only_look)),
                commit_user=user,
                commit_identifier=identifier,
                lease_ms=_LEASE_MS,
                wait_ms=waiting_ms(self.wait),
                owner=lease_owner(context["ti"]),
            )
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
