"""This module computes what planners need to know of a column, batch by batch: distinct values, bounds,
nulls, lengths. No IO.

Rules of the format (what Spark's ANALYZE TABLE records): lengths of texts count characters, of bytes bytes,
the average rounded up; values of fixed width have the width of their type, decimals 8 or 16; texts and bytes
have no bounds; of NaN and numbers NaN is the highest. Bounds are texts, dates and times as numbers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot
from lakecore.verify.digest.array_hash import hash_array

__all__ = ["ColumnSketch", "bounds_text", "can_analyze"]

_MOST_HASHES = 1 << 15
"""Hashes kept of a column: counts are exact up to so many distinct values, then within about 0.6 %."""
_HASHES = 2.0**64
_SHORT_DECIMAL_DIGITS = 18
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)

Hashes = npt.NDArray[np.uint64]


def can_analyze(field: DataField) -> bool:
    """Return whether a column can have statistics: nested values and variants cannot."""
    roots = (*_WIDTHS, *_TEXTS, *_BYTES, TypeRoot.DECIMAL)
    return isinstance(field.type, AtomicType) and field.type.root in roots


@dataclass(slots=True)
class _Bounds:
    low: Any = None
    high: Any = None

    def add(self, low: Any, high: Any) -> None:
        if low is None:
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)


class ColumnSketch:
    """These are the statistics of one column, computed batch by batch. They need 256 kB of memory for
    hashes. It raises nothing; `field` must be one that `can_analyze`.
    """

    def __init__(self, field: DataField) -> None:
        assert isinstance(field.type, AtomicType)
        self._field = field
        self._root = field.type.root
        self._hashes: Hashes = np.zeros(0, np.uint64)
        self._whole = True
        self._values = 0
        self._nulls = 0
        self._bounds = _Bounds()
        self._nan = False
        self._length = 0
        self._longest = 0

    def add(self, column: pa.Array) -> None:
        """Add rows of the column."""
        self._nulls += column.null_count
        column = column.drop_null()
        if not len(column):
            return
        self._values += len(column)
        self._count(column)
        if self._root in (*_TEXTS, *_BYTES):
            lengths = pc.utf8_length(column) if self._root in _TEXTS else pc.binary_length(column)
            self._length += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
        else:
            self._bound(column)

    def merged(self, other: ColumnSketch) -> ColumnSketch:
        """Return the sketch of the rows of both: it equals one sketch of all of them."""
        both = ColumnSketch(self._field)
        hashes = np.union1d(self._hashes, other._hashes)
        both._whole = self._whole and other._whole and len(hashes) <= _MOST_HASHES
        both._hashes = hashes[:_MOST_HASHES]  # the lowest of all are among the lowest of each
        both._values, both._nulls = self._values + other._values, self._nulls + other._nulls
        both._bounds.add(self._bounds.low, self._bounds.high)
        both._bounds.add(other._bounds.low, other._bounds.high)
        both._nan = self._nan or other._nan
        both._length = self._length + other._length
        both._longest = max(self._longest, other._longest)
        return both

    def to_json(self) -> dict[str, Any]:
        """Convert the sketch to the form of the statistics file; unknown values are left out."""
        fields: dict[str, Any] = {"colId": self._field.id, "distinctCount": self.distinct}
        if self._bounds.low is not None or self._nan:
            high = float("nan") if self._nan else self._bounds.high
            low = high if self._bounds.low is None else self._bounds.low
            fields |= {"min": self._text(low), "max": self._text(high)}
        average, longest = self._lengths()
        return fields | {"nullCount": self._nulls, "avgLen": average, "maxLen": longest}

    @property
    def distinct(self) -> int:
        """Return the number of distinct values without null; beyond the kept hashes it is an estimate from
        the highest one.
        """
        if self._whole:
            return len(self._hashes)
        share = (float(self._hashes[-1]) + 1) / _HASHES
        return min(self._values, round((len(self._hashes) - 1) / share))

    def _count(self, column: pa.Array) -> None:
        hashes = np.unique(hash_array(column, 1))
        if not self._whole:
            hashes = hashes[hashes < self._hashes[-1]]
        both = np.union1d(self._hashes, hashes)
        self._whole &= len(both) <= _MOST_HASHES
        self._hashes = both[:_MOST_HASHES]

    def _bound(self, column: pa.Array) -> None:
        if pa.types.is_floating(column.type):
            nan = pc.is_nan(column)
            self._nan |= bool(pc.any(nan).as_py())
            column = column.filter(pc.invert(nan))
        elif pa.types.is_timestamp(column.type):
            factor = _NANOS[column.type.unit]
            bounds = pc.min_max(pc.cast(column, pa.int64()))
            self._bounds.add(bounds["min"].as_py() * factor, bounds["max"].as_py() * factor)
            return
        elif pa.types.is_date(column.type) or pa.types.is_time32(column.type):
            column = pc.cast(column, pa.int32())
        bounds = pc.min_max(column)
        self._bounds.add(bounds["min"].as_py(), bounds["max"].as_py())

    def _lengths(self) -> tuple[int, int]:
        data_type = self._field.type
        assert isinstance(data_type, AtomicType)
        if self._root is TypeRoot.DECIMAL:
            width = 8 if (data_type.precision or 0) <= _SHORT_DECIMAL_DIGITS else 16
            return width, width
        if self._root in _WIDTHS:
            return _WIDTHS[self._root], _WIDTHS[self._root]
        return -(-self._length // max(self._values, 1)), self._longest

    def _text(self, value: Any) -> str:
        assert isinstance(self._field.type, AtomicType)
        return bounds_text(value, self._field.type)


def bounds_text(value: Any, data_type: AtomicType) -> str:
    """Return the text of an internal value that bounds a column. Rule of the format: dates and times are
    numbers.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _time_text(value, data_type.precision or 0)
    return str(value)


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def _time_text(nanos: int, precision: int) -> str:
    """Return a time as in `2024-01-01 00:00:00.123`, with as many digits as the type has."""
    seconds, rest = divmod(nanos, 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{text}.{rest:09d}"[: len(text) + 1 + precision] if precision else text
