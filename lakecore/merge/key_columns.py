"""This module has the key columns of a batch as arrays that compare as the format compares keys.

Fixed-width columns that are integers underneath (also dates, times, timestamps, booleans, decimals of up to
18 digits, and floats by their bits) become numpy arrays; strings, bytes and long decimals stay Arrow arrays.
Keys hold no nulls.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KeyArray", "KeyTuple", "Keys", "concat", "integer_view"]

KeyArray: TypeAlias = Any
"""This is a numpy array or an Arrow array."""
KeyTuple: TypeAlias = tuple[Any, ...]

_SHORT_DECIMAL_DIGITS = 18
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def integer_view(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Return the values as a numpy array ordered like the column, or None when nulls or the type forbid it.

    It costs no copy, except for booleans, floats and decimals.
    """
    if column.null_count:
        return None
    data_type = column.type
    if pa.types.is_decimal128(data_type):
        return _short_decimal(column) if data_type.precision <= _SHORT_DECIMAL_DIGITS else None
    if pa.types.is_boolean(data_type):
        return np.asarray(column.to_numpy(zero_copy_only=False)).view(np.int8)
    if pa.types.is_integer(data_type):
        return np.asarray(column.to_numpy())
    if pa.types.is_floating(data_type):
        return _total_order(column.to_numpy())
    if pa.types.is_date(data_type) or pa.types.is_time(data_type) or pa.types.is_timestamp(data_type):
        width = data_type.bit_width // 8
        values = np.frombuffer(column.buffers()[1], dtype=_SIGNED[width], count=len(column) + column.offset)
        return values[column.offset :]
    return None


def _total_order(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers in the order of the floats: -0.0 is below 0.0, and one NaN is above everything."""
    doubles = values.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _short_decimal(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return the low word of each 128-bit value, which represents any value of up to 18 digits."""
    words = np.frombuffer(column.buffers()[1], dtype=np.int64, count=2 * (len(column) + column.offset))
    return np.ascontiguousarray(words[2 * column.offset :: 2])


def concat(parts: Sequence[KeyArray]) -> KeyArray:
    """Return one array from arrays of one kind."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return pa.concat_arrays([part if isinstance(part, pa.Array) else pa.array(part) for part in parts])


class Keys:
    """These are the keys of consecutive rows of one sorted run, with one array per key column."""

    __slots__ = ("__dict__", "columns")

    def __init__(self, columns: Sequence[KeyArray]) -> None:
        self.columns = tuple(columns)

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> Keys:
        """Return keys from columns of a batch. They must have plain encoding, so dictionary columns are
        decoded.
        """
        return cls([_comparable(column) for column in columns])

    def __len__(self) -> int:
        return len(self.columns[0])

    def slice(self, start: int, stop: int) -> Keys:
        return Keys([column[start:stop] for column in self.columns])

    def at(self, row: int) -> KeyTuple:
        """Return one key as Python values."""
        return tuple(_value(column, row) for column in self.columns)

    @cached_property
    def first(self) -> KeyTuple:
        return self.at(0)

    @cached_property
    def last(self) -> KeyTuple:
        return self.at(len(self) - 1)

    def count_up_to(self, bound: KeyTuple) -> int:
        """Return the number of leading rows with a key <= `bound`, by binary search, column by column."""
        low, high = 0, len(self)
        for column, value in zip(self.columns, bound, strict=True):
            if low == high:
                return low
            low, high = _equal_range(column, value, low, high)
        return high

    def strictly_increasing(self) -> bool:
        """Return whether every key is above the one before it."""
        first = self.columns[0]
        if len(self.columns) == 1 and isinstance(first, np.ndarray):
            return bool((first[1:] > first[:-1]).all())
        tied: Any = np.ones(max(len(self) - 1, 0), bool)
        for column in self.columns:
            above, same = _neighbours(column)
            if not bool((above | same | ~tied).all()):
                return False
            tied = tied & same
            if not tied.any():
                return True
        return not bool(tied.any())


def _comparable(column: pa.Array) -> KeyArray:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    view = integer_view(column)
    return column if view is None else view


def _value(column: KeyArray, row: int) -> Any:
    return column[row].item() if isinstance(column, np.ndarray) else column[row].as_py()


class _Values(Sequence[Any]):
    """A sequence of the Python values of an Arrow array, for `bisect`."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: Any) -> Any:
        return self._column[row].as_py()


def _equal_range(column: KeyArray, value: Any, low: int, high: int) -> tuple[int, int]:
    if isinstance(column, np.ndarray):
        part = column[low:high]
        return low + int(part.searchsorted(value, "left")), low + int(part.searchsorted(value, "right"))
    values = _Values(column)
    begin = bisect_left(values, value, low, high)
    return begin, bisect_right(values, value, begin, high)


def _neighbours(column: KeyArray) -> tuple[Any, Any]:
    """Return, for each row but the first, whether it is above the row before and whether it is equal to
    it.
    """
    after, before = column[1:], column[:-1]
    if isinstance(column, np.ndarray):
        return after > before, after == before
    above, same = pc.greater(after, before), pc.equal(after, before)
    return above.to_numpy(zero_copy_only=False), same.to_numpy(zero_copy_only=False)
