"""TIMESTAMP WITH LOCAL TIME ZONE in ORC: writers store the instant minus the offset of their zone by default.

The file does not say which zone that was, so it is a setting. Only top-level columns can be moved; in a zone
other than UTC a nested one is refused instead of read wrong.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidOptionError, UnsupportedError
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

__all__ = ["to_instant"]


def to_instant(array: pa.Array, kind: DataType, zone: str) -> pa.Array:
    """Undo the writer's shift: stored = instant - offset(zone). UTC costs nothing.

    Raises InvalidOptionError for an unknown zone, UnsupportedError for nested columns in another zone.
    """
    if zone == "UTC" or not _has_instant(kind):
        return array
    if not isinstance(kind, AtomicType):
        raise UnsupportedError(f"ORC column of type {kind} written in zone {zone}; only zone UTC can be read")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as err:
        raise InvalidOptionError(f"orc zone {zone!r}: no such time zone") from err
    # the stored number, read as UTC, plus the offset valid at that wall clock's instant
    stored = array.view(pa.timestamp(array.type.unit, "UTC"))
    local = pc.local_timestamp(stored.cast(pa.timestamp(array.type.unit, zone)))
    return local.view(arrow_type(kind))


def _has_instant(kind: DataType) -> bool:
    match kind:
        case AtomicType():
            return kind.root is TypeRoot.TIMESTAMP_LTZ
        case RowType(fields=fields):
            return any(_has_instant(field.type) for field in fields)
        case MapType(key=key, value=value):
            return _has_instant(key) or _has_instant(value)
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            return _has_instant(element)
