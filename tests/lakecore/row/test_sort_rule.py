"""Curves: where values agree with Java Paimon 1.4.2 its very bytes, elsewhere the order of the values."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakecore.row.sort_rule import OrderStrategy, SortRule

ZORDER, HILBERT, ORDER = OrderStrategy.ZORDER, OrderStrategy.HILBERT, OrderStrategy.ORDER
TOP = 1 << 63
TWO = [pa.int32(), pa.int64()]
TEXTS = [pa.int32(), pa.string(), pa.int16()]
THREE = [pa.int32(), pa.date32(), pa.int8()]

# printed by org.apache.paimon.sort.zorder.ZIndexer and ...sort.hilbert.HilbertIndexer
JAVA_Z = [
    (TWO, 8, (0, 0), "c0000000000000000000000000000000"),
    (TWO, 8, (5, 9), "c0000000000000000000000000000063"),
    (TWO, 8, (123456, 987654321), "c00000000000000005445156bc486501"),
    (TWO, 8, (-1, 3), "6aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaf"),
    (TWO, 8, (7, None), "8000000000000000000000000000002a"),
    (TWO, 8, (-(2**31), -(2**63)), "2aaaaaaaaaaaaaaa8000000000000000"),
    (TEXTS, 5, (1, "abc", -4), "8d924b2d92592d925b249249249249555555555552"),
    (TEXTS, 5, (9, "abcdefghijklmnop", 4), "a90002090010090012090080090082000000000092"),
    (TEXTS, 5, (3, None, 7), "a0000000000000000000000000000000000000001f"),
    (TEXTS, 5, (-3, "", 0), "324924924924924924924924924924aaaaaaaaaaa2"),
    ([pa.string(), pa.int16()], 12, ("abc", -4), "3d577d5d7d5f5555555555555555555000000000"),
    ([pa.string(), pa.int16()], 12, ("abcdefghijklmnop", 4), "68022808280a282028222828282a2890696a6b6c"),
]
JAVA_HILBERT = [
    (TWO, (0, 0), 0),
    (TWO, (1, 0), 3),
    (TWO, (0, 1), 1),
    (TWO, (5, 9), 0xD8),
    (TWO, (123456, 987654321), 0x0FEC53FD684475A9),
    (TWO, (-1, 3), 0x3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF0),
    (TWO, (7, None), 0x1555555555555555555555555555556A),
    (TWO, (2**31 - 1, 2**63 - 1), 0x15555555555555556AAAAAAAAAAAAAAA),
    (THREE, (1, 2, 3), 0x30),
    (THREE, (100, 19723, -1), 0xF6B71B15CB6),
    (THREE, (7, None, 1), 0xEDB6DB6DB6DB6DB6DB6DB6DB6DB6DB6DB6DB6DB6DB6DB13),
]


def position(rule: SortRule, kinds: list[pa.DataType], row: tuple[Any, ...]) -> int:
    """The keys of one row as one number."""
    found = 0
    for key in rule.keys([_column([value], kind) for value, kind in zip(row, kinds, strict=True)]):
        found = found << 64 | key[0].as_py() + TOP
    return found


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32()).view(kind) if kind == pa.date32() else pa.array(values, kind)


@pytest.mark.parametrize(("kinds", "size", "row", "java"), JAVA_Z)
def test_z_order_has_the_bytes_of_java(
    kinds: list[pa.DataType], size: int, row: tuple[Any, ...], java: str
) -> None:
    names = tuple("abc"[: len(kinds)])
    ours = f"{position(SortRule(ZORDER, names, size), kinds, row):x}"
    width = sum(size if pa.types.is_string(kind) else 8 for kind in kinds)
    words = -(-width // 8)
    assert ours.zfill(words * 16)[: width * 2] == java.zfill(width * 2)


@pytest.mark.parametrize(("kinds", "row", "java"), JAVA_HILBERT)
def test_hilbert_has_the_position_of_java(kinds: list[pa.DataType], row: tuple[Any, ...], java: int) -> None:
    rule = SortRule(HILBERT, tuple("abc"[: len(kinds)]))
    bits = 63 * len(kinds)
    assert position(rule, kinds, row) >> (-bits % 64) == java


def test_every_cell_of_a_hilbert_curve_neighbours_the_next() -> None:
    cells = list(itertools.product(range(8), repeat=3))
    columns = [pa.array([cell[i] for cell in cells], pa.int64()) for i in range(3)]
    keys = SortRule(HILBERT, ("a", "b", "c")).keys(columns)
    ordered = [
        cell for _, cell in sorted(zip(zip(*(k.to_pylist() for k in keys), strict=True), cells, strict=True))
    ]
    assert all(
        sum(abs(a - b) for a, b in zip(x, y, strict=True)) == 1 for x, y in itertools.pairwise(ordered)
    )


VALUES = [
    (pa.int64(), [-(2**63), -5, 0, 7, 2**63 - 1]),
    (pa.float64(), [float("-inf"), -2.5, -0.0, 0.0, 1e-300, 3.0, float("inf"), float("nan")]),
    (pa.float32(), [-2.5, 0.5, float("nan")]),
    (pa.decimal128(12, 2), [Decimal("-10.25"), Decimal("-0.01"), Decimal("0.00"), Decimal("99.99")]),
    (pa.decimal128(38, 3), [Decimal(-(10**34)), Decimal(-(10**30)), Decimal(10**30), Decimal(10**34)]),
    (pa.string(), ["", "a", "ab", "b", "ä", "😀"]),
    (pa.binary(), [b"", b"\x00\x01", b"\x7f", b"\xff"]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [-1, 0, 19723]),
    (pa.timestamp("us"), [-(10**9), 0, 10**15]),
    (pa.timestamp("ns", "UTC"), [-(10**12), 0, 10**18]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
@pytest.mark.parametrize("strategy", [ORDER, ZORDER])
def test_keys_order_values_with_nulls_first(
    kind: pa.DataType, values: list[Any], strategy: OrderStrategy
) -> None:
    column = _column([None, *values], kind)
    keys = SortRule(strategy, ("a",)).keys([column, column][:1])
    rows = list(zip(*(key.to_pylist() for key in keys), strict=True))
    loose = strategy is ZORDER and rows[1] == rows[0]  # the smallest value of a curve may tie with null
    assert rows == sorted(rows)
    assert len(set(rows)) == len(rows) - loose


@pytest.mark.parametrize("strategy", list(OrderStrategy)[1:])
def test_keys_of_no_rows(strategy: OrderStrategy) -> None:
    kinds = [kind for kind, _ in VALUES]
    keys = SortRule(strategy, tuple(map(str, kinds))).keys([pa.array([], kind) for kind in kinds])
    assert {len(key) for key in keys} == {0}
