"""Nested Arrow arrays converted to another type of the same structure: children change, offsets and
validity are shared.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

__all__ = ["map_children", "map_leaves", "map_type", "view_as"]


def map_type(data_type: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a nested type with its children changed; any other type is returned as it is. Field metadata
    is kept.
    """

    def field(inner: pa.Field) -> pa.Field:
        return inner.with_type(change(inner.type))

    if pa.types.is_struct(data_type):
        return pa.struct([field(data_type.field(i)) for i in range(data_type.num_fields)])
    if pa.types.is_map(data_type):
        return pa.map_(field(data_type.key_field), field(data_type.item_field))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(field(data_type.value_field), data_type.list_size)
    if pa.types.is_list(data_type):
        return pa.list_(field(data_type.value_field))
    return data_type


def map_children(
    array: pa.Array, target: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Return a nested array as `target`; `change(child, its target type)` makes each child."""
    data_type = array.type
    if pa.types.is_struct(data_type):
        children = [change(array.field(i), target.field(i).type) for i in range(data_type.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_fixed_size_list(data_type):
        return _fixed_list(array, target, change)
    if pa.types.is_map(data_type):
        pairs = [change(array.keys, target.key_type), change(array.items, target.item_type)]
        values = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
    else:
        values = change(array.values, target.value_type)
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], -1, array.offset, children=[values])


def map_leaves(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return a struct, map or list of changed children, whose types follow from the results of `change`."""
    data_type = array.type
    if pa.types.is_struct(data_type):
        children = [change(array.field(i)) for i in range(data_type.num_fields)]
        fields = [field.with_type(child.type) for field, child in zip(data_type, children, strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(data_type):
        pairs = [change(array.keys), change(array.items)]
        both = [data_type.key_field.with_type(pairs[0].type), data_type.item_field.with_type(pairs[1].type)]
        values, target = pa.StructArray.from_arrays(pairs, fields=both), pa.map_(*both)
    else:
        values = change(array.values)
        target = pa.list_(data_type.value_field.with_type(values.type))
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], -1, array.offset, children=[values])


def view_as(array: pa.Array, target: pa.DataType) -> pa.Array:
    """View the same values as another type of the same layout (TIME as int), nested ones too."""
    if array.type.equals(target, check_metadata=True):
        return array
    if pa.types.is_nested(target):
        return map_children(array, target, view_as)
    return array if array.type == target else array.view(target)


def _fixed_list(
    array: pa.Array, target: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    size = array.type.list_size
    values = array.values.slice(array.offset * size, len(array) * size)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_fixed_size_list(target):
        return pa.FixedSizeListArray.from_arrays(change(values, target.value_type), type=target, mask=mask)
    flat = change(array.flatten(), target.value_type)
    ends = array.is_valid().cast(pa.int32()).to_numpy(zero_copy_only=False).cumsum() * size
    offsets = pa.array([0, *ends], pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, type=target, mask=mask)
