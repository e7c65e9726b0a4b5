"""This module turns the serialised keys of many files into integers that compare as the keys do. Pure,
vectorised.

The order is that of `key_order`, which decides one key at a time. Where the two could differ (null fields,
keys of unequal layout, types without a form here, damage) there is no result, and the caller takes that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.metadata.manifest.byte_words import WORD_PADDING, ByteWords
from lakecore.row.binary_layout import COMPACT_MILLIS, FIXED_FORMATS, MAX_COMPACT_DECIMAL, null_bits_size
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot

__all__ = ["key_numbers"]

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_PREFIX = 4
_INLINE = 0x80
_MAX_INLINE = 7
_LOW = 0xFFFFFFFF
_SIGN = np.uint64(1 << 63)
_MAX_MILLIS = (1 << 63) // 1_000_000 - 1
_WHOLE = {"?": "?", "b": "i1", "h": "<i2", "i": "<i4", "q": "<i8"}
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def key_numbers(low: ByteWords, high: ByteWords, key_type: RowType) -> tuple[I64, I64] | None:
    """Return numbers for the keys `low` and `high`: all of both compare as the keys do, equal ones are equal.

    None where they cannot be told from columns. It costs some 0.1 us a key of one number; a key of strings
    or several columns takes a sort of all keys, some 1 us each.
    """
    count = len(low)
    keys = ByteWords.assemble(2 * count, [(np.arange(count), low), (np.arange(count, 2 * count), high)])
    columns = _Keys.of(keys, key_type)
    if columns is None:
        return None
    numbers = _single(columns, 2 * count)
    return numbers[:count], numbers[count:]


class _NoVectorOrder(Exception):
    """The keys have no vectorised order."""


class _Keys:
    """Serialised keys of one layout, each `width` bytes after the one before it in `buffer`."""

    def __init__(self, keys: ByteWords, key_type: RowType) -> None:
        self.count = len(keys)
        self.width = 8 * keys.words.shape[1]
        self.sizes = keys.length.astype(np.int64) - _PREFIX
        data = np.ascontiguousarray(keys.words).astype("<u8", copy=False).view(np.uint8).reshape(-1)
        self.buffer: Bytes = np.concatenate([data, np.zeros(WORD_PADDING, np.uint8)])
        self.key_type = key_type

    @classmethod
    def of(cls, keys: ByteWords, key_type: RowType) -> list[I64] | None:
        """Return the columns that order the keys, the first one first; None where there are none."""
        if not len(keys):
            return []
        try:
            decoded_keys = cls(keys, key_type)
            return list(decoded_keys._columns(decoded_keys._arity()))
        except _NoVectorOrder:
            return None

    def _arity(self) -> int:
        """Return the number of fields that all keys have."""
        if self.width < _PREFIX or int(self.sizes.min()) < 0:
            raise _NoVectorOrder
        counts = self._at(0, ">i4")
        arity = int(counts[0])
        if (counts != arity).any() or arity < len(self.key_type.fields):
            raise _NoVectorOrder
        if int(self.sizes.min()) < null_bits_size(arity) + 8 * arity:
            raise _NoVectorOrder
        return arity

    def _columns(self, arity: int) -> Iterator[I64]:
        head = _PREFIX + null_bits_size(arity)
        for index, field in enumerate(self.key_type.fields):
            marks = self._at(_PREFIX + (index + 8) // 8, "u1")
            if ((marks >> (index % 8)) & 1).any():
                raise _NoVectorOrder
            yield from self._field(head + 8 * index, field.type)

    def _at(self, offset: int, dtype: str) -> Ints:
        """Return the value at `offset` of each key."""
        return np.ndarray((self.count,), dtype, self.buffer, offset=offset, strides=(self.width,))

    def _field(self, slot: int, data_type: DataType) -> Iterator[I64]:
        if not isinstance(data_type, AtomicType):
            raise _NoVectorOrder
        if data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            yield _float_order(self._at(slot, "<" + ("f4" if data_type.root is TypeRoot.FLOAT else "f8")))
        elif data_type.root in FIXED_FORMATS:
            yield self._whole(slot, FIXED_FORMATS[data_type.root])
        elif _is_long(data_type):
            yield self._whole(slot, "q")
        elif data_type.root in _TIMESTAMPS:
            yield from self._nanos(slot)
        elif data_type.root in _STRINGS:
            yield from self._strings(slot)
        else:
            raise _NoVectorOrder

    def _whole(self, slot: int, code: str) -> I64:
        values: I64 = self._at(slot, _WHOLE[code]).astype(np.int64)
        return values

    def _nanos(self, slot: int) -> Iterator[I64]:
        word = self._at(slot, "<u8")
        offset = (word >> np.uint64(32)).astype(np.int64)
        if (offset + 8 > self.sizes).any():
            raise _NoVectorOrder
        words = np.ndarray((len(self.buffer) - 7,), "<i8", self.buffer, strides=(1,))
        millis = words[self._rows() + offset]
        nanos = (word & np.uint64(_LOW)).astype(np.int64)
        if (np.abs(millis) > _MAX_MILLIS).any() or (nanos >= 1_000_000).any():
            raise _NoVectorOrder
        yield millis
        yield nanos

    def _strings(self, slot: int) -> Iterator[I64]:
        """Yield the words of the strings, the first bytes highest, and their lengths."""
        mark = self._at(slot + 7, "u1").astype(np.int64)
        word = self._at(slot, "<u8")
        inline = (mark & _INLINE) != 0
        offset = (word >> np.uint64(32)).astype(np.int64)
        length = np.where(inline, mark & ~_INLINE, (word & np.uint64(_LOW)).astype(np.int64))
        if (inline & (length > _MAX_INLINE)).any() or (~inline & (offset + length > self.sizes)).any():
            raise _NoVectorOrder
        start = np.where(inline, self._rows() - _PREFIX + slot, self._rows() + offset)
        words = ByteWords.from_slices(self.buffer, start, length).words
        for index in range(words.shape[1]):
            column = np.ascontiguousarray(words[:, index]).byteswap() ^ _SIGN
            yield column.view(np.int64)
        yield length

    def _rows(self) -> I64:
        """Return where the row of each key begins, behind its number of fields."""
        rows: I64 = np.arange(self.count, dtype=np.int64) * self.width + _PREFIX
        return rows


def _is_long(data_type: AtomicType) -> bool:
    """Return whether the slot is one number of eight bytes, beside the types of FIXED_FORMATS."""
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision <= MAX_COMPACT_DECIMAL
    return data_type.root in _TIMESTAMPS and data_type.precision <= COMPACT_MILLIS


def _float_order(values: Ints) -> I64:
    """Return numbers in the order of floats: -0.0 below 0.0, and every NaN above everything."""
    wide = values.astype(np.float64)
    bits: I64 = wide.view(np.int64)
    order: I64 = np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits)
    order[np.isnan(wide)] = (1 << 63) - 1
    return order


def _single(columns: list[I64], count: int) -> I64:
    """Return one number for each row of columns, in their order."""
    differing = [column for column in columns if len(column) and (column != column[0]).any()]
    if len(differing) == 1:
        return differing[0]
    if not differing:
        return np.zeros(count, np.int64)
    order = np.lexsort(differing[::-1])
    step = np.zeros(len(order), np.bool_)
    for column in differing:
        ranked = column[order]
        step[1:] |= ranked[1:] != ranked[:-1]
    out = np.empty(len(order), np.int64)
    out[order] = np.cumsum(step)
    return out
