"""This module reads TIMESTAMP WITH LOCAL TIME ZONE in ORC: writers store the instant minus the offset of
their zone by default.

The file does not say whether they did, so the zone is a setting.
"""

from __future__ import annotations

import pyarrow as pa

from lakecore.errors import InvalidOptionError
from lakecore.format.arrow_nested import map_leaves
from lakecore.format.orc.java_zones import is_named, offsets
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

__all__ = ["to_instant"]

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def to_instant(array: pa.Array, data_type: DataType, zone: str) -> pa.Array:
    """Undo the writer's shift: stored = instant - offset(zone). UTC costs nothing.

    Raises InvalidOptionError for an unknown zone.
    """
    if zone == "UTC" or not _has_instant(data_type):
        return array
    if not is_named(zone):
        raise InvalidOptionError(f"orc zone {zone!r}: this is not a known time zone")
    return _move(array, data_type, zone)


def _move(array: pa.Array, data_type: DataType, zone: str) -> pa.Array:
    match data_type:
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ):
            ticks = _TICKS[array.type.unit]
            numbers = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            moved = numbers + offsets(zone, numbers // ticks) * ticks
            mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
            return pa.array(moved, pa.int64(), mask=mask).view(array.type)
        case RowType(fields=fields):
            parts = iter([field.type for field in fields])
        case MapType(key=key, value=value):
            parts = iter([key, value])
        case ArrayType(element=element) | MultisetType(element=element):
            parts = iter([element, AtomicType(TypeRoot.INT)])
        case _:
            return array
    return map_leaves(array, lambda child: _move(child, next(parts), zone))


def _has_instant(data_type: DataType) -> bool:
    match data_type:
        case AtomicType():
            return data_type.root is TypeRoot.TIMESTAMP_LTZ
        case RowType(fields=fields):
            return any(_has_instant(field.type) for field in fields)
        case MapType(key=key, value=value):
            return _has_instant(key) or _has_instant(value)
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            return _has_instant(element)
