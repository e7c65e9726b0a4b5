"""Calls of the Python API with values of a wrong type: an error that names the value, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import InvalidInputError
from lakecore.table import Table

COLUMNS = pa.schema([("k", pa.int32()), ("v", pa.string())])
ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
MAPPING = {"columns": ["k INT", "v STRING"]}


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    opened = lakecore.load_catalog(tmp_path, **{"local.fsync": "false"})
    opened.create_database("d")
    return opened


@pytest.fixture
def table(catalog: Any) -> Table:
    return catalog.create_table(
        "d.t", COLUMNS, primary_keys=("k",), options={"bucket": 1, "write-only": True}
    )


@pytest.mark.parametrize(
    ("definition", "arguments", "message"),
    [
        (["k INT"], {}, "not defined by a list"),
        (ROWS, {}, "not defined by a Table"),
        (None, {}, "not defined by a NoneType"),
        (MAPPING, {"primary_keys": ("k",)}, "primary_keys is an argument for an Arrow schema only"),
        (MAPPING, {"options": {"bucket": "1"}}, "options is an argument for an Arrow schema only"),
        (COLUMNS, {"primary_keys": "kv"}, "'kv'"),
        (COLUMNS, {"partition_keys": "v"}, "'v'"),
        (COLUMNS, {"options": {"write-only": None}}, "write-only=None"),
        (MAPPING | {"options": ["write-only"]}, {}, "mapping of option to value"),
    ],
)
def test_a_definition_that_is_none(catalog: Any, definition: Any, arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        catalog.create_table("d.t", definition, **arguments)
    assert catalog.list_tables("d") == []


def test_options_are_stored_as_texts(catalog: Any, table: Table) -> None:
    assert (table.schema.options, table.schema.primary_keys) == (
        {"bucket": "1", "write-only": "true"},
        ("k",),
    )
    assert table.with_options({"write-only": False, "bucket": 2}).schema.options["write-only"] == "false"


@pytest.mark.parametrize("changes", [["add column w INT"], "add column w INT", ["", None], [5], None, [[]]])
def test_a_change_of_the_schema_that_is_none(catalog: Any, table: Table, changes: Any) -> None:
    with pytest.raises(InvalidInputError, match="write a list such as"):
        catalog.alter_table("d.t", changes)
    assert catalog.load_table("d.t").schema == table.schema


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.scan(columns="kv"), "'kv'"),
        (lambda t: t.scan(where=5), "filter 5"),
        (lambda t: t.scan(limit="3"), "limit '3'"),
        (lambda t: t.with_options({"bucket": None}), "bucket=None"),
        (lambda t: t.new_batch_write().write(5), "cannot write int"),
        (lambda t: t.new_batch_write().write([{"k": 1}]), "cannot write dict"),
        (lambda t: t.new_stream_write("s").write("rows"), "cannot write str"),
        (lambda t: t.new_stream_write(5), "commit user"),
        (lambda t: t.new_batch_write().commit(b"{}"), "in place of a list"),
        (lambda t: t.new_stream_write("s").commit(1, b"{}"), "in place of a list"),
    ],
)
def test_a_wrong_argument_of_a_table(table: Table, call: Callable[[Table], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(table)
    assert table.latest_snapshot() is None


@pytest.mark.parametrize("name", [None, 5, b"d.t"])
def test_a_name_that_is_no_text(catalog: Any, name: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"DATABASE\.TABLE"):
        catalog.load_table(name)


@pytest.mark.parametrize("data", [ROWS, ROWS.to_reader(), ROWS.to_batches(), ROWS.to_batches()[0]])
def test_writers_take_what_write_takes(table: Table, data: Any) -> None:
    write = table.new_batch_write()
    write.write(data)
    write.commit([write.prepare_commit()])
    assert table.scan().to_arrow().to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([{"set": {"a": "b"}}],), "mapping of the name of a property"),
        (({"a": 1},), "mapping of the name of a property"),
        (({}, "a"), "list of names"),
    ],
)
def test_properties_of_a_database_that_are_none(catalog: Any, arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        catalog.alter_database("d", *arguments)
    with pytest.raises(InvalidInputError, match="mapping of the name of a property"):
        catalog.create_database("e", properties=["a"])
    assert catalog.list_databases() == ["d"]
