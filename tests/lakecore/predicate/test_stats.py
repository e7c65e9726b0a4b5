"""Evaluation on rows, and its shadow on statistics: a file with a matching row is never left out."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.predicate.evaluate import mask
from lakecore.predicate.parse import parse_where
from lakecore.predicate.stats import ColumnStats, may_match
from lakecore.predicate.tree import And, Compare, Comparison, In, Not, NotIn, Or, Predicate
from lakecore.row.values import array_values, rows_batch
from lakecore.types.arrow import arrow_schema, arrow_type, arrow_values
from lakecore.types.datatypes import DataField, RowType, parse_type

KINDS = {
    "a": "INT",
    "b": "STRING",
    "c": "DOUBLE",
    "d": "DATE",
    "f": "DECIMAL(10, 2)",
    "g": "BOOLEAN",
    "h": "BYTES",
    "e": "TIMESTAMP(3)",
}
TYPE = RowType(tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(KINDS.items())))
SCHEMA = arrow_schema(TYPE)
SMALL = st.integers(-4, 4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": SMALL,
    "b": st.text("ab\U0010ffffé", max_size=3),
    "c": st.sampled_from([float("nan"), -1.0, -0.0, 0.0, 2.5]),
    "d": SMALL,
    "f": SMALL.map(lambda n: Decimal(n).scaleb(-2)),
    "g": st.booleans(),
    "h": st.binary(max_size=2),
    "e": SMALL.map(lambda n: n * 1_000_000),
}
LEAVES = [
    "a {op} 1", "a {op} 1.5", "a {op} 9999999999", "b {op} ''", "b {op} 'ab'", "c {op} 0", "c {op} 2.5", "d {op} '1970-01-02'", "f {op} 0.01",
    "f {op} 0.005", "g {op} true", "h {op} 0x00", "e {op} '1970-01-01 00:00:00.001'", "e {op} '1970-01-01 00:00:00.0015'",
    "a in (1, 2)", "a not in (1)", "b in ('a', 'b')", "c not in (0)", "a is null", "b is not null", "b like 'a%'", "b like '%b'", "b like 'a_'",
    "b not like 'é%'", "b like '\U0010ffff%'", "b like '%'", "a between -1 and 1", "c not between 0 and 1",
]  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    text = draw(st.sampled_from(LEAVES)).format(op=draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])))
    return parse_where(text, TYPE)


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(And), st.tuples(inner, inner).map(Or), inner.map(Not)
    ),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(*(st.none() | VALUES[name] for name in KINDS)), min_size=1, max_size=3)


def _stats(files: list[pa.RecordBatch], field: DataField, unknown: list[bool]) -> ColumnStats:
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: list[int] = []
    for file, hidden in zip(files, unknown, strict=True):
        values = [v for v in array_values(file.column(field.name), field.type) if v is not None and v == v]
        lows.append(None if hidden or not values else min(values))
        highs.append(None if hidden or not values else max(values))
        nulls.append(-1 if hidden else file.column(field.name).null_count)
    kind = arrow_type(field.type)
    return ColumnStats(arrow_values(lows, kind), arrow_values(highs, kind), np.array(nulls))


@settings(max_examples=100)
@given(PREDICATES, st.lists(ROWS, min_size=1, max_size=5), st.data())
def test_no_matching_file_is_left_out(predicate: Predicate, rows: list[Any], data: st.DataObject) -> None:
    files = [rows_batch(part, TYPE, SCHEMA) for part in rows]
    unknown = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    known = data.draw(st.sets(st.sampled_from(list(KINDS))))
    stats = {field.name: _stats(files, field, unknown) for field in TYPE if field.name in known}
    kept = may_match(predicate, stats, np.array([file.num_rows for file in files]))
    for i, file in enumerate(files):
        found = mask(predicate, file)
        assert found.null_count == 0
        assert kept[i] or not pc.any(found).as_py()


@settings(max_examples=100)
@given(PREDICATES, ROWS)
def test_not_is_true_where_it_is_false_and_unknown_is_neither(predicate: Predicate, rows: Any) -> None:
    batch = rows_batch(rows, TYPE, SCHEMA)
    both = pc.and_(mask(predicate, batch), mask(Not(predicate), batch))
    assert not pc.any(both).as_py()


def test_nulls_and_nan_match_no_comparison() -> None:
    batch = pa.record_batch(
        {"a": pa.array([1, None, 3], pa.int32()), "c": pa.array([float("nan"), 1.0, None])}
    )
    for text, expected in {
        "a <> 1": [False, False, True],
        "not (a = 1)": [False, False, True],
        "a not in (1)": [False, False, True],
        "c < 5": [False, True, False],
        "a is null or a = 1": [True, True, False],
    }.items():
        assert mask(parse_where(text, TYPE), batch).to_pylist() == expected, text


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_list_compares_floats_as_equality_does(kind: pa.DataType) -> None:
    values = [0.0, -0.0, 2.5, float("nan"), None]
    batch = pa.record_batch({"c": pa.array(values, kind)})
    for listed in ((0.0,), (-0.0,), (2.5, -0.0), (float("nan"),), (float("nan"), 2.5), ()):
        equal = [value in listed and value == value for value in values[:-1]]
        assert mask(In("c", listed), batch).to_pylist() == [*equal, False], listed
        assert mask(NotIn("c", listed), batch).to_pylist() == [*(not one for one in equal), False], listed
        joined = [mask(Compare("c", Comparison.EQ, one), batch) for one in listed]
        if listed:
            rows = zip(*(one.to_pylist() for one in joined), strict=True)
            assert [any(row) for row in rows] == [*equal, False]


def test_nan_in_a_list_leaves_out_no_file_of_the_others() -> None:
    stats = {"c": ColumnStats(pa.array([1.0, 70.0]), pa.array([3.0, 70.0]), np.array([0, 0]))}
    many = (float("nan"), *(float(number) for number in range(70)), float("nan"))
    assert may_match(In("c", many), stats, np.array([9, 9])).tolist() == [True, False]
    assert may_match(In("c", (float("nan"),)), stats, np.array([9, 9])).tolist() == [False, False]


def test_dictionary_columns() -> None:
    batch = pa.record_batch({"b": pa.array(["x", "y", None]).dictionary_encode()})
    assert mask(parse_where("b like 'x%'", TYPE), batch).to_pylist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("b = 'abcde'", [True, False]), ("b = 'abd'", [True, False]), ("b > 'abd'", [False, True]), ("b like 'abc%'", [True, False]),
        ("b like 'x%'", [False, True]), ("b <> 'abc'", [True, True]), ("b is null", [False, True]), ("b in ('q', 'abcd')", [True, False]),
    ],
)  # fmt: skip
def test_shortened_texts(text: str, kept: list[bool]) -> None:
    # Bounds may be cut: the lower one to a prefix, the upper one to a prefix rounded up.
    stats = {"b": ColumnStats(pa.array(["abc", "x"]), pa.array(["abd", "y"]), np.array([0, 1]))}
    assert may_match(parse_where(text, TYPE), stats, np.array([9, 9])).tolist() == kept


def test_all_null_and_unknown_columns() -> None:
    nothing = pa.nulls(3, pa.int32())
    stats = {"a": ColumnStats(nothing, nothing, np.array([5, 0, -1]))}
    assert may_match(parse_where("a = 1", TYPE), stats, np.array([5, 5, 5])).tolist() == [False, True, True]
    assert may_match(parse_where("a is null", TYPE), stats, np.array([5, 5, 5])).tolist() == [
        True,
        False,
        True,
    ]
    assert may_match(parse_where("a = 1", TYPE), {"a": ColumnStats()}, np.array([1])).tolist() == [True]
    assert (
        may_match(parse_where("a in ()".replace("()", "(0.5)"), TYPE), stats, np.full(3, 5)).tolist()
        == [False] * 3
    )


def test_a_million_files_take_a_moment() -> None:
    low = np.arange(1_000_000, dtype=np.int32)
    stats = {"a": ColumnStats(pa.array(low), pa.array(low + 10), np.zeros(len(low), np.int64))}
    start = time.process_time()
    kept = may_match(parse_where("a = 5000", TYPE), stats, np.full(len(low), 10))
    assert time.process_time() - start < 1
    assert kept.sum() == 11
