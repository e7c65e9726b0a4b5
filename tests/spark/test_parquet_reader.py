"""`Scan.to_spark` by Spark's own reader of Parquet. The judge of the rows is what Java Paimon read."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import logging
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from lakecore.predicate.parse import parse_where
from lakecore.spark.data_source.parquet.conditions import condition_of
from lakecore.spark.data_source.parquet.files import parquet_files
from tests.support.golden import View, canonical, golden_table
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.spark_source import canonical_rows

pytestmark = pytest.mark.slow

FILE_SCAN = "FileScan parquet"
THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
WHOLE = (
    "g1.a_append_unaware_compacted", "g1.a_part_special", "g1.a_part_types_new", "g1.a_part_types_legacy",
    "g1.a_pk_first_row", "g1.a_idx_map", "g1.a_old090_append", "g1.a_life_rescaled",
    "g3.h3_append_unaware", "g3.h3_cl_lookup_dedup", "g3.h3_pk_overwrite", "g3.h3_stats_trunc_overflow",
)  # fmt: skip
MIXED = (
    "g1.a_cl_lookup",
    "g1.a_dv_pk",
    "g1.a_pk_dynamic",
    "g3.h3_cl_lookup_part_avro",
    "g3.h3_pk_dynamic_nopart",
)
"""Some splits of these tables need a merge, or have deletion vectors."""
WITHOUT = {
    "g1.a_types_append_parquet": ("f_time0", "f_time3", "f_ts9", "f_ltz9"),
    "g3.h3_types_append_parquet": ("f_time0", "f_time3", "f_ts9", "f_ltz9"),
    "g1.a_types_extreme": ("t9",),
    "g3.h3_types_extreme": ("t9",),
}
"""Columns of these tables that lakecore reads: their types are other ones for Spark."""


def plan_of(frame: DataFrame) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        frame.explain()
    return output.getvalue()


@pytest.fixture
def table(tmp_path: Path) -> lakecore.Table:
    """`d.t` with 40 files in three partitions, each of the rows k = 0 … 9."""
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    created = catalog.create_table(
        "d.t",
        {
            "columns": ["k INT", "v BIGINT", "day STRING"],
            "partitionKeys": ["day"],
            "options": {"file.compression": "none"},
        },
    )
    for number in range(40):
        values = {"k": range(10), "v": [number] * 10, "day": [f"00{number % 3}"] * 10}
        created.append(pa.table(values, pa.schema({"k": pa.int32(), "v": pa.int64(), "day": pa.string()})))
    return created


def _expected(name: str, columns: tuple[str, ...]) -> list[str]:
    rows = (json.loads(line) for line in golden_table(name).rows(View("rows.jsonl")))
    return canonical({key: value for key, value in row.items() if key in columns} for row in rows)


@pytest.mark.parametrize("name", [*WHOLE, *WITHOUT])
def test_rows_that_java_wrote(session: SparkSession, name: str) -> None:
    table = lakecore.load_catalog(str(golden_table(name).warehouse)).load_table(name)
    columns = tuple(one for one in table.schema.row_type.names if one not in WITHOUT.get(name, ()))
    scan = table.scan(columns=columns)
    frame = scan.to_spark(session, reader="spark")
    assert frame.schema == scan.to_spark(session, reader="lakecore").schema
    rows = pa.Table.from_batches(frame._collect_as_arrow())
    assert canonical_rows(rows, scan.row_type) == _expected(name, columns)


@pytest.mark.parametrize("name", MIXED)
def test_splits_of_both_readers_are_united(session: SparkSession, name: str) -> None:
    table = lakecore.load_catalog(str(golden_table(name).warehouse)).load_table(name)
    frame = table.scan().to_spark(session)
    plan = plan_of(frame)
    assert FILE_SCAN in plan
    assert "MapInArrow" in plan
    rows = pa.Table.from_batches(frame._collect_as_arrow())
    assert canonical_rows(rows, table.schema.row_type) == _expected(name, table.schema.row_type.names)
    with pytest.raises(UnsupportedError, match=r"splits are merged|deletion vectors"):
        table.scan().to_spark(session, reader="spark")


def test_files_of_one_split_are_divided_between_the_readers(session: SparkSession, tmp_path: Path) -> None:
    """Six files of one bucket, of which two have keys of their own and no deletes: these are read by Spark."""
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    definition = {"columns": ["k INT", "v BIGINT"], "primaryKeys": ["k"]}
    table = catalog.create_table("d.t", {**definition, "options": {"bucket": "1", "write-only": "true"}})
    for turn, first in enumerate((0, 10, 11, 20, 30)):
        keys = pa.array(range(first, first + 3), pa.int32())
        table.write(pa.table({"k": keys, "v": [turn] * 3}))
    table.delete("k = 30")
    values = {0: 0, 1: 0, 2: 0, 10: 1, 11: 2, 12: 2, 13: 2, 20: 3, 21: 3, 22: 3, 31: 4, 32: 4}
    frame = table.scan().to_spark(session)
    assert len(frame.inputFiles()) == 2
    assert "MapInArrow" in plan_of(frame)
    assert dict(map(tuple, frame.collect())) == values
    narrow = table.scan(where="v <> 3 and k > 1", columns=["k"]).to_spark(session)
    assert sorted(row.k for row in narrow.collect()) == [k for k, v in values.items() if v != 3 and k > 1]


CONDITIONS = (
    "i = 3", "i <> 3", "i < 3 or i >= 7", "not (i <= 3)", "i in (1, 2, 99)", "i not in (1, 2)", "i is null",
    "i is not null and s > 'b'", "s = ''", "s like 'a%'", "s not like '_\\%%'", "s like '%\n%'", "s < 'é'",
    "s in ('a', '😀')", "d = 1.50", "d > -0.01", "d in (0.00, 1.5)", "day >= '2024-02-29'", "day < '1582-10-15'",
    "ts = '2024-01-01 00:00:00.123'", "ts < '1900-01-01 00:00:00'", "ts6 > '2024-01-01 00:00:00.123455'",
    "ltz = '2024-01-01 00:00:00.123456'", "ltz <= '1969-12-31 23:59:59.999999'", "b = true", "b = false or i = 1",
    "c = 'ab'", "tiny >= 3 and big < 0", "not (s = 'a' and i is null)",
)  # fmt: skip


def test_conditions_mean_the_same_for_both_readers(session: SparkSession, tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table("d.t", {"columns": [
        "id INT", "i INT", "s STRING", "d DECIMAL(10, 2)", "day DATE", "ts TIMESTAMP(3)", "ts6 TIMESTAMP(6)",
        "ltz TIMESTAMP(6) WITH LOCAL TIME ZONE", "b BOOLEAN", "c CHAR(2)", "tiny TINYINT", "big BIGINT", "f DOUBLE",
    ]})  # fmt: skip
    texts = ["a", "b", "", "é", "😀", "a%b", "x%y", "a\nb", "ab", None]
    dates = [datetime.date(2024, 2, 29), datetime.date(1582, 10, 4), datetime.date(1, 1, 1), None]
    moments = ("2024-01-01 00:00:00.123456", "1899-12-31 23:00:00", "1969-12-31 23:59:59.999999")
    times = [*map(datetime.datetime.fromisoformat, moments), None]
    ids = range(40)
    values = {
        "id": list(ids),
        "i": [n % 11 if n % 7 else None for n in ids],
        "s": [texts[n % 10] for n in ids],
        "d": [Decimal(n - 20) / 4 if n % 5 else None for n in ids],
        "day": [dates[n % 4] for n in ids],
        "ts": [time and time.replace(microsecond=time.microsecond // 1000 * 1000) for time in times * 10],
        "ts6": times * 10,
        "ltz": times * 10,
        "b": [[True, False, None][n % 3] for n in ids],
        "c": [["ab", "a", None][n % 3] for n in ids],
        "tiny": [n % 5 for n in ids],
        "big": [n - 30 for n in ids],
        "f": [float(n) for n in ids],
    }
    table.append(
        pa.table(
            {name: pa.array(column, table.scan().schema.field(name).type) for name, column in values.items()}
        )
    )
    kind = table.schema.row_type
    conditions = [condition_of(parse_where(text, kind), kind).alias(text) for text in CONDITIONS]
    rows = table.scan().to_spark(session, reader="spark").select("id", *conditions).collect()
    for text in CONDITIONS:
        selected = sorted(row.id for row in rows if row[text])
        assert selected == sorted(table.scan(where=text).to_arrow().column("id").to_pylist()), text
    frame = table.scan(where="i = 3", columns=["id"]).to_spark(session, reader="spark")
    assert frame.columns == ["id"]
    assert "PushedFilters: [IsNotNull(i), EqualTo(i,3)]" in plan_of(frame)
    assert sorted(row.id for row in frame.collect()) == [3, 25, 36]
    for condition in ("f > 1.0", "f = 1.0 or i = 1"):
        with pytest.raises(
            UnsupportedError, match="condition on column f of type DOUBLE is read by lakecore"
        ):
            table.scan(where=condition).to_spark(session, reader="spark")


def test_a_table_on_hdfs(session: SparkSession, hdfs: HdfsCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Spark has the client of HDFS, but not the names of a cluster that only the catalog knows."""
    warehouse = f"{hdfs.root}/{uuid.uuid4().hex}"
    table = lakecore.load_catalog(warehouse, create_warehouse=True).create_table(
        "d.t", {"columns": ["k INT"]}
    )
    table.append(pa.table({"k": pa.array(range(9), pa.int32())}))
    frame = table.scan(where="k > 5").to_spark(session, reader="spark")
    assert f"InMemoryFileIndex(1 paths)[{hdfs.root}" in plan_of(frame)
    assert sorted(row.k for row in frame.collect()) == [6, 7, 8]
    options = {
        "dfs.ha.namenodes.prod": "a",
        "hadoop.dfs.namenode.rpc-address.prod.a": f"127.0.0.1:{hdfs.port}",
    }
    named = lakecore.load_catalog(warehouse.replace(hdfs.root, "hdfs://prod"), **options).load_table("d.t")
    with caplog.at_level(logging.INFO, "lakecore.spark.data_source.frames"):
        assert named.scan().to_spark(session).count() == 9
    assert "is read by lakecore: Spark cannot look up hdfs://prod/" in caplog.text


