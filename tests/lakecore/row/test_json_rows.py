"""Rows as JSON lines: exactly what Java's reader printed, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import InvalidInputError
from lakecore.metadata.schema import TableSchema
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.row.text_columns import column_texts, parse_texts
from lakecore.row.values import array_values, batch_rows, rows_batch
from lakecore.types.arrow import arrow_schema
from tests.support.golden import GoldenTable
from tests.support.typed_values import atomic_types, row_of, row_types, rows_of

TYPED = [
    "g1.a_types_append_parquet",
    "g1.a_types_extreme",
    "g1.a_types_variant",
    "g1.a_types_multiset_parquet",
    "g1.a_evo_nested",
]


@pytest.mark.parametrize("name", TYPED)
def test_lines_of_java_come_back_to_the_letter(name: str, golden: Callable[[str], GoldenTable]) -> None:
    table = golden(name)
    path = max(table.path.glob("schema/schema-*"))
    row_type = TableSchema.from_json(path.read_text(), str(path)).row_type
    lines = (table.expected / "rows.jsonl").read_text().splitlines()
    batch = json_to_batch(lines, row_type)
    assert list(batch_to_json(batch, row_type, "+I")) == lines
    for field in row_type:
        column = batch.column(field.name)
        again = parse_texts(column_texts(column, field.type), field, 1)
        assert (
            array_values(again, field.type) == array_values(column, field.type)
            or name == "g1.a_types_extreme"
        )


@settings(max_examples=100)
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    row_type = data.draw(row_types(atomic_types()))
    rows = data.draw(st.lists(rows_of(row_type), max_size=5))
    lines = list(batch_to_json(rows_batch(rows, row_type, arrow_schema(row_type)), row_type))
    assert batch_rows(json_to_batch(lines, row_type), row_type) == rows


def test_kinds_defaults_and_blank_lines() -> None:
    row_type = row_of("INT", "STRING")
    batch = json_to_batch(['{"f0": 1, "_kind": "-D"}', "", b'{"f1": "x"}'], row_type)
    assert batch.to_pylist() == [{"f0": 1, "f1": None, "_kind": "-D"}, {"f0": None, "f1": "x", "_kind": "+I"}]
    assert "_kind" not in json_to_batch(['{"f0": 1}'], row_type).schema.names
    assert json_to_batch([], row_type).num_rows == 0


def test_maps_and_rows_take_both_forms() -> None:
    row_type = row_of(
        {"type": "MAP", "key": "INT", "value": "STRING"},
        {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]},
    )
    one, other = '{"f0": {"1": "x"}, "f1": {"a": 2}}', '{"f0": [[1, "x"]], "f1": [2]}'
    assert json_to_batch([one], row_type).equals(json_to_batch([other], row_type))


@pytest.mark.parametrize(
    ("kinds", "line", "message"),
    [
        (("INT",), "nope", "line 7: not JSON"), (("INT",), "[1]", "one JSON object"), (("INT",), '{"zz": 1}', "no column 'zz'"),
        (("INT",), '{"f0": 1.5}', "f0"), (("INT",), '{"f0": true}', "f0"), (("TINYINT",), '{"f0": 300}', "-128 to 127"),
        (("INT NOT NULL",), "{}", "NOT NULL"), (("STRING",), '{"f0": 1}', "in quotes"), (("DATE",), '{"f0": "2024-13-01"}', "this day does not exist"),
        (("INT",), '{"f0": 1, "_kind": "+X"}', "_kind"), (("BYTES",), '{"f0": "0xz"}', "f0"), (("BOOLEAN",), '{"f0": 1}', "f0"),
        (({"type": "ARRAY", "element": "INT"},), '{"f0": 1}', "not an array"), (({"type": "MAP", "key": "INT", "value": "INT"},), '{"f0": "x"}', "not a map"),
        (({"type": "VECTOR", "element": "INT", "length": 2},), '{"f0": [1]}', "vector of 2"), (("VARIANT",), '{"f0": "{"}', "VARIANT"),
        (("FLOAT",), '{"f0": -1e39}', "-1e+39 is not a value of type FLOAT: it is too large"), (("DOUBLE",), f'{{"f0": 1{"0" * 400}}}', "too large"),
        (("DECIMAL(4, 2)",), '{"f0": 1.555}', "2 digits"), (({"type": "ROW", "fields": []},), '{"f0": {"q": 1}}', "not a row"),
    ],
)  # fmt: skip
def test_bad_lines_name_line_column_and_value(kinds: tuple[Any, ...], line: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        json_to_batch([line], row_of(*kinds), first_line=7)
    assert message in str(caught.value)
    assert str(caught.value).startswith("line 7")


def test_the_largest_and_the_infinite_numbers_are_values() -> None:
    lines = ['{"f0": 3.4028235e38, "f1": 1.7976931348623157e308}', '{"f0": "-Infinity", "f1": Infinity}']
    batch = json_to_batch(lines, row_of("FLOAT", "DOUBLE"))
    assert batch.column("f0").to_pylist() == [3.4028234663852886e38, float("-inf")]
    assert batch.column("f1").to_pylist() == [1.7976931348623157e308, float("inf")]


def test_bad_texts_name_row_and_column() -> None:
    row_type = row_of("INT")
    texts = column_texts(json_to_batch(['{"f0": 1}'], row_type).column(0), row_type.fields[0].type)
    assert texts.to_pylist() == ["1"]
    import pyarrow as pa

    with pytest.raises(InvalidInputError, match="row 4, column f0: 'x'"):
        parse_texts(pa.array(["1", "x"]), row_type.fields[0], 3)
