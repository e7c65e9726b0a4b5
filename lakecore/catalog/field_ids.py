"""This module assigns ids to fields: a column gets its id before its parts do, a field of a nested row after.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

__all__ = ["numbered_column", "numbered_type"]


def numbered_column(column: DataField, next_id: Callable[[], int]) -> DataField:
    """Return a column of a table, with an id of its own and ids of its parts."""
    own = next_id()
    return replace(column, id=own, type=numbered_type(column.type, next_id))


def numbered_type(data_type: DataType, next_id: Callable[[], int]) -> DataType:
    """Return the same type with fresh ids in all of its rows."""
    match data_type:
        case RowType():
            return replace(
                data_type, fields=tuple(_numbered_field(field, next_id) for field in data_type.fields)
            )
        case ArrayType() | MultisetType() | VectorType():
            return replace(data_type, element=numbered_type(data_type.element, next_id))
        case MapType():
            key = numbered_type(data_type.key, next_id)
            return replace(data_type, key=key, value=numbered_type(data_type.value, next_id))
        case AtomicType():
            return data_type


def _numbered_field(field: DataField, next_id: Callable[[], int]) -> DataField:
    kind = numbered_type(field.type, next_id)
    return replace(field, id=next_id(), type=kind)
