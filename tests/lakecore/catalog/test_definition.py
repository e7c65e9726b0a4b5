"""From a definition to the first schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.column_text import parse_column, parse_type_text
from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import type_to_json


def schema(**raw: Any) -> TableSchema:
    return first_schema(TableDefinition.from_json(raw), 7)


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("bigint not null", "BIGINT NOT NULL"),
        ("DECIMAL(10,2)", "DECIMAL(10, 2)"),
        ("ARRAY<INT NOT NULL> NOT NULL", {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}),
        (
            "MAP<STRING, ARRAY<INT>>",
            {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT"}},
        ),
        ("MULTISET<DECIMAL(4, 1)>", {"type": "MULTISET", "element": "DECIMAL(4, 1)"}),
        ("VECTOR<FLOAT, 3>", {"type": "VECTOR", "element": "FLOAT", "length": 3}),
        (
            "ROW<x INT, `y` TIMESTAMP(3) WITH LOCAL TIME ZONE>",
            {
                "type": "ROW",
                "fields": [
                    {"id": 0, "name": "x", "type": "INT"},
                    {"id": 0, "name": "y", "type": "TIMESTAMP(3) WITH LOCAL TIME ZONE"},
                ],
            },
        ),
    ],
)
def test_types_as_people_write_them(text: str, json: Any) -> None:
    assert type_to_json(parse_type_text(text)) == json


@pytest.mark.parametrize(
    "text",
    ["", "INTEGERS", "ARRAY<INT", "ARRAY<INT>>", "ARRAY<>", "MAP<INT>", "ROW<x>", "ARRAY<INT> NOT", "LIST<INT>",
     "VECTOR<FLOAT>", "ARRAY<" * 100 + "INT" + ">" * 100],
)  # fmt: skip
def test_other_types_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="type"):
        parse_type_text(text)


def test_a_column_needs_a_type() -> None:
    assert parse_column("`a` INT")[0] == "a"
    with pytest.raises(InvalidInputError, match="NAME TYPE"):
        parse_column("a")


def test_ids_nested_fields_take_theirs_after_their_parts() -> None:
    made = schema(columns=["a INT", "y ROW<y1 INT, y2 ARRAY<ROW<z INT>>>", "b MAP<INT, ROW<c INT>>"])

    fields = {field.name: field for field in made.fields}
    inner = {field.name: field for field in fields["y"].type.fields}
    assert [fields["a"].id, fields["y"].id, inner["y1"].id] == [0, 1, 2]
    assert inner["y2"].type.element.fields[0].id == 3
    assert inner["y2"].id == 4
    assert (fields["b"].id, fields["b"].type.value.fields[0].id, made.highest_field_id) == (5, 6, 6)


def test_keys_are_never_null_and_leave_the_options() -> None:
    made = schema(
        columns=["k INT", "p STRING", "v INT"], options={"primary-key": "k, p", "partition": "p", "bucket": 2}
    )

    assert (made.primary_keys, made.partition_keys, dict(made.options)) == (
        ("k", "p"),
        ("p",),
        {"bucket": "2"},
    )
    assert [str(field.type) for field in made.fields] == ["INT NOT NULL", "STRING NOT NULL", "INT"]
    assert (made.id, made.version, made.time_millis) == (0, 3, 7)
    assert TableSchema.from_json(made.to_json(), "x") == made


def test_from_arrow() -> None:
    arrow = pa.schema([pa.field("k", pa.int64()), pa.field("s", pa.large_string())])
    made = first_schema(TableDefinition.from_arrow(arrow, primary_keys=["k"], options={"bucket": "1"}), 0)

    assert [str(field.type) for field in made.fields] == ["BIGINT NOT NULL", "STRING"]
    with pytest.raises(InvalidInputError, match="column x"):
        TableDefinition.from_arrow(pa.schema([pa.field("x", pa.month_day_nano_interval())]))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, '"columns" must be a list'),
        ({"columns": ["a INT"], "colour": 1}, "unknown key 'colour'"),
        ({"columns": ["a INT", "a INT"]}, "'a' appears twice"),
        ({"columns": ["_KEY_a INT"]}, "reserves this name"),
        ({"columns": [3]}, "column 3"),
        ({"columns": ["a INT"], "primaryKeys": "a"}, "'primaryKeys' must be a list"),
        ({"columns": ["a INT"], "primaryKeys": ["b"]}, "primary key 'b' is not a column; the columns are a"),
        ({"columns": ["a INT"], "partitionKeys": ["a", "a"]}, "partition key 'a' is named twice"),
        ({"columns": ["a ARRAY<INT>"], "primaryKeys": ["a"]}, "type ARRAY<INT> cannot be a key"),
        ({"columns": ["a VARIANT"], "primaryKeys": ["a"]}, "type VARIANT cannot be a key"),
        ({"columns": ["a VARIANT", "b INT"], "partitionKeys": ["a"]}, "type VARIANT cannot be a key"),
        ({"columns": ["a INT"], "primaryKeys": ["a"], "partitionKeys": ["a"]}, "partition columns only"),
    ],
)
def test_definitions_that_cannot_be(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        schema(**raw)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "many"}, "option bucket='many'"),
        ({"bucket": "0"}, "option bucket=0"),
        ({"bucket": "2"}, "needs bucket-key"),
        ({"bucket-key": "a"}, "it has no effect with bucket=-1"),
        ({"bucket": "2", "bucket-key": "z"}, "'z' is not a column"),
        ({"bucket": "2", "bucket-key": "p"}, "'p' is a partition column"),
        ({"sequence.field": "a"}, "only tables with a primary key"),
        ({"changelog-producer": "input"}, "only tables with a primary key"),
        ({"merge-engine": "magic"}, "merge-engine"),
    ],
)
def test_options_of_append_tables(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        schema(columns=["a INT", "p INT"], partitionKeys=["p"], options=options)


def test_options_of_key_tables() -> None:
    with pytest.raises(InvalidOptionError, match="'v' is not part of the primary key"):
        schema(columns=["k INT", "v INT"], primaryKeys=["k"], options={"bucket": "1", "bucket-key": "v"})
    with pytest.raises(InvalidOptionError, match="'z' is not a column"):
        schema(columns=["k INT"], primaryKeys=["k"], options={"bucket": "1", "sequence.field": "z"})
