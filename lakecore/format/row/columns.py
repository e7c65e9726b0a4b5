"""This module decodes the rows of a file of format `row`, a column at a time for all rows of some blocks at
once.

Spec: a row is a bit a field (1: null; bit i of the bytes in front), then the fields that are not null, each
as its type says and in the order of the schema, little-endian. Numbers have their width, text and bytes a
varint of their length in front; TIMESTAMP is milliseconds, beyond precision 3 with a varint of the
nanoseconds within; DECIMAL up to 18 digits is an int64, beyond it big-endian bytes. An array is a varint of
its size, a bit an element, then the elements; a map an array of keys and one of values; a vector has no bits.
Rows within are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

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

__all__ = ["Bytes", "Ints", "decode_columns"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Decode = Callable[[Bytes, Ints], tuple[pa.Array, Ints]]
"""A function of this type returns the values at some positions, of rows that have one, and the positions
behind them.
"""

_FIXED = {
    TypeRoot.BOOLEAN: "u1",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
    TypeRoot.FLOAT: "<f4",
    TypeRoot.DOUBLE: "<f8",
}
_TEXT = {TypeRoot.CHAR, TypeRoot.VARCHAR}
_BYTES = {TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB}
_TIMESTAMPS = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_COUNT = AtomicType(TypeRoot.INT, nullable=False)
_MILLIS_DIGITS, _MICROS_DIGITS, _COMPACT_DIGITS, _DECIMAL_BYTES = 3, 6, 18, 16
_MAX_BYTES = 2**31 - 1
_NANOS_OF_MILLI = 1_000_000


def decode_columns(
    data: Bytes, places: tuple[Ints, Ints], fields: Sequence[tuple[str, DataType]], names: Sequence[str]
) -> dict[str, pa.Array]:
    """Return the columns `names`, with the types of `arrow_type`, of rows at `places`: where each row
    begins, and ends.

    It costs some numpy calls a field, and as many an element of the longest array of elements without a
    width. Raises ValueError, IndexError, OverflowError (a timestamp that nanoseconds cannot hold).
    """
    null, at = _null_bits(data, places[0], len(fields))
    arrays: dict[str, pa.Array] = {}
    for i, (name, kind) in enumerate(fields):
        if len(arrays) == len(set(names)):
            break
        present = ~null[:, i]
        decode = _decoder(kind) if name in names else _skipper(kind)
        values, at[present] = decode(data, at[present])
        if name in names:
            arrays[name] = _spread(values, present)
    if (at > places[1]).any():
        raise ValueError("a row continues in the next one")
    return arrays


def _null_bits(data: Bytes, at: Ints, fields: int) -> tuple[Any, Ints]:
    """Return whether each field is null, by row and field, and the positions after the bits."""
    size = (fields + 7) // 8
    bits = np.unpackbits(data[at[:, None] + np.arange(size)], axis=1, bitorder="little")
    return bits.view(bool), at + size


def _spread(values: pa.Array, present: Any) -> pa.Array:
    """Return `values` at the places that are present, and null elsewhere."""
    if present.all():
        return values
    return _take(values, np.cumsum(present) - 1, present)


def _take(values: pa.Array, index: Ints, present: Any) -> pa.Array:
    return _strict(values.take(pa.array(index, pa.int64(), mask=~present)))


def _strict(array: pa.Array, *, whole: bool = False) -> pa.Array:
    """Return the array so that parts that must not be null have no nulls, which they have where a row around
    them is null.

    `whole`: so is the array itself.
    """
    if array.null_count == 0:
        return array
    data_type = array.type
    if pa.types.is_struct(data_type):
        children = [
            _strict(array.field(i), whole=not data_type.field(i).nullable)
            for i in range(data_type.num_fields)
        ]
        mask = None if whole else array.is_null()
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)
    if not whole:
        return array
    nested = [array.values] if pa.types.is_nested(data_type) else None
    own = array.buffers()[1 : data_type.num_buffers]
    return pa.Array.from_buffers(data_type, len(array), [None, *own], 0, array.offset, children=nested)


@lru_cache(maxsize=4096)
def _skipper(data_type: DataType) -> Decode:
    if isinstance(data_type, AtomicType) and data_type.root in _TEXT | _BYTES:

        def skip(data: Bytes, at: Ints) -> tuple[Any, Ints]:
            sizes, at = _varints(data, at)
            return None, at + sizes

        return skip
    return _decoder(data_type)


@lru_cache(maxsize=4096)
def _decoder(data_type: DataType) -> Decode:
    match data_type:
        case RowType(fields=fields):
            pairs = [(field.name, field.type) for field in fields]
            return lambda data, at: _row(data, at, pairs, arrow_type(data_type))
        case ArrayType(element=element):
            return lambda data, at: _list(data, at, element, arrow_type(data_type))
        case VectorType(element=element):
            return lambda data, at: _vector(data, at, element, arrow_type(data_type))
        case MapType(key=key, value=value):
            return lambda data, at: _map(data, at, (key, value), arrow_type(data_type))
        case MultisetType(element=element):
            return lambda data, at: _map(data, at, (element, _COUNT), arrow_type(data_type))
        case AtomicType():
            return _atomic(data_type)


def _atomic(data_type: AtomicType) -> Decode:
    root, target = data_type.root, arrow_type(data_type)
    if root in _FIXED:
        return lambda data, at: _fixed_column(data, at, _FIXED[root], target)
    if root in _TEXT | _BYTES:
        return lambda data, at: _binary(data, at, target)
    if root in _TIMESTAMPS:
        return lambda data, at: _timestamp(data, at, data_type.precision, target)
    if root is TypeRoot.DECIMAL:
        return _short_decimal(target) if data_type.precision <= _COMPACT_DIGITS else _long_decimal(target)
    if root is TypeRoot.VARIANT:
        return lambda data, at: _variant(data, at, target)
    raise ValueError(f"files of format row cannot store {data_type}")


def _numbers(data: Bytes, at: Ints, kind: str) -> Any:
    width = np.dtype(kind).itemsize
    return np.ascontiguousarray(data[at[:, None] + np.arange(width)]).view(kind).ravel()


def _fixed_column(data: Bytes, at: Ints, kind: str, target: pa.DataType) -> tuple[pa.Array, Ints]:
    values = _numbers(data, at, kind)
    if pa.types.is_boolean(target):
        return pa.array(values != 0), at + 1
    return pa.array(values).view(target), at + values.itemsize


def _varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    values, at, more = np.zeros(len(at), np.int64), at.copy(), np.arange(len(at))
    for shift in range(0, 35, 7):
        byte = data[at[more]]
        values[more] |= (byte & 127).astype(np.int64) << shift
        at[more] += 1
        more = more[byte > 127]
        if not len(more):
            return values, at
    raise ValueError("a number takes more than five bytes")


def _binary(data: Bytes, at: Ints, target: pa.DataType) -> tuple[pa.Array, Ints]:
    sizes, at = _varints(data, at)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    if total > min(len(data), _MAX_BYTES):
        raise ValueError(f"the values take {total} bytes, but {len(data)} are there")
    places = np.repeat(at - ends + sizes, sizes) + np.arange(total)
    buffers = [None, _offsets(sizes).buffers()[1], pa.py_buffer(data[places])]
    array = pa.Array.from_buffers(target, len(at), buffers, 0)
    array.validate(full=True)  # text is UTF-8
    return array, at + sizes


def _offsets(sizes: Ints) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())


def _timestamp(data: Bytes, at: Ints, precision: int, target: pa.DataType) -> tuple[pa.Array, Ints]:
    values, at = _numbers(data, at, "<i8"), at + 8
    if precision > _MILLIS_DIGITS:
        nanos, at = _varints(data, at)
        factor = 1000 if precision <= _MICROS_DIGITS else _NANOS_OF_MILLI
        rest = nanos // (_NANOS_OF_MILLI // factor)
        least, most = divmod(-(2**63), factor), divmod(2**63 - 1, factor)
        below = (values < least[0]) | ((values == least[0]) & (rest < least[1]))
        if (below | (values > most[0]) | ((values == most[0]) & (rest > most[1]))).any():
            raise OverflowError("a timestamp is outside 1677 to 2262")
        values = values * factor + rest  # may wrap around and back
    return pa.array(values).view(target), at


def _short_decimal(target: pa.DataType) -> Decode:
    def decode(data: Bytes, at: Ints) -> tuple[pa.Array, Ints]:
        low = _numbers(data, at, "<i8")
        buffer = pa.py_buffer(np.column_stack([low, low >> 63]).astype("<i8"))
        return pa.Array.from_buffers(target, len(at), [None, buffer], 0), at + 8

    return decode


def _long_decimal(target: pa.DataType) -> Decode:
    def decode(data: Bytes, at: Ints) -> tuple[pa.Array, Ints]:
        sizes, at = _varints(data, at)
        if len(sizes) and not 0 < sizes.min() <= sizes.max() <= _DECIMAL_BYTES:
            raise ValueError("a decimal does not have 1 to 16 bytes")
        places = np.arange(_DECIMAL_BYTES)
        within = places < sizes[:, None]
        digits = data[np.where(within, (at + sizes)[:, None] - 1 - places, at[:, None])]
        sign = np.where(data[at] > 127, 255, 0).astype(np.uint8)[:, None]
        buffer = pa.py_buffer(np.ascontiguousarray(np.where(within, digits, sign)))
        return pa.Array.from_buffers(target, len(at), [None, buffer], 0), at + sizes

    return decode


def _variant(data: Bytes, at: Ints, target: pa.StructType) -> tuple[pa.Array, Ints]:
    value, at = _binary(data, at, pa.binary())
    metadata, at = _binary(data, at, pa.binary())
    parts = {"value": value, "metadata": metadata}
    return pa.StructArray.from_arrays([parts[field.name] for field in target], fields=list(target)), at


def _row(
    data: Bytes, at: Ints, fields: Sequence[tuple[str, DataType]], target: pa.StructType
) -> tuple[pa.Array, Ints]:
    null, at = _null_bits(data, at, len(fields))
    children = []
    for i, (_, kind) in enumerate(fields):
        present = ~null[:, i]
        values, at[present] = _decoder(kind)(data, at[present])
        children.append(_spread(values, present))
    return pa.StructArray.from_arrays(children, fields=list(target)), at


def _list(data: Bytes, at: Ints, element: DataType, target: pa.DataType) -> tuple[pa.Array, Ints]:
    sizes, values, at = _elements(data, at, element)
    return _over(sizes, values, target), at


def _map(data: Bytes, at: Ints, pair: tuple[DataType, DataType], target: pa.MapType) -> tuple[pa.Array, Ints]:
    sizes, keys, at = _elements(data, at, pair[0])
    others, items, at = _elements(data, at, pair[1])
    if (sizes != others).any():
        raise ValueError("a map does not have as many keys as values")
    if keys.null_count:
        raise ValueError("a map has a null key")
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _over(sizes, entries, target), at


def _over(sizes: Ints, values: pa.Array, target: pa.DataType) -> pa.Array:
    buffers = [None, _offsets(sizes).buffers()[1]]
    return pa.Array.from_buffers(target, len(sizes), buffers, 0, children=[values])


def _vector(data: Bytes, at: Ints, element: DataType, target: pa.DataType) -> tuple[pa.Array, Ints]:
    sizes, at = _varints(data, at)
    if sizes.sum() > len(data):
        raise ValueError("a vector is longer than its file")
    width = _width(element)
    owner, place = _places(sizes)
    values, _ = _decoder(element)(data, at[owner] + place * width)
    return _over(sizes, values, pa.list_(values.type)).cast(target), at + sizes * width


def _width(data_type: DataType) -> int:
    """Return the bytes of each value, or 0 for types whose values differ in size."""
    if not isinstance(data_type, AtomicType):
        return 0
    if data_type.root in _FIXED:
        return np.dtype(_FIXED[data_type.root]).itemsize
    short = data_type.root is TypeRoot.DECIMAL and data_type.precision <= _COMPACT_DIGITS
    return 8 if short or (data_type.root in _TIMESTAMPS and data_type.precision <= _MILLIS_DIGITS) else 0


def _places(sizes: Ints) -> tuple[Ints, Ints]:
    """Return, for each element of lists of these sizes, its list and its place in it."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]


