"""This module encodes Arrow columns as BinaryRow bytes, vectorised: it writes the layout of `binary_row` for
many rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakecore.data_class import dataclass
from lakecore.row.binary_layout import (
    COMPACT_MILLIS,
    FIXED_FORMATS,
    MAX_COMPACT_DECIMAL,
    null_bits_size,
)
from lakecore.row.binary_row import encode_binary_row
from lakecore.row.values import array_values, normal_array
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

__all__ = ["BinaryRows", "encode_batch"]

Words = NDArray[np.uint64]
Sizes = NDArray[np.int64]

_WORD = 8
_MAX_INLINE = 7
_SHIFT = np.uint64(32)
_FIXED_NUMPY = {"b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8"}
_UNSIGNED = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_UNIT_PER_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Rows as 8-byte little-endian words; row i is words[starts[i]:starts[i + 1]], never empty."""

    words: Words
    starts: Sizes

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class _Column:
    """One field of all rows: `slots` has the slot words, `nulls` the null flags, `tail` the words of the
    variable part (`counts` per row), if there is one.
    """

    slots: Words
    nulls: NDArray[np.bool_] | None
    tail: Words | None = None
    counts: Sizes | None = None


def encode_batch(columns: Sequence[pa.Array], row_type: RowType) -> BinaryRows:
    """Return the BinaryRows of `columns`, one array per field of `row_type`, all of one length.

    It costs some words of scratch memory a row: callers cut long batches (see `hashing`).
    """
    rows = len(columns[0]) if columns else 0
    head = null_bits_size(len(row_type.fields)) // _WORD
    fixed = head + len(row_type.fields)
    parts = [_column(column, field) for column, field in zip(columns, row_type.fields, strict=True)]
    sizes = np.full(rows, fixed, np.int64)
    for part in parts:
        if part.counts is not None:
            sizes += part.counts
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    words = np.zeros(int(starts[-1]), np.uint64)
    at = starts[:-1]
    used = np.full(rows, fixed, np.int64)
    for i, part in enumerate(parts):
        slots = part.slots
        if part.nulls is not None:
            words[at[part.nulls] + (i + 8) // 64] |= np.uint64(1 << (i + 8) % 64)
        if part.counts is not None and part.tail is not None:
            has_tail = part.counts > 0
            slots = np.where(has_tail, slots | (used * _WORD).astype(np.uint64) << _SHIFT, slots)
            words[_runs(at + used, part.counts)] = part.tail
            used += part.counts
        words[at + head + i] = slots
    return BinaryRows(words, starts)


def _runs(starts: Sizes, counts: Sizes) -> Sizes:
    """Return starts[0], starts[0] + 1, … (counts[0] numbers), then those of row 1, and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


def _column(column: pa.Array, field: DataField) -> _Column:
    data_type = field.type
    if not isinstance(data_type, AtomicType) or data_type.root is TypeRoot.VARIANT:
        return _nested_column(column, field)
    array = normal_array(column, data_type)
    nulls = None
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
    if data_type.root in FIXED_FORMATS:
        return _Column(_fixed_slots(array, data_type.root, nulls), nulls)
    if data_type.root is TypeRoot.DECIMAL:
        return _decimals(array, data_type, nulls)
    if data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _timestamps(array, data_type, nulls)
    return _strings(array, nulls)


def _values(array: pa.Array, dtype: str) -> NDArray[Any]:
    """Return the value buffer; values at null positions are arbitrary."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def _clear(slots: Words, nulls: NDArray[np.bool_] | None) -> Words:
    if nulls is not None:
        slots[nulls] = 0
    return slots


def _fixed_slots(array: pa.Array, root: TypeRoot, nulls: NDArray[np.bool_] | None) -> Words:
    if root is TypeRoot.BOOLEAN:
        array = array.cast(pa.int8())
    code = "b" if root is TypeRoot.BOOLEAN else FIXED_FORMATS[root]
    dtype = _FIXED_NUMPY[code]
    bits = _values(array, _UNSIGNED[np.dtype(dtype).itemsize])
    return _clear(bits.astype(np.uint64), nulls)


def _timestamps(array: pa.Array, data_type: AtomicType, nulls: NDArray[np.bool_] | None) -> _Column:
    ticks = _values(array, "<i8")
    per_milli = _UNIT_PER_MILLI[array.type.unit]
    millis = np.floor_divide(ticks, per_milli) if per_milli > 1 else ticks.copy()
    tail = _clear(millis.view(np.uint64), nulls)
    if data_type.precision <= COMPACT_MILLIS:
        return _Column(tail, nulls)
    nanos = (ticks - millis * per_milli) * (1_000_000 // per_milli)
    slots = _clear(nanos.astype(np.uint64), nulls)
    return _Column(slots, nulls, tail, np.ones(len(array), np.int64))


def _decimals(array: pa.Array, data_type: AtomicType, nulls: NDArray[np.bool_] | None) -> _Column:
    offset = array.offset * 16
    buffer = array.buffers()[1]
    raw = np.frombuffer(buffer, np.uint8, len(array) * 16, offset).reshape(-1, 16)
    if data_type.precision <= MAX_COMPACT_DECIMAL:
        return _Column(_clear(raw[:, :8].copy().view("<u8").reshape(-1), nulls), nulls)
    big = raw[:, ::-1]
    negative = big[:, 0] >> 7
    # The minimal two's complement drops leading sign bytes, as long as the next byte keeps the sign.
    droppable = (big[:, :-1] == (negative * 255)[:, None]) & (big[:, 1:] >> 7 == negative[:, None])
    first = np.cumprod(droppable, axis=1).sum(axis=1, dtype=np.int64)
    shifted = np.zeros((len(array), 32), np.uint8)
    shifted[:, :16] = big
    tail = np.take_along_axis(shifted, first[:, None] + np.arange(16), axis=1)
    sizes = _clear((16 - first).astype(np.uint64), nulls)
    if nulls is not None:
        tail[nulls] = 0
    return _Column(sizes, nulls, tail.view("<u8").reshape(-1), np.full(len(array), 2, np.int64))


def _strings(array: pa.Array, nulls: NDArray[np.bool_] | None) -> _Column:
    offsets = np.frombuffer(array.buffers()[1], "<i4", len(array) + 1, array.offset * 4).astype(np.int64)
    begin, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    if nulls is not None:
        lengths[nulls] = 0
    data = array.buffers()[2]
    text = np.zeros(int(offsets[-1] - offsets[0]) + _WORD, np.uint8)
    if data is not None:
        text[:-_WORD] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    # Every byte position seen as the start of a (mostly unaligned) word.
    word_at: Words = np.ndarray((len(text) - _WORD + 1,), "<u8", text.data, strides=(1,))
    inline = lengths <= _MAX_INLINE
    short = np.where(inline, lengths, 0).astype(np.uint64)
    eight = np.uint64(8)
    slots = word_at[begin] & ((np.uint64(1) << short * eight) - np.uint64(1))
    slots |= (short | np.uint64(0x80)) << np.uint64(56)
    slots = _clear(np.where(inline, slots, lengths.astype(np.uint64)), nulls)
    counts = np.where(inline, 0, -(-lengths // _WORD))
    if not counts.any():
        return _Column(slots, nulls)
    tail = word_at[_runs_of_bytes(begin, counts)]
    last = np.cumsum(counts)[~inline] - 1
    extra = (lengths[~inline] % _WORD).astype(np.uint64)
    keep = np.where(extra == 0, ~np.uint64(0), (np.uint64(1) << extra * eight) - np.uint64(1))
    tail[last] &= keep
    return _Column(slots, nulls, tail, counts)


def _runs_of_bytes(begin: Sizes, counts: Sizes) -> Sizes:
    """Return the byte positions begin, begin + 8, … of the words of each string."""
    ends = np.cumsum(counts)
    step = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)
    return np.repeat(begin, counts) + step * _WORD


def _nested_column(column: pa.Array, field: DataField) -> _Column:
    """Return the column of arrays, maps or rows, encoded value by value. They are no bucket keys, so this is
    rarely used.
    """
    one = RowType((DataField(field.id, field.name, field.type),))
    rows = [encode_binary_row((value,), one) for value in array_values(column, field.type)]
    slots = np.array([int.from_bytes(row[8:12], "little") for row in rows], np.uint64)
    tails = [row[16:] for row in rows]
    counts = np.array([len(tail) // _WORD for tail in tails], np.int64)
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return _Column(slots, nulls, np.frombuffer(b"".join(tails), "<u8"), counts)
