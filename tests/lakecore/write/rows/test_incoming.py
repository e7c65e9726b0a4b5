"""What a caller brought becomes rows of the table, or an error that names column and row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.write.rows.incoming import Incoming, Rows, batches_of
from tests.support.builders import table_schema


def incoming(schema: TableSchema | None = None, **given: Any) -> Incoming:
    schema = schema or table_schema(**given)
    return Incoming(schema, TableOptions.from_schema(schema))


def batch(columns: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def kinds(rows: Rows) -> list[int] | None:
    return None if rows.kinds is None else rows.kinds.tolist()


def test_columns_by_name_missing_ones_are_null() -> None:
    rows = incoming(columns="k BIGINT NOT NULL, v INT, w STRING").rows(batch({"v": [1, 2], "k": [3, 4]}))

    assert rows.batch.to_pylist() == [{"k": 3, "v": 1, "w": None}, {"k": 4, "v": 2, "w": None}]
    assert rows.kinds is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"k": [1], "x": [1]}, "column 'x' is not in the table; the table has the columns k, v"),
        ({"v": [1]}, "column k is NOT NULL, but is missing"),
        ({"k": [1, None, None]}, "column k is NOT NULL: row 1 has no value"),
        ({"k": ["a"]}, "column k: the table has BIGINT NOT NULL, but the data has string"),
        ({"k": [1, 2], "_kind": ["+I", "up"]}, "column _kind, row 1: 'up' is not a row kind"),
    ],
)
def test_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        incoming().rows(batch(columns))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"z": "int32", "k": "int64", "p": "string"}, "column 'z' is not in the table; the table has the columns k, v, p"),
        ({"K": "int64", "p": "string"}, "columns k, v, p; names are case-sensitive: rename it to 'k'"),
        ({"k": "string", "p": "string"}, "column k: the table has BIGINT NOT NULL, but the data has string"),
        ({"v": "int32", "p": "string"}, "column k is NOT NULL, but is missing from the data"),
        ({"k": "int64", "v": "int32"}, "column p is missing from the data, and the table is partitioned by it"),
    ],
)  # fmt: skip
def test_columns_without_rows(columns: dict[str, str], message: str) -> None:
    judge = incoming(columns="k BIGINT NOT NULL, v INT, p STRING", partition_keys=["p"])
    with pytest.raises(InvalidInputError, match=message):
        judge.check(pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()]))
    judge.check(pa.schema([("k", pa.int32()), ("p", pa.null()), ("_kind", pa.string())]))


def test_a_missing_column_with_a_default() -> None:
    schema = table_schema(columns="k BIGINT NOT NULL, p STRING", partition_keys=["p"])
    fields = tuple(replace(field, default_value="1") for field in schema.fields)
    incoming(replace(schema, fields=fields)).check(pa.schema([]))


def test_rows_are_counted_over_batches() -> None:
    rows = incoming()
    rows.rows(batch({"k": [1, 2, 3]}))
    with pytest.raises(InvalidInputError, match="row 4 has no value"):
        rows.rows(batch({"k": [1, None]}))


def test_a_column_twice() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k"])
    with pytest.raises(InvalidInputError, match="'k' appears twice in the data"):
        incoming().rows(twice)


def test_kinds() -> None:
    rows = incoming().rows(batch({"k": [1, 2, 3, 4, 5], "_kind": ["-D", "+I", None, "+U", "-U"]}))

    assert kinds(rows) == [3, 0, 0, 2, 1]
    assert rows.batch.schema.names == ["k", "v"]
    assert kinds(incoming().rows(batch({"k": [1], "_kind": ["+I"]}))) is None


def test_kinds_from_a_column() -> None:
    rows = incoming(columns="k BIGINT NOT NULL, op STRING", options={"rowkind.field": "op"})

    assert kinds(rows.rows(batch({"k": [1, 2], "op": ["+I", "-D"]}))) == [0, 3]
    with pytest.raises(InvalidInputError, match=r"column op, row 2: None is not a row kind"):
        rows.rows(batch({"k": [1], "op": pa.nulls(1, pa.string())}))
    with pytest.raises(InvalidInputError, match="kinds of this table come from column op"):
        rows.rows(batch({"k": [1], "op": ["+I"], "_kind": ["+I"]}))


@pytest.mark.parametrize(
    ("option", "left"),
    [("ignore-delete", [1, 4]), ("ignore-update-before", [1, 2, 4]), ("deduplicate.ignore-delete", [1, 4])],
)
def test_ignored_rows_are_gone(option: str, left: list[int]) -> None:
    rows = incoming(options={option: "true"})
    given = batch({"k": [1, 2, 3, 4], "_kind": ["+I", "-D", "-U", "+U"]})

    assert rows.rows(given).batch.column("k").to_pylist() == left


def test_append_tables_take_inserts_only() -> None:
    rows = incoming(primary_keys=())

    assert kinds(rows.rows(batch({"k": [1], "_kind": ["+I"]}))) is None
    with pytest.raises(InvalidInputError, match=r"row 2 is -D: a table without primary key"):
        rows.rows(batch({"k": [1, 2], "_kind": ["+I", "-D"]}))


def test_defaults_replace_nulls() -> None:
    schema = table_schema("k BIGINT NOT NULL, v INT NOT NULL, d DATE")
    v, d = (
        replace(schema.fields[1], default_value="7"),
        replace(schema.fields[2], default_value="2024-01-02"),
    )
    rows = incoming(replace(schema, fields=(schema.fields[0], v, d)))

    assert [str(x) for x in rows.rows(batch({"k": [1]})).batch.to_pylist()[0].values()] == [
        "1",
        "7",
        "2024-01-02",
    ]
    bad = incoming(replace(schema, fields=(schema.fields[0], replace(v, default_value="x"))))
    with pytest.raises(InvalidInputError, match="column v: default value 'x'"):
        bad.rows(batch({"k": [1]}))


TABLE = pa.table({"k": [1, 2]})


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pd.DataFrame({"k": [1, 2]}),
        TABLE.to_batches(),
        iter([TABLE.slice(0, 1), TABLE.slice(1)]),
    ],
    ids=["table", "batch", "reader", "pandas", "list", "generator"],
)
def test_data_in_many_shapes(data: Any) -> None:
    assert pa.Table.from_batches(batches_of(data)).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("data", [None, {"k": [1]}, "k", [{"k": 1}]])
def test_other_shapes_are_refused(data: Any) -> None:
    with pytest.raises(InvalidInputError, match="pass an Arrow table, batches or a pandas frame"):
        list(batches_of(data))
