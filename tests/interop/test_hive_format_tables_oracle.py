"""Tables beside Paimon's in one metastore: lakecore reads the format tables that Java reads, and names what else is there."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.names import TableName
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.jobs import compact_database, survey
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import canonical
from tests.support.hive_metastore import HiveServer, opened

pytestmark = pytest.mark.slow

COLUMNS = [
    "b BOOLEAN", "t TINYINT", "i INT", "l BIGINT", "f FLOAT", "d DOUBLE", "n DECIMAL(12, 3)", "c CHAR(3)", "v VARCHAR(9)",
    "s STRING", "day DATE", "at TIMESTAMP(6)",
]  # fmt: skip
NESTED = ["a ARRAY<INT>", "m MAP<STRING, BIGINT>", "r ROW<x INT, y ARRAY<STRING>>"]
ROW = {
    "b": True, "t": -1, "i": 7, "l": "9223372036854775807", "f": 1.5, "d": -2.5e300, "n": "123.456", "c": "abc", "v": "é,x",
    "s": 'q"u\\o', "day": "2024-02-29", "at": "2024-02-29 12:34:56.789",
}  # fmt: skip
DEEP = {"a": [1, None], "m": [["k", 1]], "r": {"x": 1, "y": ["z", None]}}
HIVE = "org.apache.hadoop.hive.ql.io."
TEXT = ("org.apache.hadoop.mapred.TextInputFormat", f"{HIVE}HiveIgnoreKeyTextOutputFormat")
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


@pytest.fixture
def database(hive: HiveServer) -> Iterator[HiveCatalog]:
    catalog = opened(hive)
    catalog.create_database("g")
    yield catalog
    for name in catalog._metastore.table_names("g"):
        catalog._metastore.connection.change("drop", "drop_table", "g", name, False)
    catalog._metastore.drop_database("g")
    shutil.rmtree(hive.warehouse / "g.db", ignore_errors=True)
    catalog.close()


def ours(catalog: HiveCatalog, name: str) -> list[str]:
    scan = catalog.load_table(name).scan()
    return canonical(line for one in scan.to_batches() for line in batch_to_json(one, scan.row_type))


def append(hive: HiveServer, name: str, rows: list[dict[str, Any]]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        hive.oracle.call("catalog", hive.java(), "append", name, file.name)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "orc", "text"])
def test_rows_are_those_of_java(hive: HiveServer, database: HiveCatalog, kind: str) -> None:
    flat, deep = (["s STRING"], {}) if kind == "text" else (COLUMNS, {})
    row = {"s": "one line"} if kind == "text" else ROW
    if kind in ("json", "parquet", "orc"):
        flat, deep = [*COLUMNS, *NESTED], DEEP
    for name, keys in (("g.plain", []), ("g.parted", ["p", "q"])):
        schema = {
            "columns": [*flat, *(["p STRING", "q INT"] if keys else [])],
            "partitionKeys": keys,
            "options": {"type": "format-table", "file.format": kind},
        }
        hive.oracle.call("catalog", hive.java(), "create", name, json.dumps(schema))
        parts = [{"p": "a b", "q": 1}, {"p": "c", "q": None}] if keys else [{}]
        append(hive, name, [{**row, **deep, **part} for part in parts])
        append(hive, name, [{**dict.fromkeys(row), **dict.fromkeys(deep), **part} for part in parts])
        assert ours(database, name) == hive.oracle.read(hive.java(), name)
        assert len(ours(database, name)) == 2 * len(parts)
        assert database.table_kinds("g")[name[2:]] == f"format table of {kind} files"
    assert database.list_tables("g") == database.list_tables("g", table_type="table") == []
    assert database.list_tables("g", pattern="pa%", table_type="format-table") == ["parted"]
    page = database.list_tables_page("g", limit=1, table_type="format-table")
    assert (page.tables, page.next_token) == (("parted",), "parted")
    page = database.list_tables_page("g", limit=1, token="parted", table_type="format-table")
    assert (page.tables, page.next_token) == (("plain",), None)
    assert database.list_tables_page("g", limit=1).tables == ()
    assert [one.record_count for one in database.partitions.list("g.parted")] == [-1, -1]
    if kind != "text":
        rows = database.load_table("g.parted").scan(where="q = 1", columns=["p", "q"]).to_arrow().to_pylist()
        assert rows == [{"p": "a b", "q": 1}] * 2


def entry(catalog: HiveCatalog, name: str) -> dict[str, Any]:
    """An entry without its times, and with the name of the other one."""
    record = catalog._metastore.table(TableName.parse(name))
    plain = re.sub(r"java|ours", "x", repr({**vars(record), "createTime": 0, "lastAccessTime": 0}))
    return {"record": re.sub(r"'(transient_lastDdlTime|totalSize|numFiles)': '[0-9]+',? ?", "", plain)}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "orc", "text", ""])
def test_lakecore_enters_the_tables_that_java_enters(
    hive: HiveServer, database: HiveCatalog, tmp_path: Path, kind: str
) -> None:
    options = {"type": "format-table", **({"file.format": kind} if kind else {})}
    if kind == "csv":
        options |= {"csv.field-delimiter": "|", "csv.null-literal": "none"}
    columns = ["s STRING", "p STRING", "q INT"] if kind == "text" else [*COLUMNS, "p STRING", "q INT"]
    schema: dict[str, Any] = {
        "columns": columns,
        "partitionKeys": ["p", "q"],
        "options": options,
        "comment": "words",
    }
    wide = opened(hive, **{"external-roots": str(tmp_path)})
    for inside in (True, False):
        for who in ("java", "ours"):
            name = f"g.{who}_{inside}".lower()
            made = schema if inside else {**schema, "options": {**options, "path": str(tmp_path / who)}}
            if who == "java":
                hive.oracle.call("catalog", hive.java(), "create", name, json.dumps(made))
            else:
                wide.create_table(name, made)
                assert wide.create_table(name, made, if_not_exists=True).name == name
            row = {"s": "one line"} if kind == "text" else ROW
            append(hive, name, [{**row, "p": "a b", "q": 1}, {**dict.fromkeys(row), "p": "c", "q": None}])
            assert ours(wide, name) == hive.oracle.read(hive.java(), name)
            assert len(ours(wide, name)) == 2
        assert entry(wide, f"g.java_{inside}".lower()) == entry(wide, f"g.ours_{inside}".lower())
    wide.close()


def test_format_tables_that_cannot_be(hive: HiveServer, database: HiveCatalog, tmp_path: Path) -> None:
    def of(*columns: str, **options: str) -> dict[str, Any]:
        return {
            "columns": list(columns),
            "options": {"type": "format-table", "file.format": "csv", **options},
        }

    database.create_table("g.t", {"columns": ["k INT"]})
    (hive.warehouse / "g.db" / "full").mkdir()
    (hive.warehouse / "g.db" / "full" / "x.csv").write_text("1\n")
    before = database._metastore.table_names("g")
    refused: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        ("g.u", of("K INT"), InvalidInputError, "lower case"),
        ("g.u", of("k TIME(0)"), UnsupportedError, "stores it as string"),
        ("g.u", of("k INT NOT NULL"), UnsupportedError, "write that type"),
        ("g.u", of("k INT", bucket="1"), InvalidOptionError, "no effect"),
        ("g.full", of("k INT"), AlreadyExistsError, "has files already"),
        ("g.t", of("k INT"), AlreadyExistsError, "exists"),
        ("g.u", of("k INT", path=str(tmp_path)), InvalidOptionError, "external-roots"),
        ("g.u", of("k INT", path=f"{hive.warehouse}/g.db/t"), InvalidOptionError, "the warehouse"),
        ("nowhere.u", of("k INT"), NotFoundError, "database"),
    ]
    for name, definition, error, words in refused:
        with pytest.raises(error, match=words):
            database.create_table(name, definition)
    for option, words in (
        ({"format-table.enabled": "false"}, "enabled"),
        ({"location-in-properties": "true"}, "Java"),
    ):
        with (
            contextlib.closing(opened(hive, **option)) as catalog,
            pytest.raises(UnsupportedError, match=words),
        ):
            catalog.create_table("g.u", of("k INT"))
    assert database._metastore.table_names("g") == before
    table = opened(hive, **{"table-default.file.format": "csv", "table-default.bucket": "2"}).create_table(
        "g.u", {"columns": ["k INT"], "options": {"type": "format-table"}}
    )
    assert (table.schema.options["file.format"], "bucket" in table.schema.options) == ("csv", False)


def test_an_entry_as_hive_makes_it(hive: HiveServer, database: HiveCatalog) -> None:
    enter(database, "fields", TEXT, LAZY, serde={"field.delim": "|", "serialization.format": "|"})
    enter(database, "standard", TEXT, LAZY)
    for name, line in (("fields", "1|x\n2|\n"), ("standard", "1\x01x\n2\x01\\N\n")):
        directory = hive.warehouse / "g.db" / name / "p=a"
        directory.mkdir(parents=True)
        (directory / "000000_0").write_text(line)
        (directory / "_SUCCESS").write_text("")
        assert ours(database, f"g.{name}") == hive.oracle.read(hive.java(), f"g.{name}")
        assert len(ours(database, f"g.{name}")) == 2


def test_what_is_no_format_table_is_named(hive: HiveServer, database: HiveCatalog, tmp_path: Path) -> None:
    iceberg = ("org.apache.iceberg.mr.hive.HiveIcebergInputFormat", "x")
    parquet = (f"{HIVE}parquet.MapredParquetInputFormat", f"{HIVE}parquet.MapredParquetOutputFormat")
    orc = (f"{HIVE}orc.OrcInputFormat", f"{HIVE}orc.OrcOutputFormat")
    serde = f"{HIVE}parquet.serde.ParquetHiveSerDe"
    others = {
        "ice": ("table of Iceberg", iceberg, "x", {}),
        "delta": ("table of Delta Lake", parquet, serde, {"spark.sql.sources.provider": "delta"}),
        "hudi": ("table of Hudi", ("org.apache.hudi.hadoop.HoodieParquetInputFormat", "x"), serde, {}),
        "acid": ("transactional table of Hive", orc, f"{HIVE}orc.OrcSerde", {"transactional": "true"}),
        "odd": ("table of an unknown format", ("x", "y"), "z", {}),
    }
    for name, (kind, formats, library, parameters) in others.items():
        enter(database, name, formats, library, parameters=parameters)
        with pytest.raises(NotFoundError, match=kind):
            database.load_table(f"g.{name}")
        assert not database.table_exists(f"g.{name}")
    enter(database, "seen", TEXT, LAZY, kind="VIRTUAL_VIEW")
    assert database.table_kinds("g") == {**{name: one[0] for name, one in others.items()}, "seen": "view"}
    assert database.list_tables("g") == []
    enter(database, "union", TEXT, LAZY, columns=[("u", "uniontype<int,string>")])
    with pytest.raises(UnsupportedError, match="uniontype"):
        database.load_table("g.union")
    enter(database, "away", TEXT, LAZY, location=f"file:{tmp_path}")
    with pytest.raises(InvalidOptionError, match="external-roots"):
        database.load_table("g.away")


def test_jobs_pass_over_what_is_not_paimons(hive: HiveServer, database: HiveCatalog) -> None:
    enter(database, "lines", TEXT, LAZY)
    database.create_table("g.t", {"columns": ["k INT"]})
    assert database.list_tables("g") == ["t"]
    kinds = {"lines": "format table of csv files", "t": "Paimon"}
    assert database.table_kinds("g") == kinds
    report = compact_database.run(compact_database.Job(including_databases="g"), database)
    assert [(one.table, one.error) for one in report.tables] == [("g.t", None)]
    records = survey.run(survey.Job(including_databases="g", dry_run=True), database).tables
    assert [one.table for one in records] == ["g.t"]
    with pytest.raises(UnsupportedError, match="format table"):
        database.alter_table("g.lines", [{"op": "add", "name": "n", "type": "INT"}])
    with opened_without(hive) as catalog:
        assert catalog.table_kinds("g") == kinds
        with pytest.raises(NotFoundError, match="format table of csv files"):
            catalog.load_table("g.lines")
        for refused in (
            lambda: catalog.drop_table("g.lines"),
            lambda: catalog.rename_table("g.lines", "g.u"),
        ):
            with pytest.raises(NotFoundError):
                refused()
    database.drop_table("g.t", purge=True)


def opened_without(hive: HiveServer) -> Any:
    return contextlib.closing(opened(hive, **{"format-table.enabled": "false"}))


def enter(
    catalog: HiveCatalog,
    name: str,
    formats: tuple[str, str],
    library: str,
    *,
    columns: list[tuple[str, str]] | None = None,
    serde: dict[str, str] | None = None,
    parameters: dict[str, str] | None = None,
    kind: str = "EXTERNAL_TABLE",
    location: str | None = None,
) -> None:
    """Enter a table as Hive does."""
    types = thrift_types()
    descriptor = types.StorageDescriptor(
        cols=[types.FieldSchema(*one) for one in columns or [("k", "int"), ("v", "string")]],
        inputFormat=formats[0],
        outputFormat=formats[1],
        serdeInfo=types.SerDeInfo(serializationLib=library, parameters=serde or {}),
        location=location or f"file:{catalog.warehouse}/g.db/{name}",
    )
    keys = [types.FieldSchema("p", "string")]
    catalog._metastore.create_table(
        types.Table(
            tableName=name,
            dbName="g",
            tableType=kind,
            sd=descriptor,
            partitionKeys=keys,
            parameters=parameters or {},
        )
    )