def _elements(data: Bytes, at: Ints, element: DataType) -> tuple[Ints, pa.Array, Ints]:
    """Return the sizes of arrays, the elements of all of them, and the positions after them."""
    sizes, at = _varints(data, at)
    if sizes.sum() > 8 * len(data):
        raise ValueError("an array is longer than its file")
    owner, place = _places(sizes)
    present = (data[at[owner] + place // 8] >> (place % 8).astype(np.uint8)) & 1 == 0
    at = at + (sizes + 7) // 8
    decode, width = _decoder(element), _width(element)
    if width:
        before = np.cumsum(present) - present
        firsts = before[np.flatnonzero(place == 0)]
        starts = np.zeros(len(sizes), np.int64)
        starts[sizes > 0] = firsts
        values, _ = decode(data, (at[owner] + (before - starts[owner]) * width)[present])
        return sizes, _spread(values, present), at + width * np.bincount(owner[present], minlength=len(sizes))
    values, at = _one_by_one(data, at, sizes, present, decode)
    return sizes, values, at


def _one_by_one(data: Bytes, at: Ints, sizes: Ints, present: Any, decode: Decode) -> tuple[pa.Array, Ints]:
    """Return elements whose places are known only after the one before: the first of each array, the second,
    …
    """
    firsts = np.cumsum(sizes) - sizes
    parts, order = [decode(data, at[:0])[0]], [np.zeros(0, np.int64)]
    longer, place = np.flatnonzero(sizes > 0), 0
    while len(longer):
        bits = present[firsts[longer] + place]
        values, at[longer[bits]] = decode(data, at[longer[bits]])
        parts.append(values)
        order.append((firsts[longer] + place)[bits])
        place += 1
        longer = longer[sizes[longer] > place]
    index = np.zeros(len(present), np.int64)
    index[np.concatenate(order)] = np.arange(int(present.sum()))
    return _take(pa.concat_arrays(parts), index, present), at
