"""This module decides when two rows count as equal for a change stream (option
`changelog-producer.row-deduplicate`). Pure.

Rule of the format (2.0; before, NaN was a change of itself, and -0.0 none of 0.0): column by column; two
nulls are equal, NaN equals NaN and -0.0 is not 0.0; arrays compare element by element, maps by key whatever
their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.merge.row_order import Bools, in_total_order

__all__ = ["equal_rows"]


def equal_rows(left: pa.RecordBatch, right: pa.RecordBatch, columns: Sequence[str]) -> Bools:
    """Return which rows of two batches of one length have the same values in `columns`."""
    equal: Any = np.ones(left.num_rows, bool)
    for name in columns:
        rows = np.flatnonzero(equal)
        if not len(rows):
            break
        places = pa.array(rows)
        equal[rows] = _equal(left.column(name).take(places), right.column(name).take(places))
    return np.asarray(equal)


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    """Return which elements are equal; the arrays are of one type and length."""
    data_type = left.type
    a, b = _bools(left.is_valid()), _bools(right.is_valid())
    if pa.types.is_struct(data_type):
        inside: Any = np.ones(len(left), bool)
        for number in range(data_type.num_fields):
            inside &= _equal(_field(left, number), _field(right, number))
    elif pa.types.is_map(data_type):
        inside = _equal_maps(left, right)
    elif pa.types.is_list(data_type):
        inside = _equal_lists(left, right)
    elif pa.types.is_fixed_size_list(data_type):
        inside = _equal_vectors(left, right)
    else:
        inside = _bools(pc.fill_null(pc.equal(in_total_order(left), in_total_order(right)), False))
    return np.asarray((a & b & inside) | (~a & ~b))


def _field(column: pa.StructArray, number: int) -> pa.Array:
    return column.field(number)


def _equal_lists(left: Any, right: Any) -> Bools:
    """Return which lists are equal: they have one length and their elements are equal in order."""
    sizes = np.asarray(pc.fill_null(pc.list_value_length(left), 0), np.int64)
    others = np.asarray(pc.fill_null(pc.list_value_length(right), 0), np.int64)
    equal: Any = sizes == others
    rows = np.flatnonzero(equal & (sizes > 0))
    if len(rows):
        places = pa.array(rows)
        values = _equal(left.take(places).flatten(), right.take(places).flatten())
        starts = np.concatenate(([0], np.cumsum(sizes[rows])[:-1]))
        equal[rows] = np.logical_and.reduceat(values, starts)
    return np.asarray(equal)


def _equal_vectors(left: Any, right: Any) -> Bools:
    both = _bools(left.is_valid()) & _bools(right.is_valid())
    places = pa.array(np.flatnonzero(both))
    values = _equal(left.take(places).flatten(), right.take(places).flatten())
    both[both] = values.reshape(-1, left.type.list_size).all(axis=1)
    return both


def _equal_maps(left: pa.MapArray, right: pa.MapArray) -> Bools:
    """Return which maps are equal as lists of entries; only maps of one size that differ so are compared by
    their keys, one by one.
    """
    mine, others = _entries(left), _entries(right)
    equal: Any = _equal_lists(mine, others)
    sizes = pc.equal(pc.list_value_length(mine), pc.list_value_length(others))
    for row in np.flatnonzero(~equal & _bools(pc.fill_null(sizes, False))).tolist():
        equal[row] = _equal_entries(mine[row].values, others[row].values)
    return np.asarray(equal)


def _equal_entries(left: pa.StructArray, right: pa.StructArray) -> bool:
    """Return whether two maps of one size are equal."""
    places = {key: place for place, key in enumerate(_names(right.field(0)))}
    order = [places.get(key) for key in _names(left.field(0))]
    if None in order:
        return False
    return bool(_equal(left.field(1), right.field(1).take(pa.array(order, pa.int64()))).all())


def _names(keys: pa.Array) -> list[str]:
    """Return a text for each key that differs where the keys do."""
    plain = keys.view(pa.int64()) if pa.types.is_timestamp(keys.type) else in_total_order(keys)
    return [repr(key) for key in plain.to_pylist()]


def _entries(column: pa.MapArray) -> pa.ListArray:
    """Return a map as a list of structs; nulls become empty, because they are compared before."""
    entry = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
    offsets = np.asarray(column.offsets, np.int64)
    base = offsets[0] if len(offsets) else 0
    return pa.ListArray.from_arrays(pa.array((offsets - base).astype(np.int32)), entry)


def _bools(values: Any) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)
