"""This module packs the columns of a key into one value a row that compares as the format orders keys. Pure.

One integer-like column (also dates, times, timestamps, booleans, floats, decimals of up to 18 digits) becomes
64-bit integers. Other keys become byte strings of one width: integers as 8 bytes, long decimals as 16, texts
and bytes padded with zeros to the width of their column and followed by their length in 4 bytes. A text that
is longer than its width is cut, but keeps its length: it still compares correctly with all values that are
not cut, and equals none of them.

Cost: a few nanoseconds a byte of the packed key.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import UnsupportedError
from lakecore.merge.key_columns import integer_view
from lakecore.metadata.key_order import comparable
from lakecore.row.hashing import hash_rows
from lakecore.row.values import array_values, normal_array
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, RowType

__all__ = ["IntegerKey", "KeyColumns", "OneKey", "Packed", "Widths", "concat_keys"]

Packed: TypeAlias = np.ndarray[Any, Any]
"""These are packed keys: 64-bit integers, or byte strings of one width."""
Widths: TypeAlias = tuple[int, ...]
"""These are the widths of the texts of a key in bytes, one for each column of texts or bytes."""

_SIGN = np.uint64(1 << 63)
_STEP = 8
_ROWS_AT_ONCE = 1 << 15


class OneKey(Protocol):
    """It is one key, as a search for one key needs it."""

    def plain(self, widths: Widths) -> Any:
        """Return the packed key, with these widths of texts, as a Python value; those of one width compare
        as packed keys do.
        """

    @property
    def hashes(self) -> np.ndarray[Any, Any]:
        """Return an array of one hash, for bloom filters."""

    def values(self) -> list[tuple[Any, ...]]:
        """Return a list of one key as Python values that compare as the format orders keys."""


class IntegerKey:
    """It is one key of one integer column, made without Arrow."""

    __slots__ = ("_value",)

    def __init__(self, value: int) -> None:
        self._value = value

    def plain(self, widths: Widths) -> Any:
        """Return the value; there are no texts."""
        return self._value

    @property
    def hashes(self) -> np.ndarray[Any, Any]:
        """Return the value, as `KeyColumns.hashes` does."""
        return np.array((self._value,), np.int64).view(np.uint64)

    def values(self) -> list[tuple[Any, ...]]:
        """Return the value."""
        return [(self._value,)]


class KeyColumns:
    """These are the key columns of some rows, without nulls, in the Arrow types of the key."""

    def __init__(self, columns: Sequence[pa.Array | pa.ChunkedArray], key_type: RowType) -> None:
        """Take the columns in the order of `key_type`. Raises InvalidInputError for a column that cannot be
        cast, UnsupportedError for a key of another type.
        """
        fields = key_type.fields
        for field in fields:
            if not isinstance(field.type, AtomicType):
                raise UnsupportedError(f"key column {field.name} of type {field.type} cannot be looked up")
        self._set([normal_array(c, f.type) for c, f in zip(columns, fields, strict=True)], key_type)

    @classmethod
    def of(cls, columns: Sequence[pa.Array], key_type: RowType) -> KeyColumns:
        """Return key columns from arrays of the Arrow types of the key, without looking at them."""
        out = cls.__new__(cls)
        out._set(columns, key_type)
        return out

    def _set(self, columns: Sequence[pa.Array], key_type: RowType) -> None:
        self._type = key_type
        self.columns = tuple(columns)
        self._packed: dict[Widths, Packed] = {}

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: np.ndarray[Any, Any]) -> KeyColumns:
        """Select some of the rows."""
        places = pa.array(rows)
        return KeyColumns([column.take(places) for column in self.columns], self._type)

    @cached_property
    def widths(self) -> Widths:
        """Return the widths, in steps of 8 bytes, that cut none of the texts."""
        return tuple(-(-_longest(c) // _STEP) * _STEP for c in self.columns if _is_text(c.type))

    @property
    def text_bytes(self) -> int:
        """Return the bytes of all texts."""
        texts = [column for column in self.columns if _is_text(column.type)]
        return sum(int(pc.sum(pc.binary_length(column)).as_py() or 0) for column in texts)

    def packed(self, widths: Widths) -> Packed:
        """Return the packed keys with these widths of texts. It is computed once for each widths."""
        packed_keys = self._packed.get(widths)
        if packed_keys is None:
            pack = _pack_one if len(self) == 1 else _pack
            packed_keys = self._packed[widths] = pack(self.columns, widths)
        return packed_keys

    def plain(self, widths: Widths) -> Any:
        """Return the first packed key as a Python value."""
        return self.packed(widths).item(0)

    @cached_property
    def hashes(self) -> np.ndarray[Any, Any]:
        """Return a hash of each key, for bloom filters: of an integer-like key the packed key."""
        if len(self.columns) == 1 and integer_view(self.columns[0]) is not None:
            return self.packed(()).view(np.uint64)
        return hash_rows(self.columns, self._type).view(np.uint32).astype(np.uint64)

    def values(self) -> list[tuple[Any, ...]]:
        """Return the keys as Python values that compare as the format orders keys. It costs about a
        microsecond a value.
        """
        values = [
            [comparable(value) for value in array_values(column, field.type)]
            for column, field in zip(self.columns, self._type.fields, strict=True)
        ]
        return list(zip(*values, strict=True))


def concat_keys(parts: Sequence[KeyColumns], key_type: RowType) -> KeyColumns:
    """Return the keys of all parts in turn."""
    if not parts:
        return KeyColumns([pa.array([], kind) for kind in arrow_schema(key_type).types], key_type)
    columns = [pa.concat_arrays(arrays) for arrays in zip(*(part.columns for part in parts), strict=True)]
    return KeyColumns(columns, key_type)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    ) and (not pa.types.is_decimal(data_type))


def _longest(column: pa.Array) -> int:
    return int(pc.max(pc.binary_length(column)).as_py() or 0)


def _pack(columns: Sequence[pa.Array], widths: Widths) -> Packed:
    if len(columns) == 1 and (view := integer_view(columns[0])) is not None:
        return view.astype(np.int64, copy=False)
    texts = iter(widths)
    parts = [(column, next(texts) if _is_text(column.type) else None) for column in columns]
    sizes = [_size(column, width) for column, width in parts]
    rows, total = len(columns[0]), sum(sizes)
    out = np.zeros((rows, total), np.uint8)
    at = 0
    for (column, width), size in zip(parts, sizes, strict=True):
        if width is not None:
            _put_texts(out[:, at : at + size], column, width)
        elif (view := integer_view(column)) is not None:
            words = view.astype(np.int64).view(np.uint64) ^ _SIGN
            out[:, at : at + size] = words.astype(">u8").view(np.uint8).reshape(-1, _STEP)
        else:
            out[:, at : at + size] = _long_decimals(column)
        at += size
    return out.reshape(-1).view(f"S{total}")


def _pack_one(columns: Sequence[pa.Array], widths: Widths) -> Packed:
    """Return what `_pack` returns for columns of one row, at a fraction of its cost."""
    if len(columns) == 1 and (view := integer_view(columns[0])) is not None:
        return view.astype(np.int64, copy=False)
    texts = iter(widths)
    parts: list[bytes] = []
    for column in columns:
        if _is_text(column.type):
            value = column[0].as_py()
            data = value.encode() if isinstance(value, str) else value
            width = next(texts)
            parts += [data[:width].ljust(width, b"\0"), len(data).to_bytes(4, "big")]
        elif (view := integer_view(column)) is not None:
            parts.append((int(view[0]) + (1 << 63)).to_bytes(8, "big"))
        else:
            parts.append(_long_decimals(column).tobytes())
    packed = b"".join(parts)
    return np.array([packed], f"S{len(packed)}")


def _size(column: pa.Array, width: int | None) -> int:
    if width is not None:
        return width + 4
    return 16 if pa.types.is_decimal(column.type) and column.type.precision > 18 else _STEP


def _long_decimals(column: pa.Array) -> np.ndarray[Any, Any]:
    raw = np.frombuffer(column.buffers()[1], np.uint8, 16 * (len(column) + column.offset))
    big = raw[16 * column.offset :].reshape(-1, 16)[:, ::-1].copy()
    big[:, 0] ^= 0x80
    return big


def _put_texts(out: np.ndarray[Any, Any], column: pa.Array, width: int) -> None:
    """Write the texts into a matrix of bytes, some rows at once: the places of bytes take 8 bytes each."""
    plain = pc.cast(column, pa.large_binary())
    offsets = np.frombuffer(plain.buffers()[1], np.int64, len(plain) + 1 + plain.offset)[plain.offset :]
    stored = plain.buffers()[2]
    data = np.zeros(1, np.uint8) if stored is None or not stored.size else np.frombuffer(stored, np.uint8)
    lengths = np.diff(offsets)
    out[:, width:] = lengths.astype(">u4").view(np.uint8).reshape(-1, 4)
    for low in range(0, len(plain), _ROWS_AT_ONCE):
        high = min(low + _ROWS_AT_ONCE, len(plain))
        places = offsets[low:high, None] + np.arange(width)
        inside = places < offsets[low + 1 : high + 1, None]
        out[low:high, :width] = np.where(inside, data[np.minimum(places, len(data) - 1)], 0)
