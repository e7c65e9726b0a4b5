"""This module has the buttons of a task instance in Airflow's UI: one opens the report of its work, one
the page of its table elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

__all__ = ["ReportLink", "TableLink", "report_address"]


class ReportLink(BaseOperatorLink):
    """This link leads to the tab of the task instance that shows its report (`ui.plugin`)."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return report_address(ti_key)


class TableLink(BaseOperatorLink):
    """This link leads to the page of the table that the connection's field `table_url` names; without that
    field there is no link.
    """

    name = "Table"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        from lakecore_airflow.hooks import LakeHook

        return LakeHook(operator.lake_conn_id).table_url(operator.table) or ""


def report_address(task: Any) -> str:
    """Return the address of the report of a task instance, or of its key."""
    parts = (task.dag_id, "runs", task.run_id, "tasks", task.task_id)
    place = "/".join(quote(part, safe="") for part in parts)
    mapped = f"/mapped/{task.map_index}" if task.map_index is not None and task.map_index >= 0 else ""
    return f"{_root()}/dags/{place}{mapped}/plugin/lake_task"


def _root() -> str:
    """Return Airflow's address without a slash at its end; it is empty when it is not configured."""
    from lakecore_airflow.airflow_names import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
