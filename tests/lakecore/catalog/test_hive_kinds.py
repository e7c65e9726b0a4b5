"""Types of Hive's columns, and kinds of entries, without a metastore. Java judges the rows (tests/interop)."""

from __future__ import annotations

import pytest

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.formats.format_entries import format_schema, kind_of_entry
from lakecore.catalog.hive.formats.type_texts import paimon_type
from lakecore.errors import UnsupportedError
from lakecore.types.sql import type_text


@pytest.mark.parametrize(
    ("hive", "paimon"),
    [
        ("int", "INT"),
        ("BIGINT", "BIGINT"),
        ("decimal(12,3)", "DECIMAL(12, 3)"),
        ("decimal", "DECIMAL(10, 0)"),
        ("char(3)", "CHAR(3)"),
        ("varchar(9)", "VARCHAR(9)"),
        ("string", "STRING"),
        ("binary", "BYTES"),
        ("timestamp", "TIMESTAMP(6)"),
        ("timestamp with local time zone", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("array<int>", "ARRAY<INT>"),
        ("map<string,array<decimal(5,2)>>", "MAP<STRING, ARRAY<DECIMAL(5, 2)>>"),
        ("struct<a:int,b:struct<c:string,d:map<int,date>>>", "ROW<a INT, b ROW<c STRING, d MAP<INT, DATE>>>"),
    ],
)
def test_a_type_of_hive_is_one_of_paimon(hive: str, paimon: str) -> None:
    assert type_text(paimon_type(hive)) == paimon


@pytest.mark.parametrize(
    "text",
    ["", "uniontype<int,string>", "interval_day_time", "array<int", "array<>", "struct<a>", "map<int>", "decimal(x)",
     "array<" * 100 + "int" + ">" * 100],
)  # fmt: skip
def test_a_type_that_paimon_lacks_is_named(text: str) -> None:
    with pytest.raises(UnsupportedError, match="of Hive"):
        paimon_type(text)


def test_an_entry_without_storage_is_of_an_unknown_format() -> None:
    types = thrift_types()
    entry = types.Table(tableName="t", dbName="d", tableType="EXTERNAL_TABLE", sd=None, parameters=None)
    assert kind_of_entry(entry) == "table of an unknown format"
    assert format_schema(entry) is None
    entry.sd = types.StorageDescriptor(
        cols=[types.FieldSchema("k", "int", "key")], inputFormat="TextInputFormat"
    )
    assert format_schema(entry) is None
    entry.sd.serdeInfo = types.SerDeInfo(serializationLib="x.JsonSerDe")
    schema = format_schema(entry)
    assert schema is not None
    assert (schema.options["file.format"], schema.fields[0].description) == ("json", "key")
