"""Mistakes in the options of the format `lakecore`: each is an error that names the thing, its value and a remedy, and
nothing is written. Spark calls these methods; a session shows their errors (tests/spark).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import lakecore
from lakecore.errors import (
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.spark.data_source.format import LakecoreSource

SCHEMA = StructType([StructField("k", IntegerType()), StructField("v", StringType())])
OTHER = StructType([StructField("k", LongType())])
PARTS = StructType([StructField("k", IntegerType()), StructField("dt", StringType())])


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bad-input") / "lake"
    catalog = lakecore.load_catalog(root, create_warehouse=True, **{"local.fsync": "false"})
    keyed = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    catalog.create_table("d.t", keyed).write(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    parts = {"columns": ["k INT", "dt STRING"], "partitionKeys": ["dt"]}
    catalog.create_table("d.parts", parts)
    summed = keyed | {"options": {"bucket": "1", "merge-engine": "aggregation"}}
    catalog.create_table("d.sums", summed).write(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    short = {"columns": ["k INT", "v VARCHAR(2)"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    catalog.create_table("d.short", short)
    return root


def files(warehouse: Path) -> set[tuple[Path, int]]:
    return {(path, path.stat().st_size) for path in warehouse.rglob("*") if path.is_file()}


def refuse(
    call: str, warehouse: Path, options: Mapping[str, str], *arguments: object
) -> tuple[type[LakeError], str]:
    """The class and the text of the error."""
    before = files(warehouse)
    place = {} if {"warehouse", "catalog"} & set(options) else {"warehouse": str(warehouse)}
    source = LakecoreSource({"path": "d.t", **place, **options})
    with pytest.raises(LakeError) as caught:
        getattr(source, call)(*arguments)
    assert files(warehouse) == before
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "parts"),
    [
        ({"path": ""}, InvalidOptionError, ["no table is given", 'load("db.t")']),
        ({"table": "d.u"}, InvalidOptionError, ["path='d.t'", "table='d.u'", "give only one"]),
        ({"warehouse": ""}, InvalidOptionError, ["option warehouse is empty", "s3://bucket/path"]),
        ({"warehouse": "/w", "catalog": "c"}, InvalidOptionError, ["exclude each other", "give only one"]),
        ({"catalog": "/w"}, InvalidOptionError, ["catalog='/w' is a location", "use the option warehouse"]),
        ({"path": "d.gone"}, NotFoundError, ["table 'd.gone' does not exist"]),
        ({"path": "gone.t"}, NotFoundError, ["gone"]),
        ({"path": "t"}, InvalidInputError, ["'t'", "DATABASE.TABLE"]),
        ({"path": "d.t$gone"}, NotFoundError, ["gone", "files"]),
        ({"branch": "gone"}, NotFoundError, ["branch", "gone"]),
        ({"scan.snapshotid": "1"}, InvalidOptionError, ["scan.snapshotid", "did you mean scan.snapshot-id"]),
        ({"write-only": "true"}, InvalidOptionError, ["write-only", "does not know it"]),
        ({"scan.watermark.emit.strategy": "on-event"}, InvalidOptionError, ["scan.watermark.emit.strategy", "no effect"]),
        ({"scan.snapshot-id": "7"}, NotFoundError, ["7", "does not exist"]),
        ({"scan.snapshot-id": "x"}, InvalidOptionError, ["scan.snapshot-id='x'"]),
        ({"scan.tag-name": "gone"}, NotFoundError, ["gone"]),
        ({"scan.mode": "sometimes"}, InvalidOptionError, ["scan.mode='sometimes'", "latest"]),
        ({"incremental-between": "1"}, InvalidOptionError, ["incremental-between"]),
        ({"columns": "k,z"}, InvalidInputError, ["column 'z' is not in the table"]),
        ({"where": "z = 1"}, InvalidInputError, ["z"]),
        ({"where": "k ="}, InvalidInputError, ["k ="]),
        ({"limit": "-1"}, InvalidOptionError, ["limit='-1'", "must not be negative"]),
        ({"nanoseconds": "round"}, InvalidOptionError, ["nanoseconds='round'", "truncate"]),
        ({"push-filters": "always"}, InvalidOptionError, ["push-filters='always'", "once"]),
        ({"scan.parallelism": "0"}, InvalidOptionError, ["scan.parallelism='0'", "at least 1"]),
        ({"scan.infer-parallelism": "false"}, InvalidOptionError, ["scan.infer-parallelism=false", "give scan.parallelism"]),
        ({"kinds": "true"}, InvalidOptionError, ["option kinds", "spark.readStream", "leave it out"]),
    ],
)  # fmt: skip
def test_reads(warehouse: Path, options: dict[str, str], kind: type[LakeError], parts: list[str]) -> None:
    found, text = refuse("reader", warehouse, options, SCHEMA)
    assert found is kind, text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("options", "kind", "parts"),
    [
        ({"limit": "3"}, UnsupportedError, ["option limit", "leave it out"]),
        ({"push-filters": "once"}, UnsupportedError, ["push-filters", "use the option where"]),
        ({"path": "d.t$files"}, UnsupportedError, ["files"]),
        ({"path": "d.sums"}, UnsupportedError, ["d.sums", "changelog-producer"]),
        ({"kinds": "yes"}, InvalidOptionError, ["kinds='yes'", "true or false"]),
        ({"read.stream.maxrowspertrigger": "0"}, InvalidOptionError, ["maxrowspertrigger='0'", "at least 1"]),
        ({"read.stream.maxbytespertrigger": "x"}, InvalidOptionError, ["maxbytespertrigger='x'", "8 mb"]),
        ({"read.stream.minrowspertrigger": "1"}, InvalidOptionError, ["belong together", "give both, or none"]),
        (
            {"source.checkpoint-align.enabled": "true", "read.stream.maxrowspertrigger": "5"},
            InvalidOptionError,
            ["source.checkpoint-align.enabled=true", "exclude each other", "leave one of them out"],
        ),
        ({"consumer.mode": "sometimes"}, InvalidOptionError, ["consumer.mode='sometimes'", "exactly-once"]),
        ({"continuous.discovery-interval": "often"}, InvalidOptionError, ["continuous.discovery-interval='often'"]),
        ({"scan.bounded.watermark": "x"}, InvalidOptionError, ["scan.bounded.watermark='x'"]),
    ],
)  # fmt: skip
def test_streams(warehouse: Path, options: dict[str, str], kind: type[LakeError], parts: list[str]) -> None:
    found, text = refuse("streamReader", warehouse, options, SCHEMA)
    assert found is kind, text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize("call", ["reader", "streamReader"])
def test_another_schema(warehouse: Path, call: str) -> None:
    found, text = refuse(call, warehouse, {}, OTHER)
    assert found is InvalidInputError
    assert "'k' is bigint in the given schema, but int in the table; leave the schema out" in text
    found, text = refuse(call, warehouse, {}, StructType([StructField("z", LongType())]))
    assert found is InvalidInputError
    assert "'z' of the given schema is not in the table" in text
    assert refuse(call, warehouse, {}, StructType([]))[1].endswith("name at least one column")


@pytest.mark.parametrize(
    ("overwrite", "options", "kind", "parts"),
    [
        (False, {"path": "d.gone"}, NotFoundError, ["table 'd.gone' does not exist"]),
        (False, {"path": "d.t$files"}, UnsupportedError, ["files"]),
        (False, {"path": ""}, InvalidOptionError, ['save("db.t")', "table of Spark's catalog can only be read"]),
        (False, {"write-only": "true"}, InvalidOptionError, ["write-only", "does not know it"]),
        (False, {"branch": "gone"}, NotFoundError, ["branch", "gone"]),
        (False, {"path": "d.parts", "partitions": "dt=a"}, InvalidInputError, ["partitions", "set overwrite"]),
        (True, {"path": "d.parts", "partitions": "z=a"}, InvalidInputError, ["z", "dt"]),
        (True, {"path": "d.parts", "partitions": "dt"}, InvalidInputError, ["dt"]),
        (False, {"target-file-size": "big"}, InvalidOptionError, ["target-file-size='big'", "8 mb"]),
        (False, {"write.watermark": "k - 5 s"}, InvalidOptionError, ["'k' is no TIMESTAMP column"]),
    ],
)  # fmt: skip
def test_saves(
    warehouse: Path, overwrite: bool, options: dict[str, str], kind: type[LakeError], parts: list[str]
) -> None:
    schema = PARTS if options.get("path") == "d.parts" else SCHEMA
    found, text = refuse("writer", warehouse, options, schema, overwrite)
    assert found is kind, text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("overwrite", "options", "kind", "parts"),
    [
        (True, {}, UnsupportedError, ["table d.t: output mode complete", "use output mode append"]),
        (False, {"partitions": "k=1"}, InvalidOptionError, ["option partitions", "leave it out"]),
        (False, {"path": "d.gone"}, NotFoundError, ["table 'd.gone' does not exist"]),
        (False, {"write-only": "true"}, InvalidOptionError, ["write-only", "does not know it"]),
    ],
)
def test_saves_of_streams(
    warehouse: Path, overwrite: bool, options: dict[str, str], kind: type[LakeError], parts: list[str]
) -> None:
    found, text = refuse("streamWriter", warehouse, options, SCHEMA, overwrite)
    assert found is kind, text
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("path", "schema", "parts"),
    [
        ("d.t", "z INT, k INT", ["column 'z' is not in the table", "k, v"]),
        ("d.t", "K INT, v STRING", ["column 'K'", "rename it to 'k'"]),
        ("d.t", "k INT, v STRING, v STRING", ["'v' appears twice"]),
        ("d.t", "k STRING, v STRING", ["column k: the table has INT", "cast it first"]),
        ("d.t", "v STRING", ["column k is NOT NULL, but is missing"]),
        ("d.parts", "k INT", ["column dt is missing from the data", "nulls for the default partition"]),
    ],
)
@pytest.mark.parametrize("call", ["writer", "streamWriter"])
def test_columns_without_rows(warehouse: Path, call: str, path: str, schema: str, parts: list[str]) -> None:
    columns = [column.split(" ") for column in schema.split(", ")]
    kinds = {"INT": IntegerType(), "STRING": StringType()}
    given = StructType([StructField(name, kinds[kind]) for name, kind in columns])
    found, text = refuse(call, warehouse, {"path": path}, given, False)
    assert found is InvalidInputError
    assert all(part in text for part in parts), text


def test_a_table_of_the_catalog_of_spark(warehouse: Path) -> None:
    """Spark gives a reader the columns that the source told it when the table was created, and no options."""
    given = {"warehouse": str(warehouse), "table": "d.t", "limit": "1"}
    properties = {**given, **{f"option.{key}": value for key, value in given.items()}}
    properties |= {"provider": "lakecore", "owner": "me", "comment": "ours"}
    columns = LakecoreSource(properties).schema()
    assert columns.names == ["k", "v"]
    reader = LakecoreSource({}).reader(columns)
    assert sum(batch.num_rows for one in reader.partitions() for batch in reader.read(one)) == 1
    with pytest.raises(InvalidOptionError, match="does not know it"):
        LakecoreSource({"gone": "1"}).reader(columns)
    with pytest.raises(NotFoundError, match=r"'d\.gone' does not exist"):
        LakecoreSource({"warehouse": str(warehouse), "path": "d.gone"}).reader(columns)
    for writer in ("writer", "streamWriter"):
        with pytest.raises(InvalidOptionError, match="table of Spark's catalog can only be read"):
            getattr(LakecoreSource({}), writer)(columns, False)
    with pytest.raises(InvalidOptionError, match="without columns, a path"):
        LakecoreSource({}).reader(SCHEMA)
    without_options = {key: value for key, value in properties.items() if not key.startswith("option.")}
    with pytest.raises(InvalidOptionError, match="no table is given"):
        LakecoreSource(without_options).schema()
    for secret in ({"s3.secret-key": "hush"}, {"warehouse": "s3://me:hush@bucket/lake"}):
        options = {f"option.{key}": value for key, value in {**given, **secret}.items()}
        with pytest.raises(InvalidOptionError, match="give its name in the option catalog") as caught:
            LakecoreSource({"provider": "lakecore", **options}).schema()
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "rows", "parts"),
    [
        ({"file.format": "csv"}, {"k": [1], "v": ["a"]}, ["file format 'csv'", "writes only parquet, orc"]),
        ({}, {"k": [1, None], "v": ["a", "b"]}, ["column k is NOT NULL", "row 1"]),
        ({}, {"k": ["x"], "v": ["a"]}, ["column k"]),
        ({}, {"v": ["a"]}, ["column k"]),
        ({}, {"k": [1], "v": ["a"], "z": [1]}, ["z"]),
        ({}, {"k": [1], "v": ["a"], "_kind": ["new"]}, ["_kind", "new"]),
        ({"path": "d.short"}, {"k": [1], "v": ["abc"]}, ["column v", "VARCHAR(2)"]),
    ],
)  # fmt: skip
def test_rows(
    warehouse: Path, options: dict[str, str], rows: dict[str, list[object]], parts: list[str]
) -> None:
    """A task refuses rows before their file is there, so that nothing is committed."""
    before = files(warehouse)
    writer = LakecoreSource({"path": "d.t", "warehouse": str(warehouse), **options}).writer(SCHEMA, False)
    with pytest.raises(LakeError) as caught:
        writer.write(iter(pa.table(rows).to_batches()))
    assert files(warehouse) == before
    assert all(part in str(caught.value) for part in parts), str(caught.value)
