"""This module has one column of many keys while their rows are applied: what each aggregate function makes
of a value. It is pure.

A state takes the rows of a round: `keys` (each at most once) and `rows` (places in the window). Most
functions choose a value, so their state is the place of the chosen row, whatever the type; sums and products
hold numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.verify.rules.order import Bools, ranks

__all__ = ["ColumnState", "NotRecomputableError", "PickedState", "Places", "dense_ranks", "flat_state"]

Places = npt.NDArray[np.int64]
_EXACT = Context(prec=76)
_LONG_DIGITS = 18
_LARGE = 1 << 62
"""With a total below it, a number of 18 digits can be added or subtracted in 64 bits."""


class NotRecomputableError(Exception):
    """The rows of a column are such that its function is not written down here: the proof says so."""


class ColumnState(Protocol):
    """`set` puts the row's value, null or not. `add_late` takes a row that belongs before those added (of
    a group).
    """

    def set(self, keys: Places, rows: Places) -> None: ...
    def clear(self, keys: Places) -> None: ...
    def add(self, keys: Places, rows: Places) -> None: ...
    def add_late(self, keys: Places, rows: Places) -> None: ...
    def retract(self, keys: Places, rows: Places) -> None: ...
    def values(self) -> pa.Array: ...


def dense_ranks(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """Return one integer per row, in the order of the rows of `columns`; nulls are lowest."""
    total = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        for rank in ranks(column):
            if isinstance(rank.values, np.ndarray):
                own = np.unique(rank.values, return_inverse=True)[1]
            else:
                own = pc.rank(rank.values, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
            total = total * (int(own.max(initial=0)) + 1) + own
            total = np.unique(total, return_inverse=True)[1].astype(np.int64)
    return total


class PickedState:
    """This is a column whose result is the value of one row, or null (-1)."""

    def __init__(self, column: pa.Array, count: int) -> None:
        self._column = column
        self.valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        self.row = np.full(count, -1, np.int64)

    def set(self, keys: Places, rows: Places) -> None:
        self.row[keys] = np.where(self.valid[rows], rows, -1)

    def set_valid(self, keys: Places, rows: Places) -> None:
        """Set values that are not null in place of those before."""
        valid = self.valid[rows]
        self.row[keys[valid]] = rows[valid]

    def clear(self, keys: Places) -> None:
        self.row[keys] = -1

    def add(self, keys: Places, rows: Places) -> None:
        self.set(keys, rows)

    def add_late(self, keys: Places, rows: Places) -> None:
        """Do nothing, because a late row changes nothing."""

    def retract(self, keys: Places, rows: Places) -> None:
        self.clear(keys)

    def values(self) -> pa.Array:
        return self._column.take(pa.array(self.row, mask=self.row < 0))


class _Key(PickedState):
    def retract(self, keys: Places, rows: Places) -> None:
        self.set(keys, rows)


class _LastNonNull(PickedState):
    def add(self, keys: Places, rows: Places) -> None:
        self.set_valid(keys, rows)

    def add_late(self, keys: Places, rows: Places) -> None:
        empty = self.row[keys] < 0
        self.set(keys[empty], rows[empty])

    def retract(self, keys: Places, rows: Places) -> None:
        self.clear(keys[self.valid[rows]])


class _First(PickedState):
    """The first value, or the first that is not null. It cannot take a row back."""

    def __init__(self, column: pa.Array, count: int, *, null_counts: bool) -> None:
        super().__init__(column, count)
        self._has_value = np.zeros(count, bool)
        self._null_counts = null_counts

    def add(self, keys: Places, rows: Places) -> None:
        new = ~self._has_value[keys] & (self._null_counts | self.valid[rows])
        self._has_value[keys[new]] = True
        self.set(keys[new], rows[new])

    def add_late(self, keys: Places, rows: Places) -> None:
        """Add late rows by the rule with both values exchanged: the row's counts as the one before (rule of
        the format).
        """
        begins = ~self._has_value[keys] & (self._null_counts | (self.row[keys] >= 0))
        self._has_value[keys[begins]] = True
        self.set(keys[~begins], rows[~begins])

    def retract(self, keys: Places, rows: Places) -> None:
        raise NotRecomputableError


class _Extreme(PickedState):
    """The highest or lowest value; of booleans: whether any, or all, are true."""

    def __init__(self, column: pa.Array, count: int, *, highest: bool) -> None:
        super().__init__(column, count)
        ranked = dense_ranks([column])
        self._rank = ranked if highest else -ranked

    def add(self, keys: Places, rows: Places) -> None:
        now = self.row[keys]
        better = self.valid[rows] & ((now < 0) | (self._rank[now] < self._rank[rows]))
        self.row[keys[better]] = rows[better]

    def add_late(self, keys: Places, rows: Places) -> None:
        self.add(keys, rows)

    def retract(self, keys: Places, rows: Places) -> None:
        raise NotRecomputableError


_Operation = Callable[[Any, Any], Any]


class _ComputedState:
    """The state of a sum or a product, which is applied in merge order: the rounding of floats depends on it.

    `begins`: a row that is taken back from nothing leaves its negative value; else it leaves nothing. A
    decimal that is too long for its type is null, and the next value starts anew (rule of the format); a sum
    of decimals of up to 18 digits is so where it is no number of 64 bits.

    Sums of such decimals are in numbers of 64 bits until one becomes large. Then all are Python integers.
    """

    def __init__(
        self, column: pa.Array, count: int, operation: _Operation, back: _Operation, *, begins: bool
    ) -> None:
        self._type = column.type
        self.valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        self._numbers = _numbers(column, exact=not begins)
        self._begins = begins
        self._operation = operation
        self._back = back
        self._bounds = _bounds(column.type, sums=begins)
        self._filled = np.zeros(count, bool)
        self._totals = np.zeros(count, self._numbers.dtype)

    def set(self, keys: Places, rows: Places) -> None:
        self._filled[keys] = self.valid[rows]
        self._totals[keys] = self._numbers[rows]

    def clear(self, keys: Places) -> None:
        self._filled[keys] = False

    def add(self, keys: Places, rows: Places) -> None:
        self._combine(keys, rows, self._operation, self._numbers)

    def add_late(self, keys: Places, rows: Places) -> None:
        self.add(keys, rows)

    def retract(self, keys: Places, rows: Places) -> None:
        if not self._begins:
            filled = self._filled[keys]
            keys, rows = keys[filled], rows[filled]
        self._combine(keys, rows, self._back, -self._numbers)

    def _combine(self, keys: Places, rows: Places, operation: _Operation, alone: Any) -> None:
        """Combine rows with the totals. `alone` computes what a row makes of a total that is null."""
        valid = self.valid[rows]
        keys, rows = keys[valid], rows[valid]
        if self._bounds is not None and self._totals.dtype != object and _any_large(self._totals[keys]):
            self._totals, self._numbers = self._totals.astype(object), self._numbers.astype(object)
        empty = ~self._filled[keys]
        with np.errstate(all="ignore"):
            self._totals[keys[~empty]] = operation(self._totals[keys[~empty]], self._numbers[rows[~empty]])
        self._totals[keys[empty]] = alone[rows[empty]]
        self._filled[keys] = True
        if self._bounds is not None and len(keys):
            low, high = self._bounds
            totals = self._totals[keys]
            self._filled[keys] &= ((totals >= low) & (totals < high)).astype(bool)

    def values(self) -> pa.Array:
        if pa.types.is_decimal(self._type):
            return _decimals(self._totals, ~self._filled, self._type)
        if self._totals.dtype != object:
            return pa.array(self._totals, self._type, mask=~self._filled)
        totals = zip(self._totals.tolist(), self._filled.tolist(), strict=True)
        return pa.array([total if filled else None for total, filled in totals], self._type)


def _bounds(data_type: pa.DataType, *, sums: bool) -> tuple[int, int] | None:
    """Return the range (without its end) of the results of decimals that are no nulls; None for others."""
    if not pa.types.is_decimal(data_type):
        return None
    if sums and data_type.precision <= _LONG_DIGITS:
        return -(1 << 63), 1 << 63
    size = 10**data_type.precision
    return 1 - size, size


def _any_large(totals: Any) -> bool:
    return bool(len(totals)) and max(int(totals.max()), -int(totals.min())) >= _LARGE


def _numbers(column: pa.Array, *, exact: bool) -> Any:
    """Return the values of a numeric column; decimals are integers of their last digit, those of Python where
    64 bits are too few. Values at null positions are arbitrary.

    `exact`: integers of any size, for products that shrink again.
    """
    if pa.types.is_decimal(column.type):
        longs = None if exact else _longs(column)
        if longs is not None:
            return longs
        scale = column.type.scale
        numbers = [0 if v is None else int(v.scaleb(scale, _EXACT)) for v in column.to_pylist()]
        return np.array([*numbers, None], object)[:-1]
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(object) if exact and pa.types.is_integer(column.type) else numbers


def _longs(column: pa.Array) -> Places | None:
    """Return decimals as integers of their last digit. None: a type or a value has more than 18 digits."""
    words = column.buffers()[1]
    if not pa.types.is_decimal128(column.type) or column.type.precision > _LONG_DIGITS or words is None:
        return None
    low, high = np.frombuffer(words, np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2).T
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    size = 10**_LONG_DIGITS
    fits = (high == low >> 63) & (low > -size) & (low < size)
    return np.where(valid, low, 0) if (fits | ~valid).all() else None


def _products(data_type: pa.DataType) -> tuple[_Operation, _Operation]:
    """Return multiplication and division of values of a type: decimals are rounded half up, integers cut
    off.
    """
    if pa.types.is_floating(data_type):
        return np.multiply, np.divide
    if pa.types.is_decimal(data_type):
        unit = 10**data_type.scale
        return _each(lambda a, b: _quotient(a * b, unit, 1)), _each(lambda a, b: _quotient(a * unit, b, 1))
    return np.multiply, _each(lambda a, b: _quotient(a, b, 0))


def _each(operation: Callable[[int, int], int]) -> _Operation:
    def both(left: Any, right: Any) -> Any:
        values = [operation(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
        return np.array([*values, None], object)[:-1]

    return both


def _quotient(number: int, divisor: int, half: int) -> int:
    """Cut off towards zero (`half` 0), or rounded half away from zero (1)."""
    if divisor == 0:
        raise NotRecomputableError
    size = (2 * abs(number) + half * abs(divisor)) // (2 * abs(divisor))
    return size if (number < 0) == (divisor < 0) else -size


def _decimals(totals: Any, nulls: Bools, data_type: pa.DataType) -> pa.Array:
    result_type = pa.decimal128(38, data_type.scale)
    if totals.dtype != object:
        words = np.stack([totals, totals >> 63], axis=1)
        valid = pa.array(~nulls).buffers()[1]
        return pa.Array.from_buffers(result_type, len(totals), [valid, pa.py_buffer(words)])
    decimals = [
        None if null else Decimal(int(value)).scaleb(-data_type.scale, _EXACT)
        for value, null in zip(totals, nulls, strict=True)
    ]
    return pa.array(decimals, result_type)


_PICKED: dict[str, Callable[[pa.Array, int], ColumnState]] = {
    "primary-key": _Key,
    "last_value": PickedState,
    "last_non_null_value": _LastNonNull,
    "first_value": partial(_First, null_counts=True),
    "first_non_null_value": partial(_First, null_counts=False),
    "first_not_null_value": partial(_First, null_counts=False),
    "max": partial(_Extreme, highest=True),
    "min": partial(_Extreme, highest=False),
    "bool_or": partial(_Extreme, highest=True),
    "bool_and": partial(_Extreme, highest=False),
}
"""The functions whose result is the value of a row; the others recomputed are sum and product."""


def flat_state(function: str, column: pa.Array, count: int) -> ColumnState:
    """Return the state of `count` keys. Raises NotRecomputableError for a function that is not implemented
    here.
    """
    picked = _PICKED.get(function)
    if picked is not None:
        if picked is not _Key and "value" not in function and pa.types.is_nested(column.type):
            raise NotRecomputableError
        return picked(column, count)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if function == "sum":
        return _ComputedState(column, count, np.add, np.subtract, begins=True)
    if function == "product":
        return _ComputedState(column, count, *_products(column.type), begins=False)
    raise NotRecomputableError
