"""This module has the buttons of a task instance in Airflow's UI: one opens the report of its work, one
the page of its table elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

__all__ = ["ReportLink", "TableLink"]


class ReportLink(BaseOperatorLink):
    """This link leads to the XComs of the task instance, which contain its report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        parts = (ti_key.dag_id, "runs", ti_key.run_id, "tasks", ti_key.task_id)
        place = "/".join(quote(part, safe="") for part in parts)
        mapped = f"/mapped/{ti_key.map_index}" if ti_key.map_index >= 0 else ""
        return f"{_root()}/dags/{place}{mapped}/xcom"


class TableLink(BaseOperatorLink):
    """This link leads to the page of the table that the connection's field `table_url` names; without that
    field there is no link.
    """

    name = "Table"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        from lakecore_airflow.hooks import LakeHook

        return LakeHook(operator.lake_conn_id).table_url(operator.table) or ""


def _root() -> str:
    """Return Airflow's address without a slash at its end; it is empty when it is not configured."""
    from airflow.sdk import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
