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


def numbered_type(kind: DataType, next_id: Callable[[], int]) -> DataType:
    """Return the same type with fresh ids in all of its rows."""
    match kind:
        case RowType():
            return replace(kind, fields=tuple(_numbered_field(field, next_id) for field in kind.fields))
        case ArrayType() | MultisetType() | VectorType():
            return replace(kind, element=numbered_type(kind.element, next_id))
        case MapType():
            key = numbered_type(kind.key, next_id)
            return replace(kind, key=key, value=numbered_type(kind.value, next_id))
        case AtomicType():
            return kind


def _numbered_field(field: DataField, next_id: Callable[[], int]) -> DataField:
    kind = numbered_type(field.type, next_id)
    return replace(field, id=next_id(), type=kind)
