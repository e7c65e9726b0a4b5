"""This module finds the smallest and largest value and the null count per column of a file, from Arrow
batches or a parquet footer.

Floats are ordered as in the format: -0.0 < 0.0 and NaN above everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass

__all__ = [
    "ArrowBounds",
    "ColumnBounds",
    "FloatFlags",
    "has_bounds",
    "internal_value",
    "leaves",
    "parquet_bounds",
]

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """These are bounds of one column as internal values; None where unknown or where there is no value."""

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None


def has_bounds(data_type: pa.DataType) -> bool:
    """Return whether statistics order a type. Rule of the format: bytes and nested types have no order."""
    if pa.types.is_nested(data_type):
        return False
    return not (
        pa.types.is_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_null(data_type)
    )


class ArrowBounds:
    """These are bounds over batches, for formats whose writers do not report them. It costs about a pass
    over the data.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._marks = FloatFlags(schema)
        self._bounds = {field.name: ColumnBounds(null_count=0) for field in schema}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; its columns are in the order of the schema."""
        self._marks.add(batch)
        for field, column in zip(self._schema, batch.columns, strict=True):
            bounds = self._bounds[field.name]
            nulls = (bounds.null_count or 0) + column.null_count
            low, high = _min_max(column) if has_bounds(field.type) else (None, None)
            self._bounds[field.name] = _wider(replace(bounds, null_count=nulls), low, high)

    def finish(self) -> Mapping[str, ColumnBounds]:
        """Return the bounds of every column by name."""
        return {name: self._marks.correct(name, bounds) for name, bounds in self._bounds.items()}


@dataclass(slots=True)
class _Marks:
    nan: bool = False
    negative_zero: bool = False
    positive_zero: bool = False


class FloatFlags:
    """These are facts about float columns that parquet's own statistics lack: NaN, and which zeros occur."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [i for i, field in enumerate(schema) if pa.types.is_floating(field.type)]
        self._names = schema.names
        self._marks = {schema.names[i]: _Marks() for i in self._columns}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; its columns are in the order of the schema."""
        for i in self._columns:
            _mark(self._marks[self._names[i]], batch.column(i))

    def correct(self, name: str, bounds: ColumnBounds) -> ColumnBounds:
        """Return correct the bounds of a column whose NaNs were left out and whose zeros may have either
        sign.
        """
        marks = self._marks.get(name)
        if marks is None:
            return bounds
        low, high = bounds.minimum, bounds.maximum
        if low == 0:
            low = -0.0 if marks.negative_zero else 0.0
        if high == 0:
            high = 0.0 if marks.positive_zero else -0.0
        if marks.nan:
            low, high = _NAN if low is None else low, _NAN
        return replace(bounds, minimum=low, maximum=high)


def _mark(marks: _Marks, column: pa.Array) -> None:
    """Record which of NaN and zeros a column has. Most columns have neither, which one look at the smallest
    value and one at the largest tells.
    """
    if column.null_count == len(column):
        return
    values = _slots(column)
    if values.min() > 0 or values.max() < 0:  # (both false with a NaN; a slot under a null may hold anything)
        return
    if column.null_count:
        values = _slots(column.drop_null())
    marks.nan = marks.nan or bool(np.isnan(values).any())
    if not (marks.negative_zero and marks.positive_zero):
        signs = np.signbit(values[values == 0])
        marks.negative_zero |= bool(signs.any())
        marks.positive_zero |= not signs.all()


def _slots(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column of floats, without a copy, including those at null positions."""
    dtype = np.float32 if column.type == pa.float32() else np.float64
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * np.dtype(dtype).itemsize)


def parquet_bounds(
    metadata: Any, schema: pa.Schema, null_counts: Sequence[int], marks: FloatFlags
) -> Mapping[str, ColumnBounds]:
    """Return the bounds of a footer. `null_counts` is per column of `schema`.

    Nested columns have none at all, bytes and INT96 timestamps only a null count (rule of the format).
    """
    out: dict[str, ColumnBounds] = {}
    leaf = 0
    for field, nulls in zip(schema, null_counts, strict=True):
        if pa.types.is_nested(field.type):
            out[field.name] = ColumnBounds()
            leaf += leaves(field.type)
            continue
        bounds = ColumnBounds(null_count=nulls)
        if has_bounds(field.type):
            bounds = _over_groups(metadata, leaf, field.type, bounds)
        out[field.name] = marks.correct(field.name, bounds)
        leaf += 1
    return out


def leaves(data_type: pa.DataType) -> int:
    """Return the number of leaf columns that parquet stores for a type."""
    if not pa.types.is_nested(data_type):
        return 1
    if pa.types.is_map(data_type):
        return leaves(data_type.key_type) + leaves(data_type.item_type)
    if pa.types.is_struct(data_type):
        return sum(leaves(field.type) for field in data_type)
    return leaves(data_type.value_type)


def _over_groups(metadata: Any, leaf: int, data_type: pa.DataType, bounds: ColumnBounds) -> ColumnBounds:
    nulls = bounds.null_count
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(leaf)
        stats = column.statistics
        if stats is not None and stats.has_min_max:
            bounds = _wider(
                bounds, internal_value(stats.min_raw, data_type), internal_value(stats.max_raw, data_type)
            )
        elif not pa.types.is_floating(data_type) and (stats is None or stats.null_count != column.num_values):
            return ColumnBounds(null_count=nulls)  # (a group of floats without bounds holds only NaN)
    return bounds


def internal_value(raw: Any, data_type: pa.DataType) -> Any:
    """Convert a physical value of parquet to an internal value."""
    if pa.types.is_decimal(data_type):
        number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return _unscaled_decimal(number, data_type.scale)
    if pa.types.is_timestamp(data_type):
        return raw * _NANOS[data_type.unit]
    if pa.types.is_string(data_type):
        return raw.decode() if isinstance(raw, bytes) else raw
    return raw


def _unscaled_decimal(number: int, scale: int) -> Decimal:
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale))


def _min_max(column: pa.Array) -> tuple[Any, Any]:
    if column.null_count == len(column):
        return None, None
    if pa.types.is_timestamp(column.type):
        low, high = _min_max(column.view(pa.int64()))
        factor = _NANOS[column.type.unit]
        return low * factor, high * factor
    if pa.types.is_date(column.type) or pa.types.is_time(column.type):
        return _min_max(column.view(pa.int32()))
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    # of floats NaN is left out, which FloatFlags makes up for; a batch of nothing else has no bounds
    return (None, None) if low != low else (low, high)


def _wider(bounds: ColumnBounds, low: Any, high: Any) -> ColumnBounds:
    if low is None:
        return bounds
    minimum = low if bounds.minimum is None or low < bounds.minimum else bounds.minimum
    maximum = high if bounds.maximum is None or high > bounds.maximum else bounds.maximum
    return replace(bounds, minimum=minimum, maximum=maximum)
