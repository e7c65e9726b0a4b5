"""The order of keys and sequences, written separately from the merge: a proof may not share its mistakes. No
IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import total_ordering
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass

__all__ = ["Bools", "KeyValues", "Rank", "compare_neighbours", "key_at", "ranks"]

Bools: TypeAlias = npt.NDArray[np.bool_]
KeyValues: TypeAlias = tuple[Any, ...]
"""It is one key as Python values that compare like the key: ints, bytes, decimals."""


@total_ordering
class _Null:
    """A value that sorts below every other value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Null)

    def __lt__(self, other: object) -> bool:
        return not isinstance(other, _Null)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "null"


_NULL = _Null()

_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Rank:
    """These are values to compare, numpy integers or an Arrow array without nulls; `falling` is set when a
    higher value comes earlier.
    """

    values: Any
    falling: bool = False


def ranks(column: pa.Array, *, descending: bool = False) -> tuple[Rank, ...]:
    """Return a column as one rank, or two when it has nulls: nulls are lowest whatever the direction.

    Strings and bytes compare by unsigned bytes, floats as in IEEE total order with one NaN on top.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not column.null_count:
        return (Rank(_values(column), descending),)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = _values(column)
    if isinstance(values, np.ndarray):
        values = np.where(valid, values, values.dtype.type(0))
    else:
        lowest = b"" if pa.types.is_binary(values.type) else Decimal(0)
        values = values.fill_null(pa.scalar(lowest, values.type))
    return Rank(valid.view(np.int8)), Rank(values, descending)


def key_at(columns: Sequence[pa.Array], row: int) -> KeyValues:
    """Return the key in `row` (negative: from the end), as values that compare like the key: nulls first."""
    values = (column.slice(row % len(column), 1) for column in columns)
    return tuple(_NULL if value.null_count else _plain(_values(value)) for value in values)


def compare_neighbours(columns: Sequence[Rank]) -> tuple[Bools, Bools]:
    """Return, for each row but the last, whether it is above the next one and whether it equals it; the first
    rank counts first.
    """
    above, same = _compare(columns[0])
    for column in columns[1:]:
        if not same.any():
            break
        more, equal = _compare(column)
        above |= same & more
        same &= equal
    return above, same


def _compare(rank: Rank) -> tuple[Bools, Bools]:
    values = rank.values
    low, high = (values[1:], values[:-1]) if not rank.falling else (values[:-1], values[1:])
    if isinstance(values, np.ndarray):
        return high > low, high == low
    return _bools(pc.greater(high, low)), _bools(pc.equal(high, low))


def _bools(values: pa.Array) -> Bools:
    return np.array(values.to_numpy(zero_copy_only=False), bool)


def _values(column: pa.Array) -> Any:
    data_type = column.type
    if pa.types.is_floating(data_type):
        return _float_ranks(column)
    if pa.types.is_boolean(data_type):
        return column.fill_null(False).to_numpy(zero_copy_only=False).view(np.int8)
    if pa.types.is_unsigned_integer(data_type):
        return column.to_numpy()
    if pa.types.is_integer(data_type) or pa.types.is_temporal(data_type):
        width = data_type.bit_width // 8
        buffer = column.buffers()[1]
        return np.frombuffer(buffer, _SIGNED[width], len(column), column.offset * width)
    return column if pa.types.is_decimal(data_type) else column.cast(pa.binary())


def _float_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    values[np.isnan(values)] = np.nan
    bits: npt.NDArray[np.int64] = values.view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def _plain(values: Any) -> Any:
    return values[0].item() if isinstance(values, np.ndarray) else values[0].as_py()
