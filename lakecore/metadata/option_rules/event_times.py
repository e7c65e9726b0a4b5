"""This module says which column of a table has the time of a row, and how late rows may come: an option says
so, or the watermark that a DDL statement of Flink declared. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.options import Option, parse_duration_ms
from lakecore.types.datatypes import AtomicType, RowType, TypeRoot

__all__ = ["READ_WATERMARK", "EventTimeRule"]

READ_WATERMARK: Option[str | None] = Option(
    "read.watermark", str.strip, None, "The event time of a stream: a time column, less a delay: `ts - 5 s`."
)
_ROWTIME, _EXPRESSION = "schema.watermark.0.rowtime", "schema.watermark.0.strategy.expr"
_DECLARED = re.compile(
    r"(?P<column>`(?:[^`]|``)+`|\w+)"
    r"(?:\s*-\s*INTERVAL\s*'(?P<count>\d+(?:\.\d+)?)'\s*(?P<unit>SECOND|MINUTE|HOUR|DAY)S?(?:\(\d+\))?)?",
    re.IGNORECASE,
)
_UNIT_MS = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class EventTimeRule:
    """The watermark of rows is the latest time of this column, less the delay."""

    column: str
    delay_ms: int

    @classmethod
    def of_option(
        cls, option: Option[str | None], row_type: RowType, raw: Mapping[str, str]
    ) -> EventTimeRule | None:
        """Parse an option such as `ts - 5 s`, None without it. Raises InvalidOptionError for another form, an
        unknown column, or one that has no times.
        """
        text = option.read(raw)
        if text is None:
            return None
        column, minus, delay = text.rpartition(" - ") if " - " in text else (text, "", "")
        times = _time_columns(row_type)
        if column not in times:
            raise InvalidOptionError(
                f"option {option.key}={text!r}: {column!r} is no TIMESTAMP column of the table; "
                f"those are {', '.join(times) or 'none'}"
            )
        try:
            return cls(column, parse_duration_ms(delay) if minus else 0)
        except ValueError as err:
            raise InvalidOptionError(
                f"option {option.key}={text!r}: the delay is not a duration such as 5 s: {err}"
            ) from err

    @classmethod
    def declared(cls, row_type: RowType, raw: Mapping[str, str]) -> EventTimeRule | None:
        """Parse the watermark that Flink's `WATERMARK FOR col AS col - INTERVAL '5' SECOND` stored in the
        options of the table; None without one.

        Raises UnsupportedError for an expression of another form, and for a column that the files of the
        table do not have.
        """
        if _EXPRESSION not in raw:
            return None
        text = raw[_EXPRESSION].strip()
        match = _DECLARED.fullmatch(text)
        column = None if match is None else _plain(match["column"])
        times = _time_columns(row_type)
        if match is None or column not in times or raw.get(_ROWTIME, column) != column:
            raise UnsupportedError(
                f"option {_EXPRESSION}={text!r} (column {raw.get(_ROWTIME)!r}): a declared watermark must be "
                "a TIMESTAMP column of the table, or such a column less an INTERVAL of SECOND, MINUTE, HOUR "
                f"or DAY; the columns are {', '.join(times) or 'none'}; name one with the option "
                f"{READ_WATERMARK.key}, such as 'ts - 5 s'"
            )
        delay = 0 if match["count"] is None else Decimal(match["count"]) * _UNIT_MS[match["unit"].upper()]
        return cls(column, int(delay))

    @classmethod
    def of_reads(cls, row_type: RowType, raw: Mapping[str, str]) -> EventTimeRule | None:
        """Return the rule of the option `read.watermark`, or else the declared one. Raises the errors of
        both.
        """
        rule = cls.of_option(READ_WATERMARK, row_type, raw)
        return cls.declared(row_type, raw) if rule is None else rule


def _time_columns(row_type: RowType) -> list[str]:
    return [
        field.name for field in row_type if isinstance(field.type, AtomicType) and field.type.root in _TIMES
    ]


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
