"""This module makes the watermark of a commit from the event times of its rows.

A commit has all of its rows when it is made, so that its watermark is the latest event time, less a delay.
As in Paimon a snapshot carries the highest watermark on: a commit without rows, or with late ones, keeps
that of the snapshot before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.metadata.option_rules.event_times import EventTimeRule
from lakecore.options import Option
from lakecore.types.datatypes import RowType

__all__ = ["WATERMARK_COLUMN", "EventTime"]

WATERMARK_COLUMN: Option[str | None] = Option(
    "write.watermark", str.strip, None, "The watermark of commits: a time column, less a delay: `ts - 5 s`."
)
_DIVISORS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""A value times the first, divided by the second, is in milliseconds."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """It says which column has the time of a row, and how late rows may come."""

    column: str
    delay_ms: int

    @classmethod
    def of_table(cls, row_type: RowType, raw: Mapping[str, str]) -> EventTime | None:
        """Parse the option, None without it. Raises InvalidOptionError for another form, an unknown column,
        or one that has no times.
        """
        rule = EventTimeRule.of_option(WATERMARK_COLUMN, row_type, raw)
        return None if rule is None else cls(rule.column, rule.delay_ms)

    def latest_ms(self, batch: pa.RecordBatch | pa.Table) -> int | None:
        """Return the latest event time in milliseconds since 1970; None without one. Local times count as
        UTC.
        """
        times = batch.column(self.column)
        value = pc.max(times.cast(pa.int64())).as_py()
        if value is None:
            return None
        factor, divisor = _DIVISORS[times.type.unit]
        return int(value * factor // divisor)

    def watermark(self, latest: Iterable[int | None]) -> int | None:
        """Return the watermark of a commit, whose writers had these latest times."""
        times = [one for one in latest if one is not None]
        return max(times) - self.delay_ms if times else None
