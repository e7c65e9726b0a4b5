"""Checking a table as an Airflow task, and planning its repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators.chore import flag
from operators.hooks import LakeHook, airflow_errors
from operators.links import ReportLink, TableLink
from operators.metrics import count
from operators.task import small

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

__all__ = ["FAIL_ON", "FsckOperator"]

FAIL_ON = ("damage", "any", "nothing")


class FsckOperator(BaseOperator):
    """Check a table: hints, snapshots, manifests, data files, key order, levels, totals, orphans. Changes
    nothing. Returns counts and the first findings (small, JSON), also of a task that fails.

    :param table: `database.table`. (templated)
    :param fail_on: `damage`: findings that can lose or change rows fail the task, at once, for no retry mends
        them; `any`: wrong hints and orphans, too; `nothing`: they are only reported. (templated)
    :param no_data: do not open data files: no row counts, no key order. (templated)
    :param deep: check every snapshot on its own and decode every column. (templated)
    :param plan: also make a plan of repair: the XCom `plan`, as JSON, is what `RepairOperator(plan=…)` takes.
        (templated)
    """

    template_fields: Sequence[str] = ("table", "fail_on", "no_data", "deep", "plan", "lake_conn_id")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), TableLink())
    ui_color = "#e8e3f3"

    def __init__(
        self,
        *,
        table: str,
        fail_on: str = "damage",
        no_data: bool | str = False,
        deep: bool | str = False,
        plan: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.fail_on = fail_on
        self.no_data = no_data
        self.deep = deep
        self.plan = plan
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.errors import InvalidInputError
        from lakecore.jobs import fsck

        with airflow_errors():
            if self.fail_on not in FAIL_ON:
                raise InvalidInputError(f"fail_on={self.fail_on!r}: use one of {', '.join(FAIL_ON)}")
            wanted = {name: bool(flag(name, getattr(self, name))) for name in ("no_data", "deep", "plan")}
            catalog = LakeHook(self.lake_conn_id).catalog()
            job = fsck.Job(table=self.table, deep=wanted["deep"], read_data=not wanted["no_data"])
            checked = fsck.run(job, catalog)
            if wanted["plan"]:
                context["ti"].xcom_push("plan", fsck.plan(checked, catalog))
        raw = {"job": "fsck"} | small(checked.to_json(), "findings")
        count("fsck", raw)
        bad = {"damage": checked.report.damage, "any": checked.report.findings}.get(self.fail_on, ())
        for finding in checked.report.findings[:20]:
            self.log.warning("%s", finding)
        if bad:
            context["ti"].xcom_push("report", raw)
            rest = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise AirflowFailException(f"{self.table}: {bad[0]}{rest}")
        return raw
