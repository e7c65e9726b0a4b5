"""The source without Spark: columns, partitions and shares of splits. Expected rows are what was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, LessThan
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import lakecore
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.spark.data_source.partitions import pack_parts, plan_partitions
from lakecore.spark.data_source.request import Parallelism
from tests.support.spark_source import read_source

ROWS = 40_000


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})


def options(catalog: lakecore.FilesystemCatalog, **more: str) -> dict[str, str]:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}
    return {"warehouse": catalog.warehouse, "path": "d.t", **named}


@pytest.fixture
def runs(catalog: lakecore.FilesystemCatalog) -> lakecore.Table:
    """One bucket with three overlapping runs: key k has the value of the last run that wrote it."""
    definition = {
        "columns": ["k INT", "v STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true", "file.compression": "none"},
    }
    table = catalog.create_table("d.t", definition)
    for run in range(3):
        keys = range(run * 1000, run * 1000 + ROWS)
        table.upsert(pa.table({"k": pa.array(keys, pa.int32()), "v": [f"run {run} {k}" for k in keys]}))
    return table


def pairs(rows: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_one_bucket_is_read_by_many_tasks(runs: lakecore.Table, catalog: lakecore.FilesystemCatalog) -> None:
    whole = [(k, f"run {min(k // 1000, 2)} {k}") for k in range(ROWS + 2000)]
    rows, _, tasks = read_source(options(catalog))
    assert tasks == 1
    assert pairs(rows) == whole
    rows, _, tasks = read_source(options(catalog, scan__parallelism="4"))
    assert tasks > 2
    assert pairs(rows) == whole
    small = options(catalog, source__split__target_size="300 kb")
    rows, left, tasks = read_source({**small, "push-filters": "once"}, [EqualTo(("v",), "run 2 2500")])
    assert (pairs(rows), left) == ([(2500, "run 2 2500")], [])
    assert tasks > 2
    rows, left, tasks = read_source(
        {**small, "push-filters": "once", "where": "k < 1500"}, [GreaterThan(("k",), 1497)]
    )
    assert pairs(rows) == [(k, f"run 1 {k}") for k in (1498, 1499)]
    assert (left, tasks) == ([], 1)  # conditions on the key select pages


def test_a_limit_is_reached_by_one_task(runs: lakecore.Table, catalog: lakecore.FilesystemCatalog) -> None:
    conditions = [LessThan(("k",), 5)]
    rows, left, tasks = read_source(options(catalog, limit="7", push_filters="once"), conditions)
    assert (rows.num_rows, left, tasks) == (7, conditions, 1)
    assert read_source(options(catalog, limit="0"))[0].num_rows == 0


def test_splits_are_packed(catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["v INT", "p INT"], "partitionKeys": ["p"]})
    table.append(pa.table({"v": range(100), "p": [n // 4 for n in range(100)]}))
    assert len(plan_partitions(table.scan(), Parallelism(None, 1024))) == 25
    assert len(plan_partitions(table.scan(), Parallelism(None, 10))) == 10
    assert len(plan_partitions(table.scan(), Parallelism(7, 1024))) == 7
    for more in ({"scan.infer-parallelism.max": "10"}, {"scan.parallelism": "1"}, {"scan.parallelism": "99"}):
        rows = read_source({**options(catalog), **more})[0]
        assert sorted(rows["v"].to_pylist()) == list(range(100))
    assert plan_partitions(table.scan(snapshot=1, where="p = 77"), Parallelism(None, 9)) == ()


@pytest.mark.parametrize(
    ("parts", "most", "groups"),
    [
        ("abc", 5, ["a", "b", "c"]),
        ("abcdef", 3, ["ab", "cd", "ef"]),
        ("abcdefg", 3, ["abc", "de", "fg"]),
        ("abcd", 1, ["abcd"]),
        ("", 2, []),
    ],
)
def test_packing(parts: str, most: int, groups: list[str]) -> None:
    assert ["".join(group) for group in pack_parts(parts, most)] == groups


def test_schemas_of_users(runs: lakecore.Table, catalog: lakecore.FilesystemCatalog) -> None:
    rows, _, _ = read_source(options(catalog), schema=StructType().add("v", StringType()))
    assert rows.column_names == ["v"]
    with pytest.raises(InvalidInputError, match="'k' is bigint in the given schema, but int in the table"):
        read_source(options(catalog), schema=StructType().add("k", LongType()))
    with pytest.raises(InvalidInputError, match=r"'K' of the given schema is not in the table; .* k, v"):
        read_source(options(catalog), schema=StructType().add("K", IntegerType()))
    with pytest.raises(InvalidInputError, match="no columns"):
        read_source(options(catalog), schema=StructType())


def test_times_of_more_than_six_digits(catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["t TIMESTAMP(9)", "l ARRAY<TIMESTAMP_LTZ(9)>"]})
    nanos = 1_700_000_000_123_456_789
    ltz = pa.array([[nanos]], pa.list_(pa.timestamp("ns", "UTC")))
    table.append(pa.table({"t": pa.array([nanos], pa.timestamp("ns")), "l": ltz}))
    with pytest.raises(UnsupportedError, match="column t: a time has more digits than the six"):
        read_source(options(catalog))
    rows, _, _ = read_source(options(catalog, nanoseconds="truncate"))
    assert rows["t"].cast(pa.int64()).to_pylist() == [nanos // 1000]
    assert rows["l"].combine_chunks().flatten().cast(pa.int64()).to_pylist() == [nanos // 1000]
    rows, _, _ = read_source(options(catalog, nanoseconds="text"))
    assert rows["t"].to_pylist() == ["2023-11-14 22:13:20.123456789"]
    assert rows["l"].to_pylist() == [["2023-11-14 22:13:20.123456789Z"]]


def test_a_comment_reaches_spark(catalog: lakecore.FilesystemCatalog) -> None:
    from lakecore.spark.data_source.format import LakecoreSource

    catalog.create_table(
        "d.t", {"columns": [{"name": "k", "type": "INT NOT NULL", "description": "the key"}]}
    )
    field = LakecoreSource(options(catalog)).schema()["k"]
    assert (field.nullable, field.metadata) == (True, {"comment": "the key"})
