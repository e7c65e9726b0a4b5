"""Columns in other Arrow types: what is converted, what is refused, and how the refusal reads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.column_text import parse_type_text
from lakecore.errors import InvalidInputError
from lakecore.types.arrow import arrow_type
from lakecore.write.rows.casting import cast_column

UTC = dt.UTC
NAIVE = dt.datetime.fromisoformat("2024-01-01")
MICROS = dt.datetime.fromisoformat("2024-01-01T00:00:00.000001")


def _lists_without_elements(length: int) -> pa.Array:
    """Null lists as Spark sends them: the elements have no buffer. Arrow's own cast to vectors crashes on them."""
    buffers = [pa.py_buffer(b"\0"), pa.py_buffer(b"\0" * 4 * (length + 1))]
    elements = pa.Array.from_buffers(pa.float32(), 0, [None, None])
    return pa.Array.from_buffers(pa.list_(pa.float32()), length, buffers, children=[elements])


@pytest.mark.parametrize(
    ("given", "kind", "values"),
    [
        (pa.array([1, None], pa.int64()), "TINYINT", [1, None]),
        (pa.array([1], pa.uint64()), "BIGINT", [1]),
        (pa.array([1], pa.int8()), "DOUBLE", [1.0]),
        (pa.array([1.0, None]), "INT", [1, None]),
        (pa.array([1.5], pa.float64()), "FLOAT", [1.5]),
        (pa.array([float("inf"), None, float("-inf")]), "FLOAT", [float("inf"), None, float("-inf")]),
        (pa.array([3], pa.int32()), "DECIMAL(12, 2)", [Decimal("3.00")]),
        (pa.array([Decimal("3.10")]), "DECIMAL(5, 1)", [Decimal("3.1")]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "STRING", ["a", "b", "a"]),
        (pa.array(["ab"], pa.large_string()), "CHAR(2)", ["ab"]),
        (pa.array(["äö"], pa.string_view()), "VARCHAR(2)", ["äö"]),
        (pa.array([b"ab"], pa.binary(2)), "BYTES", [b"ab"]),
        (pa.nulls(2), "INT", [None, None]),
        (pa.nulls(1), "ARRAY<ROW<a INT NOT NULL>>", [None]),
        (pa.array([NAIVE], pa.timestamp("ns")), "TIMESTAMP(3)", [NAIVE]),
        (
            pa.array([dt.datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Asia/Shanghai")),
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            [dt.datetime(2024, 1, 1, tzinfo=UTC)],
        ),
        (pa.array([dt.time(1, 2, 3)], pa.time64("us")), "TIME(3)", [dt.time(1, 2, 3)]),
        (pa.array([dt.date(2024, 1, 1)], pa.date64()), "DATE", [dt.date(2024, 1, 1)]),
        (pa.array([[1, None], None, []], pa.large_list(pa.int64())), "ARRAY<INT>", [[1, None], None, []]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "ARRAY<INT>", [[1, 2]]),
        (
            pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "MAP<STRING, INT>",
            [[("a", 1)], None],
        ),
        (pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int64())), "MULTISET<STRING>", [[("a", 2)]]),
        (
            pa.array([{"b": 1, "a": "x"}, None]),
            "ROW<a STRING NOT NULL, b INT, c DATE>",
            [{"a": "x", "b": 1, "c": None}, None],
        ),
        (
            pa.array([[{"n": [1]}, None]], pa.list_(pa.struct([("n", pa.list_(pa.int64()))]))),
            "ARRAY<ROW<n ARRAY<TINYINT>>>",
            [[{"n": [1]}, None]],
        ),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "VECTOR<FLOAT, 2>", [[1.0, 2.0]]),
        (
            pa.array([None, [1, 2], None, [3, None]], pa.list_(pa.float64())),
            "VECTOR<FLOAT, 2>",
            [None, [1.0, 2.0], None, [3.0, None]],
        ),
        (
            pa.array([[9, 9], None, [1, 2], [9, 9]], pa.list_(pa.int16(), 2)).slice(1, 2),
            "VECTOR<INT, 2>",
            [None, [1, 2]],
        ),
        (_lists_without_elements(3), "VECTOR<FLOAT, 2>", [None, None, None]),
    ],
)
def test_converted(given: pa.Array, kind: str, values: list[Any]) -> None:
    wanted = parse_type_text(kind)

    got = cast_column(given, wanted, "c")

    assert got.type == arrow_type(wanted)
    assert got.to_pylist() == values


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (pa.array(["1"]), "INT", "column c: the table has INT, but the data has string"),
        (pa.array([1]), "STRING", "the table has STRING, but the data has int64"),
        (pa.array([300]), "TINYINT", "does not fit TINYINT"),
        (pa.array([True]), "INT", "the data has bool"),
        (pa.array([1.5]), "INT", "does not fit INT"),
        (pa.array([1.5, -1e300]), "FLOAT", r"a value of double does not fit FLOAT .* -1e\+300 is too large"),
        (pa.array([[None, 1e39]]), "ARRAY<FLOAT>", r"column c\[\]: .* 1e\+39 is too large"),
        (pa.array([Decimal("1.25")]), "DECIMAL(5, 1)", "does not fit"),
        (pa.array([MICROS]), "TIMESTAMP(3)", "would lose data"),
        (pa.array([NAIVE]), "TIMESTAMP(3) WITH LOCAL TIME ZONE", "the data has timestamp"),
        (pa.array([dt.datetime(2024, 1, 1, tzinfo=UTC)]), "TIMESTAMP(6)", "the data has timestamp"),
        (pa.array(["abc"]), "VARCHAR(2)", r"a value of length 3 is too long for VARCHAR\(2\)"),
        (pa.array([b"abc"]), "BINARY(2)", "a value of length 3"),
        (pa.array([[1]]), "MAP<STRING, INT>", "the data has list"),
        (pa.array([{"z": 1}]), "ROW<a INT>", "column c.z: the table has no such field"),
        (pa.array([{"a": "x"}]), "ROW<a INT>", "column c.a: the table has INT, but the data has string"),
        (
            pa.array([{"a": None}], pa.struct([("a", pa.int32())])),
            "ROW<a INT NOT NULL>",
            "column c.a: it has a null",
        ),
        (pa.array([[1, None]]), "ARRAY<INT NOT NULL>", r"column c\[\]: it has a null"),
        (pa.array([[1, 2], [3]]), "VECTOR<INT, 2>", "column c: a list has not the length of"),
        (pa.array([[1e39, 2.0]]), "VECTOR<FLOAT, 2>", r"column c\[\]: .* 1e\+39 is too large"),
        (pa.array([[1, None]]), "VECTOR<INT NOT NULL, 2>", r"column c\[\]: it has a null"),
    ],
)
def test_refused(given: pa.Array, kind: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        cast_column(given, parse_type_text(kind), "c")


def test_slices_of_nested_columns() -> None:
    """Offsets of a sliced array do not start at zero."""
    lists = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int64())).slice(1)
    maps = pa.array([[("a", 1)], [("b", 2)], None], pa.map_(pa.string(), pa.int64())).slice(1)
    structs = pa.array([{"a": 1}, None, {"a": 3}]).slice(1)

    assert cast_column(lists, parse_type_text("ARRAY<INT>"), "c").to_pylist() == [[2, 3], None, [4]]
    assert cast_column(maps, parse_type_text("MAP<STRING, INT>"), "c").to_pylist() == [[("b", 2)], None]
    assert cast_column(structs, parse_type_text("ROW<a INT>"), "c").to_pylist() == [None, {"a": 3}]
