"""Sums of decimals on the second path, next to Python's integers of any size."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakecore.verify.recompute.column_states import flat_state

LARGEST = 10**18 - 1
DECIMAL = pa.decimal128(18, 2)


def decimals(numbers, data_type=DECIMAL):
    """Decimals of the last digits `numbers`; None is null."""
    return pa.array([None if n is None else Decimal(n).scaleb(-2) for n in numbers], data_type)


def places(*values):
    return np.array(values, np.int64)


def last_digits(values):
    return [None if value is None else int(value.scaleb(2)) for value in values.to_pylist()]


@pytest.mark.parametrize("digits", [18, 19])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_many_rounds_are_those_of_python_integers(seed, digits):
    """Keys whose totals pass 64 bits stand beside small ones; a total that is too long is null, and begins anew."""
    rng = np.random.default_rng(seed)
    count, size = 12, 2_000
    top = np.where(rng.random(size) < 0.5, LARGEST, 1_000)
    numbers = [
        None if null else int(n)
        for n, null in zip(rng.integers(-top, top + 1), rng.random(size) < 0.1, strict=True)
    ]
    numbers[:200] = [LARGEST - n for n in range(200)]  # all of one sign, so that totals grow
    column = pa.concat_arrays([decimals([7, None]), decimals(numbers)]).cast(pa.decimal128(digits, 2))[2:]
    low, high = (-(1 << 63), 1 << 63) if digits == 18 else (1 - 10**19, 10**19)
    state = flat_state("sum", column, count)
    totals = [None] * count
    passed = False
    for start in range(0, size, 5):
        keys, rows = rng.choice(count, 5, replace=False), np.arange(start, start + 5)
        if start < 200:
            keys = np.arange(5)
        action = (
            "add"
            if start < 200
            else rng.choice(["add", "add_late", "retract", "set", "clear"], p=[0.5, 0.2, 0.27, 0.02, 0.01])
        )
        if action == "clear":
            state.clear(keys)
        else:
            getattr(state, action)(keys, rows)
        for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
            number = numbers[row]
            if action in ("clear", "set"):
                totals[key] = None if action == "clear" else number
            elif number is not None:
                total = (totals[key] or 0) + (-number if action == "retract" else number)
                passed |= not low <= total < high
                totals[key] = total if low <= total < high else None
        assert last_digits(state.values()) == totals
    assert passed


def test_the_longest_number_of_64_bits_is_a_sum():
    parts = [LARGEST] * 9 + [(1 << 63) - 1 - 9 * LARGEST, 1]
    state = flat_state("sum", decimals(parts), 1)
    for row in range(10):
        state.add(places(0), places(row))
    assert last_digits(state.values()) == [(1 << 63) - 1]
    state.add(places(0), places(10))
    assert last_digits(state.values()) == [None]


def test_a_row_that_is_taken_back_from_nothing_leaves_its_negative_value():
    state = flat_state("sum", decimals([-LARGEST, 5]), 2)
    state.retract(places(0, 1), places(0, 1))
    assert last_digits(state.values()) == [LARGEST, -5]


@pytest.mark.parametrize("number", [10**18, -(10**18), (1 << 64) + 3, -(1 << 63)])
def test_a_value_with_more_digits_than_its_type_is_added_whole(number):
    """A damaged file may have one: 64 bits of it would be another number."""
    long = decimals([number, 4], pa.decimal128(38, 2))
    column = pa.Array.from_buffers(DECIMAL, 2, long.buffers())
    state = flat_state("sum", column, 1)
    state.add(places(0), places(1))
    state.add(places(0), places(0))
    total = number + 4
    assert last_digits(state.values()) == [total if abs(total) < 1 << 63 else None]


def test_the_sum_of_nothing_is_null():
    state = flat_state("sum", decimals([]), 2)
    state.add(places(), places())
    assert last_digits(state.values()) == [None, None]
