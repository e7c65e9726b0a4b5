"""This module decodes rows in Paimon's compact form into Arrow columns, many at once.

Layout (Paimon's RowCompactedSerializer): a byte for the kind of the row, a bit for each field that is null,
then the fields that are not, without padding; texts, bytes and long decimals have their length before them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakecore.format.lookup_file.varints import Ints, read_varints
from lakecore.row.binary_layout import COMPACT_MILLIS, FIXED_FORMATS, MAX_COMPACT_DECIMAL
from lakecore.row.binary_row import decode_part
from lakecore.row.column_buffers import (
    bytes_column,
    decimal_column,
    fixed_column,
    small_decimal_column,
    timestamp_column,
)
from lakecore.row.values import values_array
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

__all__ = ["decode_compact_rows", "has_known_form"]

_NUMPY = {"?": "<u1", "b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8"}
_BINARY = AtomicType(TypeRoot.VARBINARY)
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def has_known_form(data_type: DataType) -> bool:
    """Return whether columns of this type can be decoded: all can, but blobs."""
    match data_type:
        case AtomicType():
            return data_type.root is not TypeRoot.BLOB
        case ArrayType(element=element) | VectorType(element=element) | MultisetType(element=element):
            return has_known_form(element)
        case MapType(key=key, value=value):
            return has_known_form(key) and has_known_form(value)
        case RowType(fields=fields):
            return all(has_known_form(field.type) for field in fields)


def decode_compact_rows(data: Ints, starts: Ints, ends: Ints, data_type: RowType) -> list[pa.Array]:
    """Return the columns of rows, row i being the bytes [starts[i], ends[i]) of `data`, which has PADDING.

    Raises ValueError where a row is not exactly as long as its fields.
    """
    cursor = _Cursor(data, starts, ends, len(data_type.fields))
    columns = [cursor.column(at, field.type) for at, field in enumerate(data_type.fields)]
    if not np.array_equal(cursor.at, ends):
        raise ValueError("a row is longer than its fields")
    return columns


class _Cursor:
    """It stands before the next field of each row."""

    def __init__(self, data: Ints, starts: Ints, ends: Ints, arity: int | None) -> None:
        """Begin behind the head of rows of so many fields; None: the parts have no head."""
        self._data = data
        self._starts = starts
        self._ends = ends
        self.at = starts + (0 if arity is None else (arity + 15) // 8)
        self._check()

    def column(self, number: int, data_type: DataType) -> pa.Array:
        """Return one column, and move behind it."""
        bits = self._data[self._starts + (number + 8) // 8] >> (number % 8) & 1
        valid = bits == 0
        if isinstance(data_type, RowType):
            return self._rows(valid, data_type)
        if not isinstance(data_type, AtomicType):
            return self._nested_column(valid, data_type)
        if data_type.root is TypeRoot.VARIANT:
            return self._variants(valid, data_type)
        if data_type.root in FIXED_FORMATS:
            values = self._fixed_values(valid, _NUMPY[FIXED_FORMATS[data_type.root]])
            return fixed_column(values, valid, data_type)
        if data_type.root is TypeRoot.DECIMAL:
            return self._decimals(valid, data_type)
        if data_type.root in _TIMESTAMPS:
            return self._timestamps(valid, data_type)
        return self._bytes(valid, data_type)

    def _fixed_values(self, valid: Ints, code: str) -> Ints:
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

    def _bytes(self, valid: Ints, data_type: AtomicType) -> pa.Array:
        return bytes_column(self._data, *self._lengths(valid), valid, data_type)

    def _decimals(self, valid: Ints, data_type: AtomicType) -> pa.Array:
        if data_type.precision <= MAX_COMPACT_DECIMAL:
            return small_decimal_column(self._fixed_values(valid, "<i8"), valid, data_type)
        return decimal_column(self._data, *self._lengths(valid), valid, data_type)

    def _timestamps(self, valid: Ints, data_type: AtomicType) -> pa.Array:
        millis = self._fixed_values(valid, "<i8")
        if data_type.precision <= COMPACT_MILLIS:
            return timestamp_column(millis, None, valid, data_type)
        nanos, after = np.zeros(len(valid), np.int64), self.at.copy()
        nanos[valid], after[valid] = read_varints(self._data, self.at[valid])
        self.at = after
        self._check()
        return timestamp_column(millis, nanos, valid, data_type)

    def _rows(self, valid: Ints, data_type: RowType) -> pa.Array:
        starts, sizes = self._lengths(valid)
        inner = decode_compact_rows(self._data, starts[valid], (starts + sizes)[valid], data_type)
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        columns = [column.take(places) for column in inner]
        target = arrow_type(data_type)
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=pa.array(~valid))

    def _nested_column(self, valid: Ints, data_type: DataType) -> pa.Array:
        """Decode arrays, maps and vectors, which are as BinaryRow stores them, value by value."""
        starts, sizes = self._lengths(valid)
        values = [
            decode_part(self._data[start : start + size].tobytes(), data_type) if present else None
            for start, size, present in zip(starts.tolist(), sizes.tolist(), valid.tolist(), strict=True)
        ]
        return values_array(values, data_type)

    def _variants(self, valid: Ints, data_type: AtomicType) -> pa.Array:
        starts, sizes = self._lengths(valid)
        inner = _Cursor(self._data, starts[valid], (starts + sizes)[valid], None)
        present = np.ones(int(valid.sum()), bool)
        both = [inner._bytes(present, _BINARY) for _ in range(2)]
        if not np.array_equal(inner.at, inner._ends):
            raise ValueError("a variant is longer than its parts")
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        columns = [column.take(places).fill_null(b"") for column in both]
        target = arrow_type(data_type)
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=pa.array(~valid))

    def _check(self) -> None:
        if (self.at > self._ends).any():
            raise ValueError("a row is shorter than its fields")
