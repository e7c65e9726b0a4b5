"""This module converts Arrow arrays to lists of internal values and back (TIMESTAMP is int nanoseconds;
see `binary_row`).

It works value by value in Python, so it is for keys, partitions, literals and JSON, not for the merge of
data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.types.arrow import arrow_type, arrow_values
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

__all__ = ["array_values", "batch_rows", "normal_array", "rows_batch", "values_array"]

_UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_COUNT_TYPE = AtomicType(TypeRoot.INT, nullable=False)
_DAY_TYPES = (TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def batch_rows(batch: pa.RecordBatch, row_type: RowType) -> list[tuple[Any, ...]]:
    """Return the rows of `batch` as tuples in the order of `row_type`; columns are found by name."""
    columns = [array_values(batch.column(field.name), field.type) for field in row_type.fields]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def rows_batch(rows: Sequence[Sequence[Any]], row_type: RowType, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of internal values as one batch of `schema`, the Arrow schema of `row_type`."""
    columns = [values_array([row[i] for row in rows], field.type) for i, field in enumerate(row_type.fields)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def normal_array(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Return `column` in one piece, in the Arrow type of `data_type`.

    Raises InvalidInputError if it cannot be cast.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    target = arrow_type(data_type)
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        raise InvalidInputError(f"a column of Arrow type {column.type} as {data_type}") from err


def array_values(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the values of `column` (of any Arrow type that holds `data_type`)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match data_type:
        case AtomicType():
            return _atomic_values(array, data_type)
        case ArrayType(element=element):
            return _cut(array, array_values(array.values, element))
        case VectorType(element=element, length=length):
            items = array_values(array.values, element)
            starts = [(array.offset + i) * length for i in range(len(array))]
            return _mask_values(array, [items[start : start + length] for start in starts])
        case MapType(key=key, value=value):
            return _pairs(array, key, value)
        case MultisetType(element=element):
            return _pairs(array, element, _COUNT_TYPE)
        case RowType(fields=fields):
            parts = [array_values(array.field(i), field.type) for i, field in enumerate(fields)]
            return _mask_values(array, list(zip(*parts, strict=True)) if parts else [()] * len(array))


def _atomic_values(array: pa.Array, data_type: AtomicType) -> list[Any]:
    if data_type.root is TypeRoot.VARIANT:
        names = ("value", "metadata")
        return _mask_values(array, list(zip(*(array.field(name).to_pylist() for name in names), strict=True)))
    if pa.types.is_timestamp(array.type):
        factor = _UNIT_NANOS[array.type.unit]
        values: list[Any] = array.view(pa.int64()).to_pylist()
        return values if factor == 1 else [None if v is None else v * factor for v in values]
    if data_type.root in _DAY_TYPES and array.type in (pa.date32(), pa.time32("ms"), pa.time32("s")):
        return list(normal_array(array, data_type).view(pa.int32()).to_pylist())
    return list(normal_array(array, data_type).to_pylist())


def _mask_values(array: pa.Array, values: list[Any]) -> list[Any]:
    if array.null_count == 0:
        return values
    valid = array.is_valid().to_pylist()
    return [value if ok else None for value, ok in zip(values, valid, strict=True)]


def _cut(array: pa.Array, items: list[Any]) -> list[Any]:
    ends = array.offsets.to_pylist()
    return _mask_values(array, [items[ends[i] : ends[i + 1]] for i in range(len(array))])


def _pairs(array: pa.Array, key: DataType, value: DataType) -> list[Any]:
    pairs = zip(array_values(array.keys, key), array_values(array.items, value), strict=True)
    return _cut(array, list(pairs))


def values_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Return an array in the Arrow type of `data_type`. Raises InvalidInputError for a value out of range."""
    try:
        return _build(values, data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as err:
        raise InvalidInputError(f"values of type {data_type}: {err}") from err


def _build(values: Sequence[Any], data_type: DataType) -> pa.Array:
    target = arrow_type(data_type)
    match data_type:
        case AtomicType():
            return _build_atomic(values, data_type, target)
        case ArrayType(element=element):
            return pa.ListArray.from_arrays(_offsets(values), _build(_flat(values), element), type=target)
        case MapType(key=key, value=value):
            return _build_map(values, (key, value), target)
        case MultisetType(element=element):
            return _build_map(values, (element, _COUNT_TYPE), target)
        case VectorType(element=element, length=length):
            filled = [value if value is not None else [None] * length for value in values]
            items = _build(list(chain.from_iterable(filled)), element)
            return pa.FixedSizeListArray.from_arrays(items, type=target, mask=_mask(values))
        case RowType(fields=fields):
            columns = [_children(values, i, field.type) for i, field in enumerate(fields)]
            return pa.StructArray.from_arrays(columns, fields=list(target), mask=_mask(values))


def _build_atomic(values: Sequence[Any], data_type: AtomicType, target: pa.DataType) -> pa.Array:
    if data_type.root in _TIMESTAMPS:
        return arrow_values(values, target)
    if data_type.root in _DAY_TYPES:
        return pa.array(values, pa.int32()).view(target)
    if data_type.root is TypeRoot.VARIANT:
        columns = [pa.array([b"" if v is None else v[i] for v in values], pa.binary()) for i in (0, 1)]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=_mask(values))
    return pa.array(values, target)


def _build_map(values: Sequence[Any], parts: tuple[DataType, DataType], target: pa.DataType) -> pa.Array:
    pairs = _flat(values)
    keys = _build([pair[0] for pair in pairs], parts[0])
    items = _build([pair[1] for pair in pairs], parts[1])
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target)


def _children(values: Sequence[Any], index: int, data_type: DataType) -> pa.Array:
    return _build([None if value is None else value[index] for value in values], data_type)


def _flat(values: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(value for value in values if value is not None))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """List offsets; a null offset marks a null list (Arrow's convention for `from_arrays`)."""
    offsets: list[int | None] = []
    total = 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    return pa.array([*offsets, total], pa.int32())


def _mask(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
