"""This module has the aggregate functions sum and product.

Rules of the format: a result that does not fit an integer type is an error (Java Paimon before 2.0 wraps
around, and what is lost so cannot be found again); a decimal that does not fit becomes null, and the next
value starts anew. Sums of decimals of up to 18 digits are numbers of 64 bits until the end. One that does not
fit then is an error: Java stores it in files of parquet, and null in others. Floats are added and multiplied
in merge order, so that every reader gets the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.values import FinishedSteps, fold_values
from lakecore.merge.groups import Column
from lakecore.merge.plain_values import plain_values
from lakecore.merge.row_order import Bools
from lakecore.row.binary_layout import MAX_COMPACT_DECIMAL
from lakecore.types.datatypes import AtomicType

__all__ = ["Product", "Sum"]

_HOT = 64
_LIMBS = 4
_SAFE = 2.0**62
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_LONG = 1 << 63


@dataclass(frozen=True, slots=True)
class Sum:
    """This is the function sum. `field` is the name for messages. A retraction subtracts; without a value
    it leaves the negative value.
    """

    field: str
    type: AtomicType
    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled.with_value(column)
        empty = np.diff(events.starts) == 0
        if pa.types.is_decimal(column.type):
            return self._decimals(column, events, empty)
        numbers = plain_values(column)
        values = column.take(pa.array(events.rows)).to_numpy() if numbers is None else numbers[events.rows]
        minus = events.retracts
        if pa.types.is_floating(column.type):
            signed = np.where(minus, -values, values)
            return pa.array(_in_order(np.add, signed, events), column.type, mask=empty)
        return self._integers(values.astype(np.int64), minus, events, column.type)

    def _integers(self, values: Any, minus: Bools, events: Events, data_type: pa.DataType) -> pa.Array:
        if not events.has_retracts and _bound(values, events) < _SAFE:
            total = events.reduce(np.add, values, 0)
            return self._check(total, np.zeros(events.count, bool), events, data_type)
        sign = np.where(minus, -1, 1)
        high = events.reduce(np.add, (values >> 32) * sign, 0)
        low = events.reduce(np.add, (values & 0xFFFFFFFF) * sign, 0)
        high, low = high + (low >> 32), low & 0xFFFFFFFF
        total = (high << 32) + low
        return self._check(total, (high < -(1 << 31)) | (high >= 1 << 31), events, data_type)

    def _check(self, total: Any, bad: Bools, events: Events, data_type: pa.DataType) -> pa.Array:
        limits = np.iinfo(data_type.to_pandas_dtype())
        if (bad | (total < limits.min) | (total > limits.max)).any():
            raise _overflow(self.field, self.type, "sum")
        empty = events.sizes == 0
        return pa.array(total.astype(data_type.to_pandas_dtype()), mask=empty if empty.any() else None)

    def _decimals(self, column: pa.Array, events: Events, empty: Bools) -> pa.Array:
        """Return sums of 128-bit numbers: they are added as four words of 32 bits, each on its own; carries
        come last.
        """
        values = column.take(pa.array(events.rows))
        if len(events) and not events.has_retracts:
            pairs = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[: len(values)]
            small = (pairs[:, 1] == pairs[:, 0] >> 63).all()
            if small and _bound(pairs[:, 0], events) < min(_SAFE, 10.0**column.type.precision / 2):
                total = events.reduce(np.add, pairs[:, 0], 0)
                return _decimal128(np.stack((total, total >> 63), axis=1), column.type, empty)
        words = np.frombuffer(values.buffers()[1], np.uint32).reshape(-1, _LIMBS)[: len(values)]
        limbs = words.astype(np.int64)
        limbs[:, -1] = words[:, -1].view(np.int32)
        sign = np.where(events.steps == Step.RETRACT, -1, 1)
        magnitude = np.where(limbs[:, -1:] < 0, ~words, words)
        sizes = magnitude @ (2.0 ** np.array([0, 32, 64, 96])) + 1
        bound = events.reduce(np.add, sizes, 0.0)
        result = np.empty((events.count, _LIMBS), np.uint32)
        carry: Any = np.zeros(events.count, np.int64)
        for i in range(_LIMBS):
            limb = events.reduce(np.add, limbs[:, i] * sign, 0) + carry
            result[:, i] = (limb & 0xFFFFFFFF).astype(np.uint32)
            carry = limb >> 32
        decimals = _decimal128(result, column.type, empty)
        near = (bound * (1 + 1e-9) >= 10.0**column.type.precision) & (events.sizes > 1)
        if not near.any():
            return decimals
        is_long = column.type.precision <= MAX_COMPACT_DECIMAL
        steps = FinishedSteps(self._long_step, self._in_range) if is_long else self._step
        return fold_values(column, self.type, events, steps, near, decimals)

    def _step(self, step: Step, state: Decimal | None, value: Decimal) -> Decimal | None:
        return _fit(_total(step, state, value), self.type)

    def _long_step(self, step: Step, state: Decimal | None, value: Decimal) -> Decimal | None:
        total = _total(step, state, value)
        return total if -_LONG <= total.scaleb(self.type.scale or 0, _EXACT) < _LONG else None

    def _in_range(self, total: Decimal) -> Decimal:
        if _fit(total, self.type) is None:
            raise _overflow(self.field, self.type, "sum")
        return total


@dataclass(frozen=True, slots=True)
class Product:
    """A retraction divides: integers cut off towards zero, decimals must divide without remainder."""

    field: str
    type: AtomicType
    retracts: bool = True

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled.with_value(column)
        started = events.first_where(events.steps != Step.RETRACT)[events.groups]
        events = events.keep((started >= 0) & (np.arange(len(events)) >= started))
        everything = np.ones(events.count, bool)
        if pa.types.is_decimal(column.type):
            return fold_values(column, self.type, events, self._decimal, everything)
        values = column.take(pa.array(events.rows)).to_numpy()
        empty = np.diff(events.starts) == 0
        divide = events.steps == Step.RETRACT
        if pa.types.is_floating(column.type):
            if divide.any():
                return pa.array(_multiply(values, divide, events), column.type, mask=empty)
            return pa.array(_in_order(np.multiply, values, events), column.type, mask=empty)
        return self._integers(column, values, divide, events)

    def _integers(self, column: pa.Array, values: Any, divide: Bools, events: Events) -> pa.Array:
        exact = events.reduce(np.logical_or, divide, False)
        size = events.reduce(np.multiply, np.abs(values.astype(np.float64)), 1.0)
        total = events.reduce(np.multiply, values.astype(np.int64), 0)
        limits = np.iinfo(column.type.to_pandas_dtype())
        exact |= size >= _SAFE
        bad = ~exact & ((total < limits.min) | (total > limits.max))
        if bad.any():
            raise _overflow(self.field, self.type, "product")
        total[exact] = 0
        integers = pa.array(total.astype(column.type.to_pandas_dtype()), mask=np.diff(events.starts) == 0)
        if not exact.any():
            return integers
        steps = FinishedSteps(self._integer, self._in_range)
        return fold_values(column, self.type, events, steps, exact, integers)

    def _integer(self, step: Step, state: int | None, value: int) -> int:
        if state is None:
            return value
        if step is Step.RETRACT and value == 0:
            raise _zero(self.field)
        return _truncate(state, value) if step is Step.RETRACT else state * value

    def _in_range(self, result: int) -> int:
        bits = _BITS[self.type.root.value]
        if not -(1 << bits) <= result < 1 << bits:
            raise _overflow(self.field, self.type, "product")
        return result

    def _decimal(self, step: Step, state: Decimal | None, value: Decimal) -> Decimal | None:
        if step is not Step.RETRACT:
            return value if state is None else _fit(_EXACT.multiply(state, value), self.type)
        if state is None:
            return None
        if value == 0:
            raise _zero(self.field)
        context = _EXACT.copy()
        context.traps[Inexact] = True
        try:
            return _fit(context.divide(state, value), self.type)
        except Inexact as err:
            raise UnsupportedError(
                f"field {self.field}: function product cannot retract {value} from {state}: the quotient "
                f"has no end; set fields.{self.field}.ignore-retract=true"
            ) from err


_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def _total(step: Step, state: Decimal | None, value: Decimal) -> Decimal:
    signed = value.copy_negate() if step is Step.RETRACT else value
    return signed if state is None else _EXACT.add(state, signed)


def _truncate(state: int, value: int) -> int:
    size = abs(state) // abs(value)
    return size if (state < 0) == (value < 0) else -size


def _fit(value: Decimal, data_type: AtomicType) -> Decimal | None:
    """Return the value rounded to the scale of the type, or None when it has too many digits."""
    rounded = value.quantize(Decimal(1).scaleb(-(data_type.scale or 0)), context=_EXACT)
    return rounded if len(rounded.as_tuple().digits) <= (data_type.precision or 0) else None


def _bound(values: Any, events: Events) -> float:
    """Return more than the size of any intermediate sum: the largest value times the longest group."""
    if not len(values):
        return 0.0
    largest = max(abs(float(values.min())), abs(float(values.max())))
    return (largest + 1) * float(events.sizes.max()) * (1 + 1e-9)


def _decimal128(words: Any, data_type: pa.DataType, empty: Bools) -> pa.Array:
    """Return decimals from `words`: 16 bytes per value, least significant first."""
    valid = pa.py_buffer(np.packbits(~empty, bitorder="little").tobytes()) if empty.any() else None
    return pa.Array.from_buffers(data_type, len(empty), [valid, pa.py_buffer(words.tobytes())])


def _overflow(field: str, data_type: AtomicType, function: str) -> UnsupportedError:
    return UnsupportedError(
        f"field {field}: the {function} of a key does not fit {data_type}; change the column to a wider type"
    )


def _zero(field: str) -> UnsupportedError:
    return UnsupportedError(
        f"field {field}: function product cannot retract 0; set fields.{field}.ignore-retract=true"
    )


def _in_order(ufunc: Any, values: Any, events: Events) -> Any:
    """Reduce each group strictly from first to last: floats depend on it."""
    return _steps(values, events, lambda state, at: ufunc(state, values[at]), ufunc)


def _multiply(values: Any, divide: Bools, events: Events) -> Any:
    def step(state: Any, at: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(divide[at], state / values[at], state * values[at])

    return _steps(values, events, step, None)


def _steps(values: Any, events: Events, step: Callable[[Any, Any], Any], ufunc: Any) -> Any:
    """Apply one step of every group at a time, while there are many groups; long groups are finished one by
    one.
    """
    starts, sizes = events.starts[:-1], np.diff(events.starts)
    out = np.zeros(events.count, values.dtype)
    out[sizes > 0] = values[starts[sizes > 0]]
    live = np.flatnonzero(sizes > 1)
    count = 1
    with np.errstate(all="ignore"):
        while len(live) and (count < _HOT or ufunc is None):
            out[live] = step(out[live], starts[live] + count)
            count += 1
            live = live[sizes[live] > count]
        for group in live.tolist():
            rest = values[starts[group] + count : starts[group] + sizes[group]]
            out[group] = ufunc.accumulate(np.concatenate((out[group : group + 1], rest)))[-1]
    return out
