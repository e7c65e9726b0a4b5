"""Changes of a schema: competing ones, branches, storage faults, and what Java would break. Java judges the rest."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.change_text import changes_from_json, parse_add, parse_move, parse_path
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, InvalidOptionError, LakeError, NotFoundError, UnsupportedError
from lakecore.jobs.compact import Job, run
from lakecore.metadata.schema_change import AddColumn, ChangeDefault, MoveColumn, Place, Position, SetOption
from lakecore.types.datatypes import parse_type
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put, rows_of

INT = parse_type("INT")


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("alter")


def names(catalog: FilesystemCatalog, table: str = "d.k") -> tuple[str, ...]:
    return catalog.load_table(table).schema.row_type.names


def test_competing_changes_all_land_and_no_id_is_given_twice(catalog: FilesystemCatalog) -> None:
    key_table(catalog)
    errors: list[Exception] = []

    def add(number: int) -> None:
        try:
            for i in range(5):
                catalog.alter_table("d.k", AddColumn(path=(f"c{number}_{i}",), type=INT))
        except LakeError as err:
            errors.append(err)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    schema = catalog.load_table("d.k").schema
    assert errors == []
    assert schema.id == 20
    assert len({field.id for field in schema.fields}) == len(schema.fields) == 22
    assert schema.highest_field_id == 21


def test_a_branch_has_schemas_of_its_own(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}])
    branch = table._stores.paths.with_branch("b")
    catalog.file_io.overwrite(branch.schema(0), catalog.file_io.read(table._stores.paths.schema(0)))
    catalog.alter_table("d.k$branch_b", [{"op": "add", "name": "c", "type": "INT"}])
    assert names(catalog, "d.k$branch_b") == ("k", "v", "c")
    assert names(catalog) == ("k", "v")
    put(catalog.load_table("d.k$branch_b"), [{"k": 2, "v": "b", "c": 3}])
    assert rows_of(catalog.load_table("d.k$branch_b")) == [(2, "b", 3)]
    assert rows_of(catalog.load_table("d.k")) == [(1, "a")]
    with pytest.raises(NotFoundError, match="nowhere"):
        catalog.alter_table("d.k$branch_nowhere", SetOption("a", "b"))


@pytest.mark.parametrize("mode", list(FaultMode))
def test_a_fault_leaves_the_old_or_the_new_schema(mode: FaultMode) -> None:
    for number in itertools.count(1):
        whole = memory_catalog("alter-fault")
        key_table(whole)
        storage = FaultyFileIO(whole.file_io, number, mode)
        try:
            replace(whole, file_io=storage).alter_table("d.k", AddColumn(path=("c",), type=INT))
        except (LakeError, KeyboardInterrupt):
            assert storage.fired
        schema = whole.load_table("d.k").schema
        assert (schema.id, schema.row_type.names) in ((0, ("k", "v")), (1, ("k", "v", "c")))
        if not storage.fired:
            break
    assert number > 3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"op": "set", "key": "partition.default-name", "value": "none"}, InvalidOptionError),
        ({"op": "unset", "key": "partition.legacy-name"}, InvalidOptionError),
        ({"op": "set", "key": "type", "value": "format-table"}, InvalidOptionError),
        ({"op": "set", "key": "file.format", "value": "lance"}, InvalidOptionError),
        ({"op": "rename", "name": "v", "to": "k"}, InvalidInputError),
        ({"op": "drop", "name": ["a", "element"]}, InvalidInputError),
        ({"op": "add", "name": ["v", "x"], "type": "INT"}, InvalidInputError),
        ({"op": "type", "name": ["m", "key"], "type": "STRING"}, InvalidInputError),
        ({"op": "type", "name": "t", "type": "TIMESTAMP WITH LOCAL TIME ZONE"}, UnsupportedError),
        ({"op": "default", "name": "v", "value": "x" * 5}, None),
    ],
)
def test_what_java_would_break_is_refused_before_anything_is_written(
    catalog: FilesystemCatalog, change: dict[str, Any], error: type[Exception] | None
) -> None:
    """Java drops `a` itself for `a.element`, changes values for `m.key`, and loses files for the first two."""
    columns = ("p INT", "k INT", "v STRING", "a ARRAY<INT>", "m MAP<INT, INT>", "t TIMESTAMP(3)")
    table = key_table(catalog, columns, ("p", "k"), ("p",), partition__legacy_name="false")
    put(table, [{"p": 1, "k": 1}])
    if error is None:
        assert catalog.alter_table("d.k", [change]).schema.id == 1
        return
    with pytest.raises(error):
        catalog.alter_table("d.k", [change])
    assert catalog.load_table("d.k").schema.id == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.bitmap.columns": "nobody"}, "no column 'nobody'"),
        ({"file-index.bsi.columns": "v"}, "cannot have an index of type bsi"),
        ({"file-index.bloom-filter.v.fpp": "0.1"}, "is missing in option file-index.bloom-filter.columns"),
        ({"file-index.nonsense.columns": "v"}, "there is no index type 'nonsense'"),
    ],
)
def test_a_file_index_that_java_does_not_open_is_refused(
    catalog: FilesystemCatalog, options: dict[str, str], message: str
) -> None:
    key_table(catalog)
    changes = [SetOption(key, value) for key, value in options.items()]
    with pytest.raises((InvalidOptionError, UnsupportedError), match=message):
        catalog.alter_table("d.k", changes)
    assert catalog.load_table("d.k").schema.id == 0


def test_a_renamed_column_has_its_file_indexes(catalog: FilesystemCatalog) -> None:
    options = {
        "file-index.bloom-filter.columns": "v, k",
        "file-index.bloom-filter.v.fpp": "0.2",
        "file-index.bitmap.columns": "m[v],m[a.b]",
        "file-index.bitmap.m[a.b].version": "1",
        "file-index.in-manifest-threshold": "1 kb",
        "file-index.read.enabled": "false",
    }
    key_table(catalog)
    catalog.alter_table("d.k", changes_from_json([{"op": "add", "name": "m", "type": "MAP<STRING, INT>"}]))
    catalog.alter_table("d.k", [SetOption(key, value) for key, value in options.items()])
    catalog.alter_table("d.k", changes_from_json([{"op": "rename", "name": "v", "to": "w"}]))
    catalog.alter_table("d.k", changes_from_json([{"op": "rename", "name": "m", "to": "n"}]))
    after = {key: value for key, value in catalog.load_table("d.k").schema.options.items() if key in options}
    added = set(catalog.load_table("d.k").schema.options) - set(options)
    assert after == {
        "file-index.bloom-filter.columns": "w, k",
        "file-index.bitmap.columns": "n[v],n[a.b]",
        "file-index.in-manifest-threshold": "1 kb",
        "file-index.read.enabled": "false",
    }
    assert {"file-index.bloom-filter.w.fpp", "file-index.bitmap.n[a.b].version"} <= added
    with pytest.raises(InvalidOptionError, match="there is no column 'w'"):
        catalog.alter_table("d.k", changes_from_json([{"op": "drop", "name": "w"}]))


def test_rows_that_wait_for_a_bucket_are_not_left_behind(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, bucket="-2", postpone__batch_write_fixed_bucket="false")
    put(table, [{"k": 1, "v": "a"}])
    with pytest.raises(InvalidOptionError, match="compact first"):
        catalog.alter_table("d.k", SetOption("bucket", "1"))
    run(Job(table="d.k"), catalog)
    assert rows_of(catalog.alter_table("d.k", SetOption("bucket", "1"))) == [(1, "a")]


def test_a_table_without_snapshots_may_get_other_keys(catalog: FilesystemCatalog) -> None:
    catalog.create_table("d.k", {"columns": ["k INT", "v INT"], "options": {}})
    catalog.alter_table("d.k", [SetOption("primary-key", "k"), SetOption("bucket", "2")])
    schema = catalog.load_table("d.k").schema
    assert (schema.primary_keys, schema.fields[0].type.nullable) == (("k",), False)
    catalog.alter_table("d.k", [{"op": "drop-primary-key"}, {"op": "set", "key": "bucket", "value": "-1"}])
    assert catalog.load_table("d.k").schema.primary_keys == ()


def test_a_quoted_default_fills_rows_without_a_value(catalog: FilesystemCatalog) -> None:
    key_table(catalog)
    catalog.alter_table("d.k", [ChangeDefault(("v",), "'it is'"), AddColumn(path=("n",), type=INT)])
    table = catalog.alter_table("d.k", ChangeDefault(("n",), "7"))
    table.write(pa.table({"k": [1]}))
    assert rows_of(table) == [(1, "it is", 7)]


def test_changes_as_people_write_them() -> None:
    assert parse_path("a.`b.c`.d") == ("a", "b.c", "d")
    assert parse_add("a.b ROW<x INT, y INT> after c").position == Position(Place.AFTER, "c")
    assert parse_add("c TIMESTAMP(3) WITH LOCAL TIME ZONE first").position == Position(Place.FIRST)
    assert parse_add("c STRING").position is None
    assert parse_move("c last") == MoveColumn("c", Position(Place.LAST))


@pytest.mark.parametrize(
    "raw",
    [1, "add", [1], [{}], [{"op": "explode"}], [{"op": "add", "name": "c"}], [{"op": "move", "name": "c"}],
     [{"op": "add", "name": [], "type": "INT"}], [{"op": "nullability", "name": "c", "nullable": "yes"}],
     [{"op": "add", "name": "c", "type": {"type": "ARRAY"}}]],
)  # fmt: skip
def test_other_json_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInputError, match="change"):
        changes_from_json(raw)