def test_who_reads(session: SparkSession, table: lakecore.Table, caplog: pytest.LogCaptureFixture) -> None:
    frame = table.scan().to_spark(session)
    assert FILE_SCAN in plan_of(frame)
    assert "FileScan" not in plan_of(table.scan().to_spark(session, reader="lakecore"))
    assert "FileScan" not in plan_of(table.scan().to_spark(session, parallelism=2))
    with caplog.at_level(logging.INFO, "lakecore.spark.data_source.frames"):
        assert "FileScan" not in plan_of(table.scan(limit=1).to_spark(session))
    assert "is read by lakecore: a scan with a limit" in caplog.text
    with pytest.raises(UnsupportedError, match=r"spark\.sql\.files\.maxPartitionBytes"):
        table.scan().to_spark(session, reader="spark", parallelism=2)
    with pytest.raises(InvalidInputError, match="reader='java': it must be one of auto, spark, lakecore"):
        table.scan().to_spark(session, reader="java")


def test_queries_select_columns_and_partitions(session: SparkSession, table: lakecore.Table) -> None:
    before = session.conf.get(THRESHOLD)
    frame = table.scan(where="day = '001'").to_spark(session, reader="spark")
    assert session.conf.get(THRESHOLD) == before
    assert frame.schema.simpleString() == "struct<k:int,v:bigint,day:string>"
    assert {row.day for row in frame.select("day").collect()} == {"001"}  # a name of a directory gives 1
    assert frame.where("k >= 8").count() == 2 * 13
    assert "PushedFilters: [IsNotNull(k), GreaterThanOrEqual(k,8)]" in plan_of(frame.where("k >= 8"))
    assert "ReadSchema: struct<v:bigint>" in plan_of(frame.select("v"))
    everything = table.scan().to_spark(session, reader="spark")
    table.append(pa.table({"k": pa.array([1], pa.int32()), "v": [1], "day": ["002"]}))
    assert everything.count() == 400
    assert table.scan(where="day = '9'").to_spark(session, reader="spark").count() == 0


