"""This module assembles shredded VARIANT columns: it puts together again the values that a file keeps in
typed columns.

Spec: Variant shredding of Parquet. A group has `value` (the binary form, of what the types did not fit) and
`typed_value` (a scalar, a group of shredded fields, or a list of groups). Both null: the field is missing, or
null where no value can be missing; both there: fields of an object that have no typed column are in `value`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.variant.assemble_vectorized import UnusualGroup, assemble_all
from lakecore.row.variant import (
    VariantKeys,
    array_bytes,
    binary_bytes,
    date_bytes,
    float_bytes,
    object_bytes,
    object_fields,
    scalar_bytes,
    time_bytes,
    timestamp_bytes,
    uuid_bytes,
)

__all__ = ["assemble_variants", "is_shredded"]

_TYPED, _VALUE, _METADATA = "typed_value", "value", "metadata"
_NULL = b"\0"
_UUID_BYTES = 16
Node = Callable[[int, VariantKeys], bytes | None]


def is_shredded(data_type: pa.DataType) -> bool:
    """Return whether a stored VARIANT column has typed parts."""
    return bool(pa.types.is_struct(data_type) and data_type.get_field_index(_TYPED) >= 0)


def assemble_variants(array: pa.StructArray, target: pa.DataType, path: str) -> pa.Array:
    """Return the column as value and metadata. It costs Python for every row of a batch with groups of
    rare kinds.

    Raises CorruptDataError, UnsupportedError.
    """
    try:
        return _at_once(array, target)
    except (
        UnusualGroup,
        ValueError,
        LookupError,
        TypeError,
        pa.ArrowException,
    ):  # what is wrong, the other way tells
        return _one_by_one(array, target, path)


def _at_once(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    present = array.is_valid().to_numpy(zero_copy_only=False)
    rows = array if present.all() else array.filter(pa.array(present))
    metadata = rows.field(_METADATA)
    if metadata.null_count:
        raise UnusualGroup
    parts = {_VALUE: assemble_all(rows), _METADATA: metadata}
    if not present.all():
        places = pa.array(np.cumsum(present) - 1, mask=~present)
        parts = {name: part.take(places).fill_null(b"") for name, part in parts.items()}
    filled = [parts[field.name].cast(field.type) for field in target]
    mask = None if present.all() else pa.array(~present)
    return pa.StructArray.from_arrays(filled, fields=list(target), mask=mask)


def _one_by_one(array: pa.StructArray, target: pa.StructType, path: str) -> pa.Array:
    values: list[bytes | None] = []
    metadata: list[bytes | None] = []
    try:
        node, residual = _node(array, path), _untyped_values(array)
        stored = array.field(_METADATA).to_pylist()
        for row, present in enumerate(array.is_valid().to_pylist()):
            value, stored_value = (residual[row], stored[row]) if present else (None, None)
            if present and value is None:
                value, stored_value = _whole(node, row, stored[row])
            if present and stored_value is None:
                raise ValueError(f"row {row} has no metadata")
            values.append(value)
            metadata.append(stored_value)
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as err:
        raise CorruptDataError(path, f"contains an invalid shredded variant: {err}") from err
    children = {_VALUE: values, _METADATA: metadata}
    filled = [pa.array([b"" if v is None else v for v in children[f.name]], f.type) for f in target]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(filled, fields=list(target), mask=mask)


def _untyped_values(array: pa.StructArray) -> list[bytes | None]:
    """Return the values of rows that have only an untyped one."""
    if array.type.get_field_index(_VALUE) < 0:
        return [None] * len(array)
    values: list[bytes | None] = pc.if_else(
        array.field(_TYPED).is_null(), array.field(_VALUE), None
    ).to_pylist()
    return values


def _whole(node: Node, row: int, metadata: bytes) -> tuple[bytes, bytes]:
    """Return a value, and its dictionary as it is stored unless a key was missing there."""
    keys = VariantKeys.of(metadata)
    count = len(keys.names)
    value = node(row, keys)
    return _NULL if value is None else value, metadata if len(keys.names) == count else keys.metadata()


def _node(array: pa.StructArray, path: str) -> Node:
    """Return a function from a row of a group to its bytes, or to None if they are missing."""
    data_type = array.type
    values = (
        array.field(_VALUE).to_pylist() if data_type.get_field_index(_VALUE) >= 0 else [None] * len(array)
    )
    if not is_shredded(data_type):
        return lambda row, _keys: values[row]
    column = array.field(_TYPED)
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    typed = column.is_valid().to_pylist()
    if pa.types.is_struct(column.type):
        return _object(column, typed, values, path)
    convert = _list(column, path) if pa.types.is_list(column.type) else _scalar(column, path)

    def either(row: int, keys: VariantKeys) -> bytes | None:
        if not typed[row]:
            return values[row]
        if values[row] is not None:
            raise ValueError("a value is stored both shredded and unshredded")
        return convert(row, keys)

    return either


def _object(column: pa.StructArray, typed: list[bool], values: list[bytes | None], path: str) -> Node:
    fields = {field.name: _node(column.field(i), path) for i, field in enumerate(column.type)}

    def convert(row: int, keys: VariantKeys) -> bytes | None:
        rest = values[row]
        if not typed[row]:
            return rest
        parts = {name: part for name, node in fields.items() if (part := node(row, keys)) is not None}
        if rest is not None:
            others = object_fields(rest, keys)
            if twice := others.keys() & fields.keys():
                raise ValueError(f"field {min(twice)} is stored both shredded and unshredded")
            parts |= others
        return object_bytes(parts, keys)

    return convert


def _list(column: pa.ListArray, path: str) -> Callable[[int, VariantKeys], bytes]:
    element, ends = _node(column.values, path), column.offsets.to_pylist()

    def convert(row: int, keys: VariantKeys) -> bytes:
        return array_bytes(
            [
                _NULL if (part := element(item, keys)) is None else part
                for item in range(ends[row], ends[row + 1])
            ]
        )

    return convert


def _scalar(column: pa.Array, path: str) -> Callable[[int, VariantKeys], bytes]:
    data_type = column.type
    encode: Callable[[Any], bytes] = scalar_bytes
    if pa.types.is_date32(data_type):
        column, encode = column.view(pa.int32()), date_bytes
    elif pa.types.is_fixed_size_binary(data_type) and data_type.byte_width == _UUID_BYTES:
        encode = uuid_bytes
    elif pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        encode = binary_bytes
    elif pa.types.is_float32(data_type):
        encode = float_bytes
    elif pa.types.is_timestamp(data_type) and data_type.unit in ("us", "ns"):
        instant, nanos = data_type.tz is not None, data_type.unit == "ns"
        column, encode = column.view(pa.int64()), partial(timestamp_bytes, instant=instant, nanos=nanos)
    elif data_type == pa.time64("us"):
        column, encode = column.view(pa.int64()), time_bytes
    elif not _plain(data_type):
        raise UnsupportedError(
            f"{path}: a VARIANT is shredded as {data_type}, which the format of variants does not have"
        )
    values = column.to_pylist()
    return lambda row, _keys: encode(values[row])


def _plain(data_type: pa.DataType) -> bool:
    return any(
        test(data_type)
        for test in (
            pa.types.is_signed_integer,
            pa.types.is_boolean,
            pa.types.is_float64,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_decimal,
        )
    )
