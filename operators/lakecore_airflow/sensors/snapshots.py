"""This module has a sensor that waits for new data in a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakecore_airflow.airflow_names import AirflowSkipException
from lakecore_airflow.sensors.table_sensor import TableSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog

__all__ = ["NewSnapshotSensor"]

_WANTED = ("count", "rows", "kinds", "partitions", "watermark")


class NewSnapshotSensor(TableSensor):
    """Wait until a table has new data and return the range of snapshot ids, `{"table", "first", "last",
    "count"}`.

    Compactions and statistics add no new data and are skipped. In a backfill, the snapshots committed inside
    the run's data interval satisfy the sensor at once. If they are too few, the task is skipped: nothing new
    can arrive in the past. All conditions must hold together; an empty text is no condition.

    :param after_snapshot: wait for snapshots above this id. None means the last one that this task of this
        DAG consumed; its first run takes all snapshots, and a repeated run starts where its first try did.
        (templated)
    :param count: the number of snapshots; 1 by default, 0 when a watermark is given. (templated)
    :param rows: the number of rows that they must add. (templated)
    :param kinds: count only commits of these kinds, `append,overwrite` by default. (templated)
    :param partitions: count only commits that added files to one of these, `dt=a,hh=b;dt=c`. (templated)
    :param watermark: wait until the watermark of the table's newest snapshot reaches this time: a date and
        time (UTC unless it has an offset) or milliseconds. (templated)
    """

    wait = "new-snapshots"
    template_fields: Sequence[str] = (*TableSensor.template_fields, "after_snapshot", *_WANTED)

    def __init__(
        self,
        *,
        after_snapshot: int | str | None = None,
        count: int | str | None = None,
        rows: int | str | None = None,
        kinds: Sequence[str] | str | None = None,
        partitions: str | None = None,
        watermark: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.after_snapshot = after_snapshot
        self.count = count
        self.rows = rows
        self.kinds = kinds
        self.partitions = partitions
        self.watermark = watermark

    def request(self, context: Context, catalog: Catalog) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _WANTED} | {"after": self._start(context, catalog)}

    def look(self, context: Context, catalog: Catalog) -> dict[str, Any] | None:
        from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals

        interval = _backfill_interval(context)
        if interval is None:
            return super().look(context, catalog)
        condition = ArrivalCondition.from_json({name: getattr(self, name) for name in _WANTED})
        result = Arrivals(catalog.load_table(self.table), condition).within(*interval)
        if result is None:
            raise AirflowSkipException(
                f"no new data of {self.table} in the data interval of this backfill, or not enough"
            )
        return result.to_json()

    def _consumer(self) -> str:
        return f"{self.dag_id}.{self.task_id}"

    def _start(self, context: Context, catalog: Catalog) -> int:
        from lakecore.errors import InvalidInputError
        from lakecore.jobs.watching.new_snapshots import PositionStore

        choice = self.after_snapshot
        if choice is None or str(choice).strip() in ("", "None"):
            store = PositionStore(catalog.file_io, catalog.warehouse)
            return store.start(self._consumer(), self.table, context["ti"].run_id)
        try:
            return int(choice)
        except ValueError as err:
            raise InvalidInputError(f"after_snapshot={choice!r}: use a snapshot id") from err

    def accept(self, context: Context, catalog: Catalog, result: dict[str, Any]) -> dict[str, Any]:
        """Return the range. A backfill reads the past: it does not move the position of the DAG's
        other runs.
        """
        from lakecore.jobs.watching.new_snapshots import Position, PositionStore

        if _backfill_interval(context) is None:
            store = PositionStore(catalog.file_io, catalog.warehouse)
            start = self._start(context, catalog)
            position = Position(run=context["ti"].run_id, after=start, last=result["last"])
            store.save(self._consumer(), self.table, position)
        return super().accept(context, catalog, result)


def _backfill_interval(context: Context) -> tuple[int, int] | None:
    """Return the data interval of a backfill run in milliseconds; None in any other run.

    A schedule without width gives an interval of length zero: the day before its end is taken instead.
    """
    run = context.get("dag_run")
    if run is None or str(getattr(run.run_type, "value", run.run_type)) != "backfill":
        return None
    start, end = run.data_interval_start, run.data_interval_end
    if start is None or end is None:
        return None
    if start == end:
        start = end - timedelta(days=1)
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)
