"""Packed keys compare as the values of keys do, whatever the types and widths are."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.lookup.query.packed_keys import KeyColumns
from lakecore.row.values import values_array
from lakecore.types.datatypes import DataField, RowType, parse_type

SHORT = Decimal("99999999.99")
LONG = Decimal(10) ** 20
DAY = datetime.date(1970, 1, 1).toordinal()
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(10, 2)": st.decimals(-SHORT, SHORT, places=2),
    "DECIMAL(30, 5)": st.decimals(-LONG, LONG, places=5),
    "DATE": st.integers(-700_000, 2_000_000),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(3)": st.integers(-(10**12), 10**12).map(lambda ms: ms * 1_000_000),
    "TIMESTAMP(9)": st.integers(-(10**18), 10**18),
    "STRING": st.text(max_size=12),
    "BYTES": st.binary(max_size=12),
}


def key_type(*kinds: str) -> RowType:
    return RowType(tuple(DataField(at, f"k{at}", parse_type(kind)) for at, kind in enumerate(kinds)))


def columns(rows: list[tuple[Any, ...]], kind: RowType) -> KeyColumns:
    arrays = [values_array([row[at] for row in rows], field.type) for at, field in enumerate(kind.fields)]
    return KeyColumns(arrays, kind)


def check_order(keys: KeyColumns, widths: tuple[int, ...]) -> None:
    packed, values = keys.packed(widths), keys.values()
    for left in range(len(keys)):
        for right in range(len(keys)):
            assert (packed[left] < packed[right]) == (values[left] < values[right])
            assert (packed[left] == packed[right]) == (values[left] == values[right])


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_one_column(kind: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(VALUES[kind]), min_size=1, max_size=12))
    keys = columns(rows, key_type(kind))
    check_order(keys, keys.widths)


@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=2, max_size=4))
def test_several_columns(data: st.DataObject, kinds: list[str]) -> None:
    rows = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), min_size=1, max_size=12))
    keys = columns(rows, key_type(*kinds))
    check_order(keys, keys.widths)
    check_order(keys, tuple(width + 8 for width in keys.widths))


@given(
    long=st.lists(st.tuples(st.text("a\0b", max_size=20), st.integers(0, 2)), min_size=1, max_size=9),
    short=st.lists(st.tuples(st.text("a\0b", max_size=8), st.integers(0, 2)), min_size=1, max_size=9),
)
def test_texts_that_are_cut_compare_with_those_that_are_not(
    long: list[tuple[str, int]], short: list[tuple[str, int]]
) -> None:
    kind = key_type("STRING", "INT")
    have, wanted = columns(short, kind), columns(long, kind)
    widths = have.widths
    for left, one in zip(have.packed(widths), have.values(), strict=True):
        for right, other in zip(wanted.packed(widths), wanted.values(), strict=True):
            assert (left < right) == (one < other)
            assert (left == right) == (one == other)


@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
def test_one_key_is_packed_as_many_are(data: st.DataObject, kinds: list[str]) -> None:
    rows = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), min_size=2, max_size=4))
    keys = columns(rows, key_type(*kinds))
    for widths in (keys.widths, tuple(0 for _ in keys.widths)):
        alone = [keys.take(np.array([at])).packed(widths)[0] for at in range(len(rows))]
        assert alone == keys.packed(widths).tolist()


def test_keys_of_a_slice() -> None:
    array = pa.array(["x", "long enough to need two words", "", "a"]).slice(1)
    keys = KeyColumns([array, pa.array([9, 1, 2, 3]).slice(1)], key_type("STRING", "BIGINT"))
    assert keys.widths == (32,)
    assert np.argsort(keys.packed(keys.widths)).tolist() == [1, 2, 0]
