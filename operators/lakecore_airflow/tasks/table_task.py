"""This module has the base of tasks that work on one table: it publishes their reports as events, metrics
and lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from lakecore_airflow.assets import announce
from lakecore_airflow.links import ReportLink, TableLink
from lakecore_airflow.reports.lineage import lineage_of
from lakecore_airflow.reports.metrics import count
from lakecore_airflow.reports.outcome import label_of
from lakecore_airflow.secrets import LakeTask

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

__all__ = ["TableTask", "tell_outcome", "xcom_summary"]

_LISTED = 20


class TableTask(LakeTask):
    """An operator with `table` and `lake_conn_id`: it has two links, asset events, metrics and lineage."""

    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), TableLink())
    names_are: ClassVar[str] = "names"
    """This is what the `names` of its reports are to an asset event: `tags`, `partitions`, …"""

    table: str
    lake_conn_id: str
    _report: Mapping[str, Any] | None = None

    def publish_report(
        self, context: Context, job: str, report: dict[str, Any], names: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Send the report to the outlets and the metrics, and return it. `names` are all names that it is
        about.
        """
        if self._report is None or not report.get("nothing_to_do"):
            self._report = report  # of several reports lineage tells the last that changed something
        tell_outcome(context, report)
        announce(context, self, job, report, (self.names_are, names))
        count(job, report)
        return report

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Airflow's OpenLineage provider asks for this when the task has succeeded; None without a report."""
        if self._report is None:
            return None
        return lineage_of(self.table, self.lake_conn_id, self._report)


def tell_outcome(context: Context, report: Mapping[str, Any]) -> None:
    """Let the label of a mapped task name its outcome, see `reports.outcome.LABEL`."""
    cast("dict[str, Any]", context)["outcome"] = label_of(report)


def xcom_summary(raw: Mapping[str, Any], *lists: str) -> dict[str, Any]:
    """Shorten a report for XCom: long lists become their first entries and a count."""
    counts = {f"{name}_count": len(raw[name]) for name in lists}
    return {**raw, **counts, **{name: list(raw[name])[:_LISTED] for name in lists}}
