"""This module converts columns as a format stored them to the Arrow types that `types.arrow` gives the
table's types.

The same value may be stored otherwise: with other units and zones of timestamps, TIME as int, VECTOR as
list. Conversion between table types is schema evolution (`read.evolve`) and not done here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.parquet.nullable_keys import pairs_of
from lakecore.format.variant.assemble import assemble_variants, is_shredded
from lakecore.types.arrow import arrow_type
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

__all__ = ["canonical", "same_lists", "without_trailing_spaces"]

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def canonical(array: pa.Array, data_type: DataType, path: str) -> pa.Array:
    """Return `array` as `arrow_type(kind)`, at no cost if it is already. Raises CorruptDataError for other
    values.
    """
    target = arrow_type(data_type)
    padded = path.endswith(".orc") and _holds_char(data_type)
    if array.type == target and not padded:
        return array
    try:
        return _convert(array, data_type, target, path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as err:
        raise CorruptDataError(
            path, f"has a column of type {array.type}, but the schema says {data_type}: {err}"
        ) from err


def without_trailing_spaces(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return `array` without trailing spaces in CHAR values, as ORC stores them; it has the Arrow type of
    `data_type`.
    """
    return canonical(array, data_type, ".orc") if _holds_char(data_type) else array


def _holds_char(data_type: DataType) -> bool:
    """Return whether a type contains a CHAR, which ORC reads without trailing spaces."""
    match data_type:
        case AtomicType(root=TypeRoot.CHAR):
            return True
        case RowType(fields=fields):
            return any(_holds_char(field.type) for field in fields)
        case ArrayType(element=element) | MultisetType(element=element):
            return _holds_char(element)
        case MapType(key=key, value=value):
            return _holds_char(key) or _holds_char(value)
    return False


def same_lists(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return the lists (or maps) of `array` over converted child `values` (the whole child, not a slice)."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, -1, array.offset, children=[values])


def _convert(array: pa.Array, data_type: DataType, target: pa.DataType, path: str) -> pa.Array:
    match data_type:
        case RowType(fields=fields):
            return _struct(array, [(f.name, f.type) for f in fields], target, path)
        case ArrayType(element=element) if pa.types.is_list(array.type):
            return same_lists(array, target, canonical(array.values, element, path))
        case MapType(key=key, value=value) if pa.types.is_map(array.type):
            return _map(
                array, (canonical(array.keys, key, path), canonical(array.items, value, path)), target
            )
        case MapType(key=key, value=value) if (pairs := pairs_of(array)) is not None:
            both = pairs.values.field(0), pairs.values.field(1)
            return _map(pairs, (canonical(both[0], key, path), canonical(both[1], value, path)), target)
        case MultisetType(element=element) if (pairs := pairs_of(array)) is not None:
            both = pairs.values.field(0), pairs.values.field(1)
            return _map(pairs, (canonical(both[0], element, path), both[1].cast(pa.int32())), target)
        case MultisetType(element=element) if pa.types.is_map(array.type):
            return _map(array, (canonical(array.keys, element, path), array.items.cast(pa.int32())), target)
        case VectorType():
            return array.cast(target)
    if path.endswith(".orc") and _holds_char(data_type):
        return pc.utf8_rtrim(array.cast(target), characters=" ")
    return _atomic(array, target, path)


def _map(array: pa.Array, pair: tuple[pa.Array, pa.Array], target: pa.DataType) -> pa.Array:
    entries = pa.StructArray.from_arrays(list(pair), fields=[target.key_field, target.item_field])
    return same_lists(array, target, entries)


def _struct(array: pa.Array, fields: list[tuple[str, DataType]], target: pa.DataType, path: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise CorruptDataError(path, f"has a column of type {array.type}, but the schema says ROW")
    children = []
    for name, kind in fields:
        at = array.type.get_field_index(name)
        if at < 0:
            raise CorruptDataError(path, f"lacks field {name} of a ROW; its fields are {array.type}")
        children.append(canonical(array.field(at), kind, path))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None


def _atomic(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    source = array.type
    if pa.types.is_timestamp(target) and (pa.types.is_timestamp(source) or pa.types.is_int64(source)):
        return _timestamp(array, target, path)
    if pa.types.is_time32(target) and pa.types.is_int32(source):
        return array.view(target)
    if pa.types.is_struct(target):  # VARIANT
        if is_shredded(source):
            return assemble_variants(array, target, path)
        if not pa.types.is_struct(source) or any(source.get_field_index(f.name) < 0 for f in target):
            raise CorruptDataError(path, f"has a VARIANT stored as {source}, which is not its format")
        children = [array.field(field.name).cast(field.type) for field in target]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=_mask(array))
    return array.cast(target)


def _timestamp(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Return timestamps in the target's unit. Digits below it are cut towards the past, as the format stores
    them.

    The zone is a label: both kinds hold a number since the epoch, so it is replaced and never applied. Raises
    UnsupportedError for times that nanoseconds cannot hold.
    """
    unit = array.type.unit if pa.types.is_timestamp(array.type) else target.unit
    if unit == target.unit:
        return array.view(target)
    numbers = array.view(pa.int64())
    if _NANOS[unit] < _NANOS[target.unit]:
        divisor = _NANOS[target.unit] // _NANOS[unit]
        return _floor(numbers, divisor).view(target)
    try:
        return pc.multiply_checked(numbers, _NANOS[unit] // _NANOS[target.unit]).view(target)
    except pa.ArrowInvalid as err:
        if target.unit != "ns":
            raise
        raise UnsupportedError(
            f"{path}: it contains a time outside 1677-09-21 to 2262-04-11, which cannot be read with more "
            "than six digits; store such times as TIMESTAMP(6)"
        ) from err


def _floor(numbers: pa.Array, divisor: int) -> pa.Array:
    values: Any = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    mask = None if numbers.null_count == 0 else np.asarray(pc.is_null(numbers))
    return pa.array(np.floor_divide(values, divisor), pa.int64(), mask=mask)
