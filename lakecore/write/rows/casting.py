"""This module casts the caller's columns to the types of the table: lossless conversions, errors that name
the column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    with_nullable,
)

__all__ = ["cast_column", "first_null"]

_COUNT = AtomicType(TypeRoot.INT, nullable=False)
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
_NUMBERS = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE}
)


def cast_column(array: pa.Array, data_type: DataType, name: str) -> pa.Array:
    """Cast `array` to the Arrow type of `data_type`. `name` is the column, or the path of a nested field.

    Raises InvalidInputError for another family of types (text for a number), for a value that does not fit,
    and for nulls in nested fields that are NOT NULL. The caller checks nulls of the column itself.
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(data_type))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match data_type:
        case AtomicType():
            return _cast_atomic(array, data_type, name)
        case ArrayType(element=element):
            return _cast_list(array, data_type, element, name)
        case MapType(key=key, value=value):
            return _cast_map(array, data_type, (with_nullable(key, False), value), name)
        case MultisetType(element=element):
            return _cast_map(array, data_type, (with_nullable(element, False), _COUNT), name)
        case RowType():
            return _cast_struct(array, data_type, name)
        case VectorType():
            return _cast_vector(array, data_type, name)


def first_null(array: pa.Array) -> int:
    """Return the position of the first null; `array` has one."""
    return int(pc.index(array.is_null(), True).as_py())


def _cast_atomic(array: pa.Array, data_type: AtomicType, name: str) -> pa.Array:
    _require(_accepts(data_type.root, array.type), array, data_type, name)
    result = _arrow_cast(array, data_type, name)
    if data_type.root in _TEXT and data_type.length < MAX_LENGTH:
        _check_length(pc.utf8_length(result), data_type, name)
    elif data_type.root in _BYTES and 0 < data_type.length < MAX_LENGTH:
        _check_length(pc.binary_length(result), data_type, name)
    return result


def _accepts(root: TypeRoot, arrow_type: pa.DataType) -> bool:
    """Return whether an Arrow type is of the same family as a table type: then a conversion keeps the
    meaning.
    """
    types = pa.types
    if root in _TEXT:
        return bool(
            types.is_string(arrow_type) or types.is_large_string(arrow_type) or arrow_type == pa.string_view()
        )
    if root in _BYTES:
        return bool(
            types.is_binary(arrow_type)
            or types.is_large_binary(arrow_type)
            or types.is_fixed_size_binary(arrow_type)
            or arrow_type == pa.binary_view()
        )
    if root in _NUMBERS:  # whole floats too: what pandas makes of integers with gaps
        return bool(types.is_floating(arrow_type) or types.is_integer(arrow_type))
    return bool(_OTHERS[root](arrow_type))


_OTHERS: dict[TypeRoot, Callable[[Any], Any]] = {
    TypeRoot.BOOLEAN: pa.types.is_boolean,
    TypeRoot.DECIMAL: lambda kind: pa.types.is_decimal(kind) or pa.types.is_integer(kind),
    TypeRoot.DATE: pa.types.is_date,
    TypeRoot.TIME: pa.types.is_time,
    TypeRoot.TIMESTAMP: lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    TypeRoot.TIMESTAMP_LTZ: lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    TypeRoot.VARIANT: pa.types.is_struct,
}


def _require(accepted: bool, array: pa.Array, data_type: DataType, name: str) -> None:
    if not accepted:
        raise InvalidInputError(
            f"column {name}: the table has {_text(data_type)}, but the data has {array.type}; cast it first"
        )


def _text(data_type: DataType) -> str:
    return str(data_type) if isinstance(data_type, AtomicType) else str(arrow_type(data_type))


def _arrow_cast(array: pa.Array, data_type: DataType, name: str) -> pa.Array:
    target = arrow_type(data_type)
    if array.type == target:
        return array
    try:
        out = array.cast(target)
        if target == pa.float32():  # Arrow makes an infinite number of one that is too large
            _check_finite(array, out)
        return out
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        raise InvalidInputError(
            f"column {name}: a value of {array.type} does not fit {_text(data_type)} of the table: {err}"
        ) from err


