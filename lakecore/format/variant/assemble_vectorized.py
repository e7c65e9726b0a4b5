"""This module assembles shredded VARIANT columns by numpy, all rows at once, where they are as writers
leave them.

What is not (a field that is in both places, or that the dictionary lacks; values beside typed ones that are
laid out in another way) raises `UnusualGroup`: `shredded_variants` takes such a batch value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.format.variant.keys import VariantDictionaries
from lakecore.row.variant_bytes import Ints, VariantBytes, containers, ragged, runs

__all__ = ["UnusualGroup", "assemble_all"]

_TYPED, _VALUE, _METADATA = "typed_value", "value", "metadata"
_NULL = b"\0"
_OBJECT = 2
_TRUE, _FALSE, _INT8, _DOUBLE, _DECIMAL4, _FLOAT, _LONG_STRING = 1, 2, 3, 7, 8, 14, 16
_MAX_SHORT = 63
_LIMITS = ((9, 4), (18, 8), (38, 16))


class UnusualGroup(Exception):
    """It is raised for a group that this module does not handle."""


def assemble_all(group: pa.StructArray) -> pa.Array:
    """Return the values of rows that are not null; values of other rows are undefined. Raises
    UnusualGroup.
    """
    if group.field(_METADATA).type != pa.binary():
        raise UnusualGroup
    names = set(_names(group.type))
    dictionaries, numbers = VariantDictionaries.of(group.field(_METADATA), names)
    if dictionaries.broken.any():
        raise UnusualGroup
    values = _values(group, dictionaries, numbers)
    return values.fill_null(_NULL) if values.null_count else values


def _names(data_type: pa.DataType) -> Any:
    if pa.types.is_struct(data_type) and data_type.get_field_index(_TYPED) >= 0:
        typed = data_type.field(_TYPED).type
        for field in typed if pa.types.is_struct(typed) else ():
            yield field.name
            yield from _names(field.type)
        if pa.types.is_list(typed):
            yield from _names(typed.value_type)


def _values(group: pa.StructArray, keys: VariantDictionaries, numbers: Ints) -> pa.Array:
    """Return the bytes by row; null: missing. `numbers` are those of the dictionary that each row uses."""
    data_type = group.type
    beside = (
        group.field(_VALUE) if data_type.get_field_index(_VALUE) >= 0 else pa.nulls(len(group), pa.binary())
    )
    if beside.type != pa.binary():
        raise UnusualGroup
    if data_type.get_field_index(_TYPED) < 0:
        return beside
    typed = group.field(_TYPED)
    if pa.types.is_struct(typed.type):
        return pc.coalesce(_objects(typed, beside, keys, numbers), beside)
    if pa.types.is_list(typed.type):
        list_values = _lists(typed, keys, numbers)
    else:
        encode = _encoder(typed.type)
        if encode is None:
            raise UnusualGroup
        list_values = encode(typed)
    if pc.any(pc.and_(list_values.is_valid(), beside.is_valid())).as_py():
        raise UnusualGroup
    return pc.coalesce(list_values, beside)


def _bytes(array: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Return the data of a binary array, and where each value begins and ends."""
    _, bounds, data = array.buffers()
    ends = np.frombuffer(bounds, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return raw, ends[:-1], ends[1:]


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of some objects in any order, which have the row, the place among all keys, the id and the
    bytes.
    """

    rows: Ints
    ranks: Ints
    ids: Ints
    data: Ints
    start: Ints
    size: Ints


def _objects(typed: pa.StructArray, beside: pa.Array, keys: VariantDictionaries, numbers: Ints) -> pa.Array:
    present = typed.is_valid().to_numpy(zero_copy_only=False)
    parts = []
    for i, field in enumerate(typed.type):
        child = _values(typed.field(i), keys, numbers)
        rows = np.flatnonzero(present & child.is_valid().to_numpy(zero_copy_only=False))
        data, start, end = _bytes(child)
        ids = keys.ids(field.name)[numbers[rows]]
        if (ids < 0).any():
            raise UnusualGroup
        ranks = np.full(len(rows), keys.rank_of[field.name], np.int64)
        parts.append(_Fields(rows, ranks, ids, data, start[rows], (end - start)[rows]))
    rest = np.flatnonzero(present & beside.is_valid().to_numpy(zero_copy_only=False))
    if len(rest):
        others = _left_over(beside, rest, keys, numbers)
        if np.isin(others.ranks, [keys.rank_of[field.name] for field in typed.type]).any():
            raise UnusualGroup
        parts.append(others)
    return _join(parts, present)


def _left_over(beside: pa.Array, rows: Ints, keys: VariantDictionaries, numbers: Ints) -> _Fields:
    """Return the fields that have no typed column."""
    data, start, end = _bytes(beside)
    if (end <= start)[rows].any():
        raise UnusualGroup
    source = VariantBytes(data)
    basic, _ = source.basic(start[rows])
    rest = source.fields(start[rows], end[rows])
    owner = rows[rest.owner]
    ranks = keys.of_fields(numbers[owner], rest.ids)
    if (basic != _OBJECT).any() or not rest.exact.all() or (ranks < 0).any():
        raise UnusualGroup
    return _Fields(owner, ranks, rest.ids, data, rest.start, rest.size)


def _join(parts: Sequence[_Fields], present: Ints) -> pa.Array:
    """Return the objects of rows that are present, with their fields in the order of the names."""
    lengths = np.array([len(part.data) for part in parts])
    data = np.concatenate([part.data for part in parts])
    before = np.cumsum(lengths) - lengths
    rows, ranks, ids, size = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "ranks", "ids", "size")
    )
    start = np.concatenate([part.start + base for part, base in zip(parts, before, strict=True)])
    order = np.lexsort((ranks, rows))
    if ((np.diff(rows[order]) == 0) & (np.diff(ranks[order]) == 0)).any():
        raise UnusualGroup
    counts = np.bincount(rows, minlength=len(present))[present]
    out, bounds = containers(counts, ids[order], data, start[order], size[order])
    return _spread(out, bounds, present)


def _lists(typed: pa.ListArray, keys: VariantDictionaries, numbers: Ints) -> pa.Array:
    present = typed.is_valid().to_numpy(zero_copy_only=False)
    offsets = typed.offsets.to_numpy().astype(np.int64)
    counts = np.where(present, np.diff(offsets), 0)
    owner, place = runs(counts)
    at = offsets[owner] + place
    elements = _values(typed.values.take(pa.array(at)), keys, numbers[owner])
    elements = elements.fill_null(_NULL) if elements.null_count else elements
    data, start, end = _bytes(elements)
    out, bounds = containers(counts[present], None, data, start, end - start)
    return _spread(out, bounds, present)


def _spread(data: Ints, bounds: Ints, present: Ints) -> pa.Array:
    """Return the values of the rows that are present; others are null."""
    sizes = np.zeros(len(present), np.int64)
    sizes[present] = np.diff(bounds)
    return ragged(data, sizes, present)


def _encoder(data_type: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """Return the encoder of a type, or None for types that are rare."""
    if pa.types.is_signed_integer(data_type):
        return _integers
    if pa.types.is_string(data_type):
        return _texts
    if pa.types.is_decimal128(data_type):
        return _decimals
    return _others if data_type in (pa.bool_(), pa.float32(), pa.float64()) else None


def _cells(array: pa.Array, head: Ints | int, numbers: Ints, sizes: Ints) -> pa.Array:
    """Return the values, each a byte followed by as many bytes of a number as `sizes` says."""
    cells = np.empty((len(array), 1 + numbers.itemsize), np.uint8)
    cells[:, 0] = head
    cells[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(array), numbers.itemsize)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(present, 1 + sizes, 0)
    return ragged(cells[np.arange(cells.shape[1]) < sizes[:, None]], sizes, present)


def _integers(array: pa.Array) -> pa.Array:
    values = array.cast(pa.int64()).fill_null(0).to_numpy()
    wide = [(values != values << 64 - bits >> 64 - bits).astype(np.int64) for bits in (8, 16, 32)]
    level = wide[0] + wide[1] + wide[2]
    return _cells(array, (_INT8 + level) << 2, values, 1 << level)


def _others(array: pa.Array) -> pa.Array:
    if pa.types.is_boolean(array.type):
        values = array.fill_null(False).to_numpy(zero_copy_only=False)
        head = np.where(values, _TRUE, _FALSE) << 2
        return _cells(array, head, np.zeros(len(array), np.uint8), np.zeros(len(array), np.int64))
    double = pa.types.is_float64(array.type)
    values = array.fill_null(0).to_numpy()
    return _cells(array, (_DOUBLE if double else _FLOAT) << 2, values, np.full(len(array), values.itemsize))


def _decimals(array: pa.Array) -> pa.Array:
    words = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
    scale = array.type.scale
    sizes = np.full(len(array), _LIMITS[-1][1], np.int64)
    for digits, size in reversed(_LIMITS[:-1]):
        limit = 10**digits
        small = (words[:, 1] == words[:, 0] >> 63) & (words[:, 0] < limit) & (words[:, 0] > -limit)
        sizes = np.where(small & (scale <= digits), size, sizes)
    head = (_DECIMAL4 + (sizes >= 8) + (sizes >= 16)) << 2
    present = array.is_valid().to_numpy(zero_copy_only=False)
    cells = np.empty((len(array), 18), np.uint8)
    cells[:, 0], cells[:, 1] = head, scale
    cells[:, 2:] = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 16)
    sizes = np.where(present, 2 + sizes, 0)
    return ragged(cells[np.arange(18) < sizes[:, None]], sizes, present)


def _texts(array: pa.Array) -> pa.Array:
    _, start, end = _bytes(array)
    length = end - start
    short = length <= _MAX_SHORT
    head = np.where(short, 1 | length << 2, _LONG_STRING << 2)
    prefix = _cells(array, head, length.astype("<u4"), np.where(short, 0, 4))
    return pc.binary_join_element_wise(prefix, array.cast(pa.binary()), pa.scalar(b"", pa.binary()))
