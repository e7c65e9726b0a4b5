"""This module encodes Arrow columns as rows of a file of format `row` (`row_columns` has the rules), a
whole batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.types.arrow import FIELD_ID_KEY

__all__ = ["Pieces", "encode_rows"]

_COMPACT_DIGITS, _DECIMAL_BYTES, _VARINT_BYTES = 18, 16, 5
_NANOS_OF_MILLI = 1_000_000
_TO_NANOS = {"ms": 1_000_000, "us": 1000, "ns": 1}
Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The bytes of values lie one behind the other; `sizes` says how many each takes."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    sizes: Ints


def encode_rows(columns: Sequence[pa.Array], rows: int) -> Pieces:
    """Return the rows of some columns, encoded. The memory is some ten times what they take encoded. Raises
    UnsupportedError.
    """
    null = np.zeros((rows, len(columns)), bool)
    parts = []
    for i, column in enumerate(columns):
        if column.null_count:
            null[:, i] = column.is_null().to_numpy(zero_copy_only=False)
        parts.append(_spread(_encode(column.drop_null()), ~null[:, i]))
    bits = np.packbits(null, axis=1, bitorder="little")
    return _join([Pieces(bits.ravel(), np.full(rows, bits.shape[1], np.int64)), *parts])


def _spread(pieces: Pieces, present: Ints) -> Pieces:
    """Return pieces of the rows that are present, and nothing for the others."""
    sizes = np.zeros(len(present), np.int64)
    sizes[present] = pieces.sizes
    return Pieces(pieces.data, sizes)


def _join(parts: Sequence[Pieces]) -> Pieces:
    """Return the first piece of each part, then the second of each, …"""
    if len(parts) == 1:
        return parts[0]
    sizes = np.asarray(np.sum([part.sizes for part in parts], axis=0, dtype=np.int64))
    at = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), np.uint8)
    for part in parts:
        firsts = np.cumsum(part.sizes) - part.sizes
        data[np.repeat(at - firsts, part.sizes) + np.arange(len(part.data))] = part.data
        at = at + part.sizes
    return Pieces(data, sizes)


def _encode(array: pa.Array) -> Pieces:
    """Return the values of an array without nulls, encoded."""
    data_type = array.type
    if pa.types.is_struct(data_type):
        parts = array.flatten()
        if _is_variant(data_type):
            by_name = {field.name: part for field, part in zip(data_type, parts, strict=True)}
            return _join([_binary(by_name["value"]), _binary(by_name["metadata"])])
        return encode_rows(parts, len(array))
    if pa.types.is_map(data_type):
        sizes = np.diff(array.offsets.to_numpy())
        first, count = array.offsets[0].as_py() if len(array) else 0, int(sizes.sum())
        return _join([_array(side.slice(first, count), sizes) for side in (array.keys, array.items)])
    if pa.types.is_fixed_size_list(data_type):
        return _vector(array.flatten(), len(array), data_type.list_size)
    if pa.types.is_list(data_type):
        return _array(array.flatten(), pc.list_value_length(array).to_numpy().astype(np.int64))
    return _atomic(array)


def _atomic(array: pa.Array) -> Pieces:
    data_type = array.type
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _binary(array)
    if pa.types.is_timestamp(data_type):
        return _timestamp(array)
    if pa.types.is_decimal(data_type):
        return _decimal(array)
    if pa.types.is_boolean(data_type):
        return _fixed_pieces(array.to_numpy(zero_copy_only=False).astype(np.uint8))
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        return _fixed_pieces(array.view(pa.int32()).to_numpy())
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return _fixed_pieces(array.to_numpy())
    raise UnsupportedError(f"files of format row cannot store a column of type {data_type}")


def _is_variant(kind: pa.StructType) -> bool:
    """Return whether a struct is a VARIANT: its parts have the ids 0 and 1, which no field of a ROW can have,
    because its column is older.
    """
    parts = [(field.name, (field.metadata or {}).get(FIELD_ID_KEY)) for field in kind]
    return parts == [("value", b"0"), ("metadata", b"1")]


def _fixed_pieces(values: Ints) -> Pieces:
    values = np.ascontiguousarray(values)
    return Pieces(values.view(np.uint8), np.full(len(values), values.itemsize, np.int64))


def _varints(values: Ints) -> Pieces:
    shifts = np.arange(_VARINT_BYTES) * 7
    groups = values[:, None] >> shifts
    sizes = 1 + (groups[:, 1:] > 0).sum(axis=1)
    more = np.arange(_VARINT_BYTES) < sizes[:, None] - 1
    data = ((groups & 127) | np.where(more, 128, 0)).astype(np.uint8)
    return Pieces(data[np.arange(_VARINT_BYTES) < sizes[:, None]], sizes)


def _binary(array: pa.Array) -> Pieces:
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    sizes = np.diff(ends)
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if sizes.sum() else np.zeros(0, np.uint8)
    return _join([_varints(sizes), Pieces(content, sizes)])


def _timestamp(array: pa.Array) -> Pieces:
    values = array.view(pa.int64()).to_numpy()
    if array.type.unit == "ms":
        return _fixed_pieces(values)
    unit = _TO_NANOS[array.type.unit]
    millis, rest = np.divmod(values, _NANOS_OF_MILLI // unit)
    return _join([_fixed_pieces(millis), _varints(rest * unit)])


def _decimal(array: pa.Array) -> Pieces:
    count = len(array)
    words = np.frombuffer(array.buffers()[1], "<i8").reshape(-1, 2)[array.offset : array.offset + count]
    if array.type.precision <= _COMPACT_DIGITS:
        return _fixed_pieces(words[:, 0])
    # big-endian, without bytes in front that say no more than the sign of the next one
    data = np.ascontiguousarray(words).view(np.uint8).reshape(count, _DECIMAL_BYTES)[:, ::-1]
    sign = data[:, :1] >> 7
    spare = (data[:, :-1] == sign * 255) & (data[:, 1:] >> 7 == sign)
    dropped = np.cumprod(spare, axis=1).sum(axis=1)
    keeps = np.arange(_DECIMAL_BYTES) >= dropped[:, None]
    sizes = np.asarray(_DECIMAL_BYTES - dropped)
    return _join([_varints(sizes), Pieces(data[keeps], sizes)])


def _array(elements: pa.Array, sizes: Ints) -> Pieces:
    """Return arrays of `sizes` elements each: the size, one bit per element, the elements."""
    present = elements.is_valid().to_numpy(zero_copy_only=False)
    firsts = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(owner)) - firsts[owner]
    widths = (sizes + 7) // 8
    missing_rows = np.flatnonzero(~present)
    byte = (np.cumsum(widths) - widths)[owner[missing_rows]] + place[missing_rows] // 8
    bits = np.bincount(byte, weights=1 << (place[missing_rows] % 8), minlength=int(widths.sum()))
    elements_present = _spread(_encode(elements.drop_null()), present)
    ends = np.append(0, np.cumsum(elements_present.sizes))
    body = Pieces(elements_present.data, ends[firsts + sizes] - ends[firsts])
    return _join([_varints(sizes), Pieces(bits.astype(np.uint8), widths), body])


def _vector(elements: pa.Array, rows: int, length: int) -> Pieces:
    values = _encode(elements)
    sizes = np.full(rows, length, np.int64)
    return _join([_varints(sizes), Pieces(values.data, values.sizes.reshape(rows, length).sum(axis=1))])
