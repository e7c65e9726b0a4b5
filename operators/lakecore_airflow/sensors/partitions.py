"""This module has a sensor that waits until partitions are done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakecore_airflow.sensors.table_sensor import TableSensor, logical_day

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog

__all__ = ["PartitionDoneSensor"]


class PartitionDoneSensor(TableSensor):
    """Wait until partitions are marked as done, by a file `_SUCCESS` in each, and return `{"table",
    "partitions", "modified_millis"}`.

    :param partitions: `dt=a,hh=b;dt=c`, with all partition columns; all of them must be done. None means the
        partition of the run's logical date or, in a run without one, of the last complete day. (templated)
    :param partition_format: how the name of that partition is written, in the codes of `strftime`:
        `dt=%Y-%m-%d,hh=%H`. (templated)
    """

    wait = "partitions-done"
    template_fields: Sequence[str] = (*TableSensor.template_fields, "partitions", "partition_format")

    def __init__(
        self, *, partitions: str | None = None, partition_format: str = "dt=%Y-%m-%d", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.partition_format = partition_format

    def request(self, context: Context, catalog: Catalog) -> dict[str, Any]:
        text = "" if self.partitions is None else str(self.partitions).strip()
        if text in ("", "None"):
            text = logical_day(context).strftime(self.partition_format)
        return {"partitions": text}
