"""This module has a sensor that waits for a tag of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakecore_airflow.sensors.table_sensor import TableSensor, logical_day

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog

__all__ = ["TagSensor"]


class TagSensor(TableSensor):
    """Wait until a tag exists and return `{"table", "tag", "snapshot", "time_millis", "watermark"}`.

    :param tag: the name of the tag; None means the tag of the run's logical date or, in a run without one, of
        the last complete day. (templated)
    :param tag_format: how that name is written, in the codes of `strftime`: `eod-%Y-%m-%d`. (templated)
    """

    wait = "tag"
    template_fields: Sequence[str] = (*TableSensor.template_fields, "tag", "tag_format")

    def __init__(self, *, tag: str | None = None, tag_format: str = "%Y-%m-%d", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tag = tag
        self.tag_format = tag_format

    def request(self, context: Context, catalog: Catalog) -> dict[str, Any]:
        text = "" if self.tag is None else str(self.tag).strip()
        if text in ("", "None"):
            text = logical_day(context).strftime(self.tag_format)
        return {"tag": text}
