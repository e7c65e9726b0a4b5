"""Operators on the ledger and the quarantine: list what maintenance did, explain why a file stays, undo a
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from operators.chore import ChoreOperator, flag, lease_owner, sentence, waiting_ms
from operators.hooks import LakeHook, airflow_errors
from operators.metrics import count
from operators.task import xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["ListRunsOperator", "PurgeQuarantineOperator", "UndoOperator", "WhyOperator"]


class WhyOperator(ChoreOperator):
    """Say what blocks the expiry of a table, or retains one of its files or snapshots. The operator changes
    nothing.

    :param subject: a snapshot's id, or the name of a file; None asks about the table.
    """

    module = "why"
    parameters: ClassVar = {"subject": "text"}


class UndoOperator(BaseOperator):
    """Restore what a run moved to the quarantine. A second undo of the same run fails.

    :param undo_run: the `run` of its report, `{{ ti.xcom_pull("delete_tag")["run"] }}`. (templated)
    :param dry_run: report what would come back and change nothing. (templated)
    :param external: also to `data-file.external-paths`, where the files were there. (templated)
    :param wait: how long to wait for a table that another task holds, for example `10 min`. (templated)
    """

    template_fields: Sequence[str] = ("undo_run", "preview", "external", "wait", "lake_conn_id")
    ui_color = "#e8e3f3"

    def __init__(
        self,
        *,
        undo_run: str,
        dry_run: bool | str = False,
        external: bool | str = False,
        wait: str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.undo_run = undo_run
        self.preview = dry_run
        self.external = external
        self.wait = wait
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import quarantine
        from lakecore.jobs.runner.chore import Safety

        with airflow_errors():
            safety = Safety(owner=lease_owner(context["ti"]), wait_ms=waiting_ms(self.wait))
            dry_run = bool(flag("dry_run", self.preview))
            external = bool(flag("external", self.external))
            job = quarantine.Undo(
                run_id=str(self.undo_run), dry_run=dry_run, external=external, safety=safety
            )
            report = quarantine.run(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("%s", sentence(report))
        raw = xcom_summary(report.to_json(), "snapshots", "names", "notes")
        count(report.job, raw)
        return raw


class PurgeQuarantineOperator(BaseOperator):
    """Delete for good the runs in the warehouse's quarantine that are too old, and the oldest beyond a size.

    :param quarantine_ttl: runs older than that lose their files, for example `7 d`. (templated)
    :param quarantine_cap: bytes that may stay, for example `100 gb`; `none` is no limit. (templated)
    """

    template_fields: Sequence[str] = ("quarantine_ttl", "quarantine_cap", "lake_conn_id")
    ui_color = "#e8e3f3"

    def __init__(
        self,
        *,
        quarantine_ttl: str = "7 d",
        quarantine_cap: str = "100 gb",
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.quarantine_ttl = quarantine_ttl
        self.quarantine_cap = quarantine_cap
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import quarantine
        from lakecore.jobs.runner.moment import parse_span

        with airflow_errors():
            ttl = parse_span(self.quarantine_ttl, "quarantine_ttl")
            job = quarantine.Purge(ttl_ms=ttl, cap=_size(self.quarantine_cap))
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
            found = quarantine.runs_of(LakeHook(self.lake_conn_id).catalog(), self.table or None)
        newest = list(reversed(found))[: int(self.limit)]
        wanted = ("id", "table", "job", "state", "started_ms", "finished_ms", "outcome")
        return [{key: record.to_json()[key] for key in wanted} for record in newest]


def _size(text: str) -> int | None:
    from lakecore.errors import InvalidInputError
    from lakecore.options import parse_size

    if text.strip().lower() == "none":
        return None
    try:
        return parse_size(text)
    except ValueError as err:
        raise InvalidInputError(f"quarantine_cap {text!r}: {err}") from err
