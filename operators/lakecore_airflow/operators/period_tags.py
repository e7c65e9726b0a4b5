"""This module has operators that tag days and hours: the automatic tags, and one tag for each logical
date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.tags import CreateBatchTags, TriggerTagAutomaticCreation
from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.tasks.chore import ChoreOperator
from lakecore_airflow.tasks.job import flag

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CreateBatchTagsOperator", "TriggerTagAutomaticCreationOperator"]


class TriggerTagAutomaticCreationOperator(ChoreOperator):
    """Create the tags that a table's options `tag.automatic-creation`, … ask for now, and delete tags that
    are too many or too old.

    :param zone: the time zone of the days of commits, unless sink.process-time-zone names one.
    """

    definition = TriggerTagAutomaticCreation
    names_are = "tags"


class CreateBatchTagsOperator(ChoreOperator):
    """Tag the last snapshot of the run's day or hour, exactly once.

    A run tags the period of its logical date. A run without a logical date (started by an asset, or through
    the API) tags the last period that was complete when the run was due. A retry, a cleared task or a
    backfill finds the tag and does nothing. The task fails and is retried while the period is not over; it
    fails for good when the snapshot has expired.

    :param date: a time in the period, instead of the logical date.
    :param as_of: instead of `date`: tag the last period that was complete at this time.
    :param start: the first period that should have a tag; by default that of the oldest tag of these names.
    :param end: the last period; by default that of the run.
    :param backfill: create the missing tags of that range too; otherwise the report names them.
    :param period: `daily`, `hourly`, `two-hours` or a duration; `period` and `formatter` default to the
        table's options.
    :param name: the name of the tags, with `{period}` once: `eod-{period}`.
    :param delay: how long after its end a period still takes snapshots: `10 min`.
    :param by: `commit-time` or `watermark`.
    :param replace: move a tag that refers to another snapshot than the rule says, without a gap.
    :param num_retained_max: keep this many tags of these names; the newest is always kept.
    :param zone: the time zone of days and hours; by default that of the table's options, else UTC.
    :param skip_expired: skip the task, instead of failing it, when the snapshot of the period has expired.
    """

    definition = CreateBatchTags
    settings: ClassVar = {"skip_expired": None}
    names_are = "tags"

    def run_job(self, context: Context) -> dict[str, Any]:
        values = (getattr(self, name) for name in ("date", "as_of", "start", "end"))
        if not any(values):
            run: Any = context["dag_run"]
            if run.logical_date is not None:
                setattr(self, "date", run.logical_date.isoformat())  # noqa: B010 - a parameter by name
            else:
                setattr(self, "as_of", run.run_after.isoformat())  # noqa: B010
        try:
            return super().run_job(context)
        except AirflowFailException as err:
            from lakecore.errors import ExpiredError

            skip = flag("skip_expired", getattr(self, "skip_expired"))  # noqa: B009 - a field by name
            if skip and isinstance(err.__cause__, ExpiredError):
                raise AirflowSkipException(str(err.__cause__)) from err
            raise