@pytest.mark.parametrize("key", [(), ("k",)])
def test_files_of_many_row_groups_are_divided(
    session: SparkSession, tmp_path: Path, key: tuple[str, ...]
) -> None:
    """A compaction copied the row groups; tasks read some of them each."""
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    options = {"write-only": "true", "file.compression": "none", **({"bucket": "1"} if key else {})}
    table = catalog.create_table(
        "d.t", {"columns": ["k INT", "v BIGINT"], "primaryKeys": list(key), "options": options}
    )
    for number in range(4):
        keys = range(number * 5000, (number + 1) * 5000)
        table.write(pa.table({"k": pa.array(keys, pa.int32()), "v": [7 * k for k in keys]}))
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, copy=CopyMode.ALL)
    assert compact.run(job, catalog).picks_done == 1
    table = catalog.load_table("d.t")
    (path,) = parquet_files(table.scan(), table.scan().plan()).paths
    assert pq.read_metadata(path).num_row_groups == 4
    session.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        frame = table.scan().to_spark(session, reader="spark")
        assert frame.rdd.getNumPartitions() > 4
        assert sorted((row.k, row.v) for row in frame.collect()) == [(k, 7 * k) for k in range(20_000)]
    finally:
        session.conf.unset("spark.sql.files.maxPartitionBytes")


def _files(table: lakecore.Table) -> list[Path]:
    return sorted(Path(table.path).glob("day=*/bucket-*/*.parquet"))


def test_a_file_that_is_gone(session: SparkSession, table: lakecore.Table) -> None:
    frame = table.scan().to_spark(session, reader="spark")
    gone = _files(table)[0]
    gone.unlink()
    with pytest.raises(Py4JJavaError, match=f"(?s){gone.name}.*does not exist"):
        _sums(frame)
    with pytest.raises(
        UnsupportedError, match=f"a file cannot be read: .*{gone.name}: the file does not exist"
    ):
        table.scan().to_spark(session, reader="spark")
    with pytest.raises(
        PythonException, match=r"NotFoundError: data file .* the snapshot .* may have expired"
    ):
        _sums(table.scan().to_spark(session))


def test_a_changed_byte_is_an_error(session: SparkSession, table: lakecore.Table) -> None:
    damaged = _files(table)[0]
    content = damaged.read_bytes()
    at = content.index((7).to_bytes(4, "little"))  # in the plain values of k
    damaged.write_bytes(content[:at] + b"\x06" + content[at + 1 :])
    with pytest.raises(Py4JJavaError, match=f"(?s){damaged.name}.*checksum"):
        _sums(table.scan().to_spark(session, reader="spark"))
    with pytest.raises(PythonException, match="CorruptDataError"):
        _sums(table.scan().to_spark(session, reader="lakecore"))


def _sums(frame: DataFrame) -> Any:
    return frame.selectExpr("sum(k)", "sum(v)", "count(day)").collect()
