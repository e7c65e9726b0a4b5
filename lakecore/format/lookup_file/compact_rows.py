"""This module decodes rows in Paimon's compact form into Arrow columns, many at once.

Layout (Paimon's RowCompactedSerializer): a byte for the kind of the row, a bit for each field that is null,
then the fields that are not, without padding; texts, bytes and long decimals have their length before them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.format.lookup_file.varints import Ints, read_varints
from lakecore.row.binary_layout import COMPACT_MILLIS, FIXED_FORMATS, MAX_COMPACT_DECIMAL
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot

__all__ = ["decode_compact_rows", "has_known_form"]

_NUMPY = {"?": "<u1", "b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8"}
_BYTES = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_DECIMAL_BYTES = 16
_PER_MILLI = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}
_NANOS = 1_000_000


def has_known_form(kind: DataType) -> bool:
    """Return whether columns of this type can be decoded: types without parts are, but for variants and
    blobs.
    """
    if not isinstance(kind, AtomicType):
        return False
    return kind.root in FIXED_FORMATS or kind.root in {TypeRoot.DECIMAL} | _BYTES | _TIMESTAMPS


def decode_compact_rows(data: Ints, starts: Ints, ends: Ints, kind: RowType) -> list[pa.Array]:
    """Return the columns of rows, row i being the bytes [starts[i], ends[i]) of `data`, which has PADDING.

    Raises ValueError where a row is not exactly as long as its fields.
    """
    cursor = _Cursor(data, starts, ends, len(kind.fields))
    columns = [cursor.column(at, field.type) for at, field in enumerate(kind.fields)]
    if not np.array_equal(cursor.at, ends):
        raise ValueError("a row is longer than its fields")
    return columns


class _Cursor:
    """It stands before the next field of each row."""

    def __init__(self, data: Ints, starts: Ints, ends: Ints, arity: int) -> None:
        self._data = data
        self._starts = starts
        self._ends = ends
        self.at = starts + (arity + 15) // 8
        self._check()

    def column(self, number: int, kind: DataType) -> pa.Array:
        """Return one column, and move behind it."""
        assert isinstance(kind, AtomicType)
        bits = self._data[self._starts + (number + 8) // 8] >> (number % 8) & 1
        valid = bits == 0
        if kind.root in FIXED_FORMATS:
            values = self._fixed(valid, _NUMPY[FIXED_FORMATS[kind.root]])
            return _plain(values, valid, kind)
        if kind.root is TypeRoot.DECIMAL:
            return self._decimals(valid, kind)
        if kind.root in _TIMESTAMPS:
            return self._timestamps(valid, kind)
        return self._bytes(valid, kind)

    def _fixed(self, valid: Ints, code: str) -> Ints:
        width = np.dtype(code).itemsize
        out = np.zeros(len(valid), code)
        at = self.at[valid]
        self.at = self.at + np.where(valid, width, 0)
        self._check()
        out[valid] = self._data[at[:, None] + np.arange(width)].reshape(-1).view(code)
        return out

    def _lengths(self, valid: Ints) -> tuple[Ints, Ints]:
        """Return where the bytes of each row begin and how many they are, and move behind them."""
        size, after = np.zeros(len(valid), np.int64), self.at.copy()
        size[valid], after[valid] = read_varints(self._data, self.at[valid])
        self.at = after + size
        self._check()
        return after, size

    def _bytes(self, valid: Ints, kind: AtomicType) -> pa.Array:
        start, size = self._lengths(valid)
        offsets = np.concatenate([[0], np.cumsum(size)])
        if offsets[-1] > 0x7FFFFFFF:
            raise ValueError("the texts of a batch take more than 2 GiB")
        places = np.repeat(start - offsets[:-1], size) + np.arange(offsets[-1])
        target = pa.string() if kind.root in _TEXTS else pa.binary()
        buffers = [_mask(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self._data[places])]
        array = pa.Array.from_buffers(target, len(valid), buffers)
        array.validate(full=True)
        return array

    def _decimals(self, valid: Ints, kind: AtomicType) -> pa.Array:
        words = np.zeros((len(valid), 2), "<i8")
        if kind.precision <= MAX_COMPACT_DECIMAL:
            words[:, 0] = self._fixed(valid, "<i8")
            words[:, 1] = words[:, 0] >> 63
        else:
            start, size = self._lengths(valid)
            if (size > _DECIMAL_BYTES).any() or (size[valid] == 0).any():
                raise ValueError("a decimal has another number of bytes than 1 to 16")
            sign = np.where(valid & (self._data[start] >= 0x80), 0xFF, 0).astype(np.uint8)
            octets = np.repeat(sign, _DECIMAL_BYTES).reshape(-1, _DECIMAL_BYTES)
            for place in range(_DECIMAL_BYTES):
                has = size > place
                octets[has, place] = self._data[(start + size - 1 - place)[has]]
            words = octets.view("<i8")
        buffers = [_mask(valid), pa.py_buffer(np.ascontiguousarray(words))]
        array = pa.Array.from_buffers(arrow_type(kind), len(valid), buffers)
        array.validate(full=True)
        return array

    def _timestamps(self, valid: Ints, kind: AtomicType) -> pa.Array:
        target = arrow_type(kind)
        scale = _PER_MILLI[target.unit]
        values = self._fixed(valid, "<i8")
        most = np.iinfo(np.int64).max // scale - 1 if scale else 0
        if not scale or (np.abs(values) > most).any():
            raise ValueError("a timestamp is outside of what its type holds")
        values = values * scale
        if kind.precision > COMPACT_MILLIS:
            nanos, after = np.zeros(len(valid), np.int64), self.at.copy()
            nanos[valid], after[valid] = read_varints(self._data, self.at[valid])
            self.at = after
            self._check()
            if (nanos >= _NANOS).any():
                raise ValueError("a timestamp has more than a million nanoseconds")
            values += nanos * scale // _NANOS
        return _array(values, valid, target)

    def _check(self) -> None:
        if (self.at > self._ends).any():
            raise ValueError("a row is shorter than its fields")


def _plain(values: Ints, valid: Ints, kind: AtomicType) -> pa.Array:
    if kind.root is TypeRoot.BOOLEAN:
        return pa.array(values != 0, mask=~valid)
    return _array(values, valid, arrow_type(kind))


def _array(values: Ints, valid: Ints, target: Any) -> pa.Array:
    return pa.Array.from_buffers(target, len(values), [_mask(valid), pa.py_buffer(values)])


def _mask(valid: Ints) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
