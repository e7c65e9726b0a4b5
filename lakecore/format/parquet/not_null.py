"""Fields that are never null inside of nullable rows: values below null rows are filled in.

pyarrow's parquet writer refuses nulls there, which are invisible and which taking rows, or JSON, leave.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.format.arrow_nested import map_children

__all__ = ["fill_null_rows", "has_not_null_fields"]


def has_not_null_fields(data_type: pa.DataType) -> bool:
    """Return whether a type has such fields."""
    parts = [data_type.field(i) for i in range(data_type.num_fields)]
    required = pa.types.is_struct(data_type) and any(not part.nullable for part in parts)
    return bool(required) or any(has_not_null_fields(part.type) for part in parts)


def fill_null_rows(array: pa.Array) -> pa.Array:
    """Return the same values with those below null rows filled. A visible null stays, so that the writer
    refuses it.
    """
    return _fill(array, None) if has_not_null_fields(array.type) else array


def _fill(array: pa.Array, hidden: pa.BooleanArray | None) -> pa.Array:
    """Return the array without nulls. `hidden` are rows that are null further up."""
    data_type = array.type
    if not pa.types.is_struct(data_type):
        return map_children(array, data_type, lambda child, _: fill_null_rows(child))
    unseen = array.is_null() if hidden is None else pc.or_(array.is_null(), hidden)
    children = []
    for i, field in enumerate(data_type):
        child = array.field(i)
        if has_not_null_fields(field.type):
            child = _fill(child, unseen)
        if not field.nullable and child.null_count and pc.all(pc.or_(unseen, child.is_valid())).as_py():
            child = _without_nulls(child)
        children.append(child)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)


def _without_nulls(array: pa.Array) -> pa.Array:
    """Return the array with nulls replaced by the values at their positions."""
    data_type = array.type
    if pa.types.is_struct(data_type):
        return pa.StructArray.from_arrays(
            [array.field(i) for i in range(data_type.num_fields)], fields=list(data_type)
        )
    if pa.types.is_fixed_size_list(data_type):
        return array
    buffers = array.buffers()
    if pa.types.is_map(data_type):
        entries = pa.StructArray.from_arrays(
            [array.keys, array.items], fields=[data_type.key_field, data_type.item_field]
        )
        return pa.Array.from_buffers(
            data_type, len(array), [None, buffers[1]], 0, array.offset, children=[entries]
        )
    if pa.types.is_list(data_type):
        return pa.Array.from_buffers(
            data_type, len(array), [None, buffers[1]], 0, array.offset, children=[array.values]
        )
    return pa.Array.from_buffers(data_type, len(array), [None, *buffers[1:]], 0, array.offset)
