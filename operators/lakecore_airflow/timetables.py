"""This module has the timetable of DAGs that begin nothing during black-outs, which the plugin has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.trigger import CronTriggerTimetable

from lakecore.errors import InvalidInputError
from lakecore.jobs.window.blackout import BlackoutCalendar

if TYPE_CHECKING:
    from pendulum import DateTime

__all__ = ["OpenDaysTimetable"]

_MOST_SKIPPED = 500
"""After so many black-outs without a time between them there is no further run."""


class OpenDaysTimetable(Timetable):
    """It starts runs at the times of a cron expression (UTC), except for those within black-outs. The data
    interval of a run is the day before it. A time that is left out is not caught up.
    """

    def __init__(self, cron: str, blackouts: Sequence[Mapping[str, str]]) -> None:
        self.cron = cron
        self.blackouts = [dict(one) for one in blackouts]
        self._times = CronTriggerTimetable(cron, timezone="UTC", interval=timedelta(days=1))
        self._calendar = BlackoutCalendar.parse(self.blackouts)
        self.description = f"{self._times.description or cron}, except for black-outs"

    @property
    def summary(self) -> str:
        return f"{self.cron}, except for black-outs"

    def validate(self) -> None:
        """Raise AirflowTimetableInvalid for a cron expression that is none."""
        self._times.validate()

    def serialize(self) -> dict[str, Any]:
        return {"cron": self.cron, "blackouts": self.blackouts}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        try:
            return cls(data["cron"], data["blackouts"])
        except InvalidInputError as err:
            raise AirflowTimetableInvalid(str(err)) from err

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return self._times.infer_manual_data_interval(run_after=run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        for _ in range(_MOST_SKIPPED):
            info = self._times.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
            closed = self._calendar.closed_at(_millis(info)) if info is not None else None
            if info is None or closed is None:
                return info
            if closed.end_ms is None:
                return None
            before_end = timedelta(milliseconds=closed.end_ms - _millis(info) - 1)
            last = DataInterval.exact(info.run_after + before_end)
        return None


def _millis(info: DagRunInfo) -> int:
    return int(info.run_after.timestamp() * 1000)