def _check_finite(before: pa.Array, after: pa.Array) -> None:
    """Raise ArrowInvalid naming a number that became infinite."""
    if pa.types.is_floating(before.type):
        beyond = before.filter(pc.and_(pc.is_finite(before), pc.is_inf(after)))
        if len(beyond):
            raise pa.ArrowInvalid(f"{beyond[0]} is too large")


def _check_length(lengths: pa.Array, data_type: AtomicType, name: str) -> None:
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > data_type.length:
        raise InvalidInputError(
            f"column {name}: a value of length {longest} is too long for {data_type}; shorten it"
        )


def _cast_list(array: pa.Array, data_type: ArrayType, element: DataType, name: str) -> pa.Array:
    types = pa.types
    accepted = (
        types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)
    )
    _require(accepted, array, data_type, name)
    values = _cast_part(array.flatten(), element, f"{name}[]")
    return pa.ListArray.from_arrays(_offsets(array), values, type=arrow_type(data_type), mask=_mask(array))


def _cast_vector(array: pa.Array, data_type: VectorType, name: str) -> pa.Array:
    """Cast lists of the length of the vectors. Arrow's own cast ends the process where a list is null and the
    buffer of the elements is absent, as in what Spark sends.
    """
    types = pa.types
    _require(types.is_fixed_size_list(array.type) or types.is_list(array.type), array, data_type, name)
    target, length = arrow_type(data_type), data_type.length
    if array.type == target:
        return array
    if pc.any(pc.not_equal(pc.list_value_length(array), length)).as_py():
        raise InvalidInputError(
            f"column {name}: a list has not the length of {_text(data_type)} of the table; give each {length}"
        )
    values = _cast_part(array.flatten(), data_type.element, f"{name}[]")
    if array.null_count:  # `flatten` leaves them out
        valid = np.asarray(array.is_valid())
        places = np.cumsum(valid)[:, np.newaxis] * length + np.arange(-length, 0)
        absent = np.repeat(~valid, length)
        values = values.take(pa.array(places.ravel(), pa.int64(), mask=absent))
    return pa.FixedSizeListArray.from_arrays(values, type=target, mask=_mask(array))


def _cast_map(array: pa.Array, data_type: DataType, parts: tuple[DataType, DataType], name: str) -> pa.Array:
    _require(pa.types.is_map(array.type), array, data_type, name)
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys = _cast_part(array.keys[start:stop], parts[0], f"{name} (key)")
    items = _cast_part(array.items[start:stop], parts[1], f"{name} (value)")
    offsets = pc.subtract(array.offsets, start).cast(pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(data_type), mask=_mask(array))


def _cast_struct(array: pa.Array, data_type: RowType, name: str) -> pa.Array:
    _require(pa.types.is_struct(array.type), array, data_type, name)
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    if unknown := sorted(set(names) - set(data_type.names)):
        raise InvalidInputError(f"column {name}.{unknown[0]}: the table has no such field; leave it out")
    valid = None if array.null_count == 0 else array.is_valid()
    arrays = dict(zip(names, array.flatten(), strict=True))
    children = []
    for field in data_type.fields:
        child = arrays.get(field.name, pa.nulls(len(array)))
        children.append(_cast_part(child, field.type, f"{name}.{field.name}", valid))
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(data_type)), mask=_mask(array))


def _cast_part(array: pa.Array, data_type: DataType, name: str, relevant: pa.Array | None = None) -> pa.Array:
    """Cast a nested part, which is null only where it may be (or where its parent is, by `relevant`)."""
    result = cast_column(array, data_type, name)
    if not data_type.nullable and result.null_count:
        nulls = result.is_null() if relevant is None else pc.and_(result.is_null(), relevant)
        if pc.any(nulls).as_py():
            raise InvalidInputError(f"column {name}: it has a null, but the table says NOT NULL")
    return result


def _offsets(array: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    total = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int64()), total]).cast(pa.int32())


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
