"""This module finds a field by its path through rows, arrays and maps, and replaces it by a changed one.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakecore.errors import InvalidInputError
from lakecore.metadata.schema_change import FieldPath
from lakecore.types.datatypes import ArrayType, DataField, DataType, MapType, RowType

__all__ = ["edit_at"]

Fields = tuple[DataField, ...]
_ELEMENT = "element"
_VALUE = "value"


def edit_at(fields: Fields, path: FieldPath, edit: Callable[..., Fields], *, whole: bool = False) -> Fields:
    """Return `fields` with `edit(siblings, name, inner)` applied where `path` leads.

    `inner` counts the arrays and maps that the path descends into the type of the field `name` itself
    (`v.element` of an array: field v, inner 1). With `whole` the path must name a field, and `edit` takes
    (siblings, name), which may not exist yet. Raises InvalidInputError naming the part of the path that leads
    nowhere.
    """
    return _edit(fields, path, 0, edit, whole)


def _edit(fields: Fields, path: FieldPath, at: int, edit: Callable[..., Fields], whole: bool) -> Fields:
    name = path[at]
    column = next((f for f in fields if f.name == name), None)
    if at == len(path) - 1 and whole:
        changed = edit(fields, name)
        if column is None and changed == fields:
            raise _missing(fields, path, at)
        return changed
    if column is None:
        raise _missing(fields, path, at)
    row, used = _descend(column.type, path, at + 1)
    if at + 1 + used == len(path):
        if whole:
            raise InvalidInputError(
                f"column {'.'.join(path)} is not a field; name a column or a field of a row"
            )
        return edit(fields, name, used)
    if row is None:
        raise InvalidInputError(
            f"column {'.'.join(path[: at + 1 + used])} has no field {path[at + 1 + used]!r}"
        )
    inner = _edit(row.fields, path, at + 1 + used, edit, whole)
    changed_type = _with_row(column.type, replace(row, fields=inner))
    return tuple(replace(f, type=changed_type) if f is column else f for f in fields)


def _descend(data_type: DataType, path: FieldPath, at: int) -> tuple[RowType | None, int]:
    """Descend through arrays and maps along `path`; returns the row reached, and the parts of the path
    used.
    """
    used = 0
    while at + used < len(path):
        part = path[at + used]
        match data_type:
            case ArrayType() if part == _ELEMENT:
                data_type = data_type.element
            case MapType() if part == _VALUE:
                data_type = data_type.value
            case RowType():
                return data_type, used
            case _:
                return None, used
        used += 1
    return (data_type if isinstance(data_type, RowType) else None), used


def _with_row(data_type: DataType, row: RowType) -> DataType:
    match data_type:
        case ArrayType():
            return replace(data_type, element=_with_row(data_type.element, row))
        case MapType():
            return replace(data_type, value=_with_row(data_type.value, row))
    return row


def _missing(fields: Fields, path: FieldPath, at: int) -> InvalidInputError:
    names: Any = ", ".join(f.name for f in fields)
    return InvalidInputError(f"column {'.'.join(path[: at + 1])} does not exist; there are {names}")
