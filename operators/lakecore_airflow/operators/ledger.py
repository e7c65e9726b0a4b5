"""Operators on the ledger and the quarantine: list what maintenance did, explain why a file stays, replay a
history with other options, undo a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lakecore.jobs.definitions.repair import Purge, Undo, Why
from lakecore.jobs.definitions.table_job import Safety
from lakecore.jobs.definitions.what_if import WhatIf
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.reports.metrics import count
from lakecore_airflow.tasks.chore import ChoreOperator, lease_owner, sentence
from lakecore_airflow.tasks.job import JobTask
from lakecore_airflow.tasks.table_task import xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["ListRunsOperator", "PurgeQuarantineOperator", "UndoOperator", "WhatIfOperator", "WhyOperator"]


class WhyOperator(ChoreOperator):
    """Say what blocks the expiry of a table, or retains one of its files or snapshots. The operator changes
    nothing.

    :param subject: a snapshot's id, or the name of a file; None asks about the table.
    """

    definition = Why


class WhatIfOperator(JobTask):
    """Replay maintenance with other options on the history of a table, and report what they would have cost
    and saved. The operator changes nothing.

    :param options: options of the table to compare with its own. (templated)
    :param policy: a list of rules, or its text as JSON, whose options are compared. (templated)
    :param chores: which chores are replayed; by default all that can be. (templated)
    :param strategy: `universal` or `full`, for compactions. (templated)
    :param every: how often they run, for example `1 d`; by default after each commit. (templated)
    :param zone: the time zone of the clock by which partitions were written. (templated)
    """

    definition = WhatIf
    ui_color = "#e8e3f3"

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import what_if
        from lakecore.jobs.definitions.values import new_job

        with airflow_errors():
            job = new_job(WhatIf, self.job_fields(context))
            report = what_if.run(job, LakeHook(self.lake_conn_id).catalog())
        for one in report.expiry:
            self.log.info("%s: %s: %d bytes on average", report.table, one.variant, one.average_bytes)
        for two in report.compaction:
            self.log.info("%s: %s: %s runs on average", report.table, two.variant, two.average_runs)
        for three in report.partitions:
            self.log.info("%s: %s: %d partitions expired", report.table, three.variant, three.expired)
        raw = report.to_json()
        for one in (*raw["expiry"], *raw["partitions"], *raw["compaction"]):
            del one["runs"]
            one.pop("points", None)
        return raw


class UndoOperator(JobTask):
    """Restore what a run moved to the quarantine. A second undo of the same run fails.

    :param undo_run: the `run` of its report, `{{ ti.xcom_pull("delete_tag")["run"] }}`. (templated)
    :param dry_run: report what would come back and change nothing. (templated)
    :param external: also to `data-file.external-paths`, where the files were there. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`. (templated)
    """

    definition = Undo
    without = ("quarantine",)
    required = ("undo_run",)
    ui_color = "#e8e3f3"

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.clock import SystemClock
        from lakecore.jobs import quarantine
        from lakecore.jobs.definitions.values import fields_of, new_job

        with airflow_errors():
            safety = fields_of(Safety, self.parameter_values(), SystemClock().now_ms())
            owned = Safety(**safety, owner=lease_owner(context["ti"]))
            job = new_job(Undo, self.job_fields(context) | {"safety": owned})
            report = quarantine.run(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("%s", sentence(report.to_json()))
        raw = xcom_summary(report.to_json(), "snapshots", "names", "notes")
        count(report.job, raw)
        return raw


class PurgeQuarantineOperator(JobTask):
    """Delete for good the runs in the warehouse's quarantine that are too old, and the oldest beyond a size.

    :param quarantine_ttl: runs older than that lose their files, for example `7 d`. (templated)
    :param quarantine_cap: bytes that may stay, for example `100 gb`; `none` is no limit. (templated)
    """

    definition = Purge
    ui_color = "#e8e3f3"

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import quarantine
        from lakecore.jobs.definitions.values import new_job

        with airflow_errors():
            job = new_job(Purge, self.job_fields(context))
            report = quarantine.run(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("the quarantine lost %d runs with %d bytes", len(report.names), report.bytes)
        raw = xcom_summary(report.to_json(), "snapshots", "names", "notes")
        count(report.job, raw)
        return raw


class ListRunsOperator(BaseOperator):
    """List the newest lines of the ledger, the newest first: what maintenance did.

    :param table: only of this table; None means all. (templated)
    :param limit: at most so many lines. (templated)
    """

    template_fields: Sequence[str] = ("table", "limit", "lake_conn_id")

    def __init__(
        self,
        *,
        table: str | None = None,
        limit: int | str = 20,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.limit = limit
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from lakecore.jobs import quarantine

        with airflow_errors():
            records = quarantine.runs_of(LakeHook(self.lake_conn_id).catalog(), self.table or None)
        newest = list(reversed(records))[: int(self.limit)]
        columns = ("id", "table", "job", "state", "started_ms", "finished_ms", "outcome")
        return [{key: record.to_json()[key] for key in columns} for record in newest]
