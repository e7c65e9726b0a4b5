"""`spark.read.format("lakecore")`: what Spark makes of it. One session reads everything."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.jobs import compact
from lakecore.spark.executor import SparkExecutor
from tests.support.golden import View, golden_tables
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.lake import rows_of
from tests.support.oracle import Oracle
from tests.support.spark_source import canonical_rows
from tests.support.sql_servers import SqlServers, options_of

pytestmark = pytest.mark.slow

PUSH = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def table(tmp_path: Path) -> lakecore.Table:
    """`d.t` with the rows k = 0 … 9 and v = 100 * k in two snapshots, the first tagged `first`."""
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    found = catalog.create_table(
        "d.t",
        {"columns": ["k INT", "v BIGINT", "s STRING"], "primaryKeys": ["k"], "options": {"bucket": "2"}},
    )
    for keys in (range(5), range(5, 10)):
        values = {"k": list(keys), "v": [100 * k for k in keys], "s": [f"row {k}%" for k in keys]}
        found.upsert(pa.table(values, pa.schema({"k": pa.int32(), "v": pa.int64(), "s": pa.string()})))
    return found


def warehouse_of(table: lakecore.Table) -> str:
    return str(Path(table.path).parents[1])


def load(session: SparkSession, table: lakecore.Table, name: str = "d.t", **options: str) -> DataFrame:
    reader = session.read.format("lakecore").option("warehouse", warehouse_of(table))
    for key, value in options.items():
        reader = reader.option(key.replace("__", ".").replace("_", "-"), value)
    return reader.load(name)


def keys(frame: DataFrame) -> list[int]:
    return sorted(row.k for row in frame.collect())


@pytest.mark.timeout(900)
def test_golden_tables(session: SparkSession) -> None:
    wrong = []
    for table in golden_tables():
        reader = session.read.format("lakecore").option("warehouse", str(table.warehouse))
        frame = reader.option("nanoseconds", "text").load(table.name)
        batches = frame._collect_as_arrow()  # toArrow() of Spark 4.2 fails at nulls of VARIANT
        rows = pa.Table.from_batches(
            batches, None if batches else to_arrow_schema(frame.schema, timezone="UTC")
        )
        kind = lakecore.load_catalog(str(table.warehouse)).load_table(table.name).scan().row_type
        if canonical_rows(rows, kind) != table.rows(View("rows.jsonl")):
            wrong.append(table.name)
    assert wrong == []


def test_a_frame_reads_one_snapshot(session: SparkSession, table: lakecore.Table) -> None:
    frame = load(session, table)
    assert frame.count() == 10
    table.upsert(pa.table({"k": pa.array([10], pa.int32()), "v": [0], "s": ["new"]}))
    assert frame.union(frame).count() == 20
    assert load(session, table).count() == 11
    assert load(session, table, scan__snapshot_id="1").count() == 5


def test_conditions_of_one_query_do_not_reach_another(session: SparkSession, table: lakecore.Table) -> None:
    frame = load(session, table)
    assert frame.where("k = 1").count() == 1
    assert frame.count() == 10
    assert frame.where("k = 1").union(frame.where("k = 2")).union(frame).count() == 12
    frame.createOrReplaceTempView("shared")
    query = "SELECT (SELECT count(*) FROM shared WHERE k = 1) AS one, (SELECT count(*) FROM shared) AS every"
    assert session.sql(query).collect()[0].asDict() == {"one": 1, "every": 10}


def test_spark_would_let_them(session: SparkSession, table: lakecore.Table) -> None:
    """When this fails, Spark has mended what makes `push-filters` unsafe as the default."""
    frame = load(session, table, push_filters="once")
    assert frame.where("k = 1").count() == 1
    assert frame.count() == 1


@pytest.mark.parametrize(
    ("condition", "expected", "pushed"),
    [
        ("k >= 3 and k < 5", [3, 4], True),
        ("k in (1, 3, 99)", [1, 3], True),
        ("not (k <=> 4) and k > 2.5 and k < 6", [3, 5], True),
        ("s like 'row 7%'", [7], True),
        ("s like '%8_'", [8], False),
        ("v = 300 or v = 400", [3, 4], False),
        ("v % 500 = 0", [0, 5], False),
    ],
)
def test_conditions(
    session: SparkSession, table: lakecore.Table, condition: str, expected: list[int], pushed: bool
) -> None:
    assert keys(load(session, table).where(condition)) == expected
    frame = load(session, table, push_filters="once").where(condition)
    assert keys(frame) == expected
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        frame.explain()
    assert ("Filter " not in said.getvalue()) is pushed


def test_conditions_with_the_default_of_spark(session: SparkSession, table: lakecore.Table) -> None:
    session.conf.set(PUSH, "false")
    try:
        assert keys(load(session, table).where("k > 7")) == [8, 9]
        with pytest.raises(AnalysisException, match=PUSH):
            load(session, table, push_filters="once").collect()
    finally:
        session.conf.set(PUSH, "true")


def test_columns_and_limits(session: SparkSession, table: lakecore.Table) -> None:
    chosen = load(session, table, columns="s,k")
    assert chosen.columns == ["s", "k"]
    assert keys(chosen) == list(range(10))
    assert load(session, table, limit="3").count() == 3
    assert load(session, table, limit="3", push_filters="once").where("k >= 0").count() == 3
    assert load(session, table, where="k = 1 or v = 900").count() == 2
    reader = session.read.format("lakecore").option("warehouse", warehouse_of(table))
    assert keys(reader.schema("v BIGINT, k INT").load("d.t").where("v > 700")) == [8, 9]
    with pytest.raises(AnalysisException, match="'k' is bigint in the given schema, but int in the table"):
        reader.schema("k BIGINT").load("d.t").collect()
    with pytest.raises(AnalysisException, match="'z' of the given schema is not in the table"):
        reader.schema("z INT").load("d.t").collect()


def test_fields_of_rows(session: SparkSession, tmp_path: Path) -> None:
    """Fields that options or a schema name, in batch, by Spark's reader of Parquet, and in a stream."""
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    rows = [
        {"k": 1, "s": {"a": 1, "t": {"x": "one", "y": 10}, "l": [1]}},
        {"k": 2, "s": {"a": None, "t": None, "l": None}},
        {"k": 3, "s": None},
    ]
    nested = catalog.create_table(
        "d.t", {"columns": ["k INT", "s ROW<a INT, t ROW<x STRING, y BIGINT>, l ARRAY<INT>>"]}
    )
    nested.append(pa.Table.from_pylist(rows, nested.scan().schema))

    def told(frame: DataFrame) -> list[dict[str, Any]]:
        return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["k"])

    expected = [{"k": 1, "s": {"t": {"y": 10}}}, {"k": 2, "s": {"t": None}}, {"k": 3, "s": None}]
    chosen = load(session, nested, columns="k,s.t.y")
    assert chosen.schema.simpleString() == "struct<k:int,s:struct<t:struct<y:bigint>>>"
    assert told(chosen) == expected
    assert told(chosen.where("s.t.y = 10")) == expected[:1]
    reader = session.read.format("lakecore").option("warehouse", warehouse_of(nested))
    turned = reader.schema("s STRUCT<l: ARRAY<INT>, a: INT>, k INT").load("d.t")
    assert told(turned) == [
        {"k": 1, "s": {"l": [1], "a": 1}},
        {"k": 2, "s": {"l": None, "a": None}},
        {"k": 3, "s": None},
    ]
    assert turned.select("s.*").columns == ["l", "a"]
    for reader_name in ("spark", "lakecore"):
        frame = nested.scan(columns=["k", "s.t.y"]).to_spark(session, reader=reader_name)
        assert frame.schema == chosen.schema
        assert told(frame) == expected
    with pytest.raises(
        AnalysisException, match=r"'s\.z' of the given schema is not in the table; column s has"
    ):
        reader.schema("s STRUCT<z: INT>").load("d.t").collect()
    with pytest.raises(
        AnalysisException, match=r"'s\.a' is bigint in the given schema, but int in the table"
    ):
        reader.schema("s STRUCT<a: BIGINT>").load("d.t").collect()
    stream = session.readStream.format("lakecore").option("warehouse", warehouse_of(nested))
    for number, frame in enumerate(
        (stream.option("columns", "k,s.t.y").load("d.t"), stream.schema(chosen.schema).load("d.t"))
    ):
        query = (
            frame.writeStream.format("memory")
            .queryName(f"parts{number}")
            .option("checkpointLocation", str(tmp_path / f"c{number}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert told(session.table(f"parts{number}")) == expected


def test_partitions_follow_splits_and_options(session: SparkSession, table: lakecore.Table) -> None:
    frame = load(session, table)
    assert frame.rdd.getNumPartitions() == 2  # a split for each bucket
    assert load(session, table, scan__parallelism="1").rdd.getNumPartitions() == 1
    assert load(session, table, scan__infer_parallelism__max="1").count() == 10


def test_time_travel_changes_and_system_tables(session: SparkSession, table: lakecore.Table) -> None:
    assert keys(load(session, table, scan__version="1")) == [0, 1, 2, 3, 4]
    assert keys(load(session, table, incremental_between="1,2")) == [5, 6, 7, 8, 9]
    files = load(session, table, "d.t$files").select("file_path", "record_count").collect()
    assert sum(row.record_count for row in files) == 10
    log = load(session, table, "d.t$audit_log", incremental_between="1,2")
    assert {row.rowkind for row in log.collect()} == {"+I"}
    assert load(session, table, "d.t$snapshots").count() == 2


def test_sql(session: SparkSession, table: lakecore.Table) -> None:
    options = f"OPTIONS (table 'd.t', warehouse '{warehouse_of(table)}', `scan.snapshot-id` '1')"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lakecore {options}")
    assert session.sql("SELECT sum(v) AS total FROM v WHERE k > 2").collect()[0].total == 700


def test_tables_of_the_catalog_of_spark(session: SparkSession, table: lakecore.Table) -> None:
    """They are read as they are now. Nothing is written to them: Spark hands the columns of `saved` to the writer of
    `other`, and the rows would go into the wrong table.
    """
    catalog = lakecore.load_catalog(warehouse_of(table))
    other = catalog.create_table("d.other", {"columns": ["k INT"]})
    for name in ("t", "other"):
        options = f"OPTIONS (table 'd.{name}', warehouse '{warehouse_of(table)}')"
        session.sql(f"CREATE TABLE saved_{name} USING lakecore {options}")
    try:
        before = table.scan().count()
        assert session.table("saved_t").count() == before
        table.write(pa.table({"k": pa.array([1000], pa.int32())}))
        assert session.sql("SELECT k FROM saved_t WHERE k = 1000").count() == 1
        assert session.read.option("scan.snapshot-id", "2").table("saved_t").count() == before
        for statement in ("INSERT INTO", "INSERT OVERWRITE"):
            with pytest.raises(AnalysisException, match="A table of Spark's catalog can only be read"):
                session.sql(f"{statement} saved_other SELECT k FROM saved_t")
        frame = session.table("saved_t").select("k")
        frame.write.format("lakecore").mode("append").option("warehouse", warehouse_of(table)).save("d.other")
        assert (other.scan().count(), table.scan().count()) == (before + 1, before + 1)
    finally:
        for name in ("t", "other"):
            session.sql(f"DROP TABLE saved_{name}")
    assert table.scan().count() == before + 1, "dropping it in Spark's catalog removes nothing"


def test_secrets_are_in_no_plan(session: SparkSession, table: lakecore.Table) -> None:
    frame = load(session, table, s3__secret_key="hush-hush", s3__access_key="hush-id").where("k = 1")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        frame.explain("extended")
    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW w USING lakecore OPTIONS (table 'd.t', "
        f"warehouse '{warehouse_of(table)}', `s3.secret-key` 'hush-hush', `s3.access-key` 'hush-id')"
    )
    text = said.getvalue() + str(session.sql("EXPLAIN EXTENDED SELECT * FROM w").collect())
    assert "lakecore" in text
    assert "hush" not in text + frame._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("d.gone", {}, "table 'd.gone' does not exist"),
        ("d.t", {"scan__snapshot_id": "7"}, "7.* does not exist"),
        ("d.t", {"scan__snapshotid": "1"}, "option scan.snapshotid: .* did you mean scan.snapshot-id"),
        ("d.t", {"columns": "k,z"}, "column 'z' is not in the table"),
        ("d.t", {"scan__parallelism": "0"}, "scan.parallelism='0': it must be at least 1"),
        ("d.t", {"scan__infer_parallelism": "false"}, "Spark has no parallelism of sources"),
    ],
)
def test_refusals_reach_the_user(
    session: SparkSession, table: lakecore.Table, name: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(session, table, name, **options)


def test_damage_reaches_the_user(session: SparkSession, table: lakecore.Table) -> None:
    for file in Path(table.path).glob("bucket-*/*.parquet"):
        file.write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(PythonException, match=r"CorruptDataError: .*\.parquet"):
        load(session, table).collect()


def test_a_file_that_is_gone_reaches_the_user(session: SparkSession, table: lakecore.Table) -> None:
    for file in Path(table.path).glob("bucket-*/*.parquet"):
        file.unlink()
    with pytest.raises(PythonException, match="NotFoundError"):
        load(session, table).collect()


def test_scans_are_frames(session: SparkSession, table: lakecore.Table) -> None:
    frame = table.scan(where="k > 6", columns=["k", "s"]).to_spark(session)
    assert frame.columns == ["k", "s"]
    assert keys(frame) == keys(frame.where("s like 'row%'")) == [7, 8, 9]
    assert table.scan(limit=4).to_spark(session, parallelism=3).count() == 4
    assert table.scan(where="k > 99").to_spark(session).count() == 0


def test_only_partitions_of_the_other_side_are_read(session: SparkSession, tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    facts = catalog.create_table("d.f", {"columns": ["v INT", "day DATE"], "partitionKeys": ["day"]})
    days = [datetime.date(2024, 1, 1 + n % 7) for n in range(28)]
    facts.append(pa.table({"v": pa.array(range(28), pa.int32()), "day": days}))
    wanted = session.sql("SELECT DATE'2024-01-03' AS day, 'x' AS name UNION ALL SELECT DATE'2030-01-01', 'y'")
    scan = lakecore_spark.partitions_in(facts.scan(), wanted)
    assert len(scan.plan()) == 1
    assert scan.to_spark(session).join(wanted, "day").count() == 4
    with pytest.raises(
        lakecore.InvalidInputError, match="no partition column; the partition columns are: day"
    ):
        lakecore_spark.partitions_in(facts.scan(), wanted.select("name"))


def test_the_pipeline_of_the_guide(session: SparkSession, tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    orders = catalog.create_table("shop.orders", {"columns": ["id BIGINT", "city STRING", "amount BIGINT"]})
    orders.append(pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Rome"], "amount": [90, 150, 200]}))
    catalog.create_table(
        "shop.cities", {"columns": ["city STRING", "orders BIGINT"], "primaryKeys": ["city"]}
    )
    guide = (Path(__file__).parents[2] / "docs/spark.md").read_text()
    code = guide.partition("```python\n")[2].partition("```")[0]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "docs/spark.md", "exec"), {"WAREHOUSE": str(tmp_path)})
    shown = said.getvalue()
    assert "|Rome|     1|" in shown
    rows = catalog.load_table("shop.cities").scan().to_arrow().to_pylist()
    assert sorted(row["city"] for row in rows) == ["Oslo", "Rome"]


def test_registering_by_hand(session: SparkSession, table: lakecore.Table) -> None:
    lakecore_spark.register(session)
    assert load(session, table).count() == 10


def test_units_and_rows_of_a_table_on_hdfs(session: SparkSession, hdfs: HdfsCluster, tmp_path: Path) -> None:
    """The workers get the properties from the driver, which read them from a file that is then gone."""
    site = tmp_path / "hdfs-site.xml"
    site.write_text(
        "<configuration>"
        "<property><name>dfs.ha.namenodes.prod</name><value>a</value></property>"
        f"<property><name>dfs.namenode.rpc-address.prod.a</name><value>127.0.0.1:{hdfs.port}</value></property>"
        "</configuration>"
    )
    warehouse = f"hdfs://prod/{uuid.uuid4().hex}"
    catalog = lakecore.load_catalog(warehouse, **{"hadoop-conf-dir": str(tmp_path)})
    site.unlink()
    options = {"bucket": "2", "write-only": "true"}
    table = catalog.create_table(
        "d.t", {"columns": ["k INT", "v INT"], "primaryKeys": ["k"], "options": options}
    )
    for n in range(3):
        table.upsert(pa.table({"k": list(range(n, 40)), "v": [n] * (40 - n)}))
    with SparkExecutor() as executor:
        job = compact.Job(table="d.t", strategy=compact.Strategy.FULL)
        report = compact.run(job, catalog, executor)
    assert (report.error, report.engine, report.picks_done) == (None, "spark", 2)
    reader = session.read.format("lakecore").option("warehouse", warehouse)
    reader = reader.option("dfs.ha.namenodes.prod", "a")
    reader = reader.option("hadoop.dfs.namenode.rpc-address.prod.a", f"127.0.0.1:{hdfs.port}")
    assert sorted((row.k, row.v) for row in reader.load("d.t").collect()) == [
        (k, min(k, 2)) for k in range(40)
    ]


JDBC_COLUMNS = {
    "columns": ["k INT", "v INT"],
    "primaryKeys": ["k"],
    "options": {"bucket": "2", "write-only": "true"},
}
JDBC_ROWS = [(k, min(k, 2)) for k in range(20)]


@pytest.fixture(scope="module")
def servers() -> Iterator[SqlServers]:
    with ExitStack() as running:
        yield SqlServers(running)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_frames_and_units_of_a_jdbc_catalog(
    session: SparkSession, oracle2: Oracle, servers: SqlServers, tmp_path: Path, kind: str
) -> None:
    options, warehouse = options_of(kind, tmp_path, servers), tmp_path / "wh"
    catalog = lakecore.load_catalog(warehouse, create_warehouse=True, **options)
    catalog.create_database("d")
    table = catalog.create_table("d.t", JDBC_COLUMNS)
    for n in range(3):
        keys = pa.array(range(n, 20), pa.int32())
        table.upsert(pa.table({"k": keys, "v": pa.array([n] * (20 - n), pa.int32())}))
    with SparkExecutor() as executor:
        job = compact.Job(table="d.t", strategy=compact.Strategy.FULL)
        report = compact.run(job, catalog, executor)
    assert (report.error, report.engine, report.picks_done) == (None, "spark", 2)

    reader = session.read.format("lakecore").option("warehouse", str(warehouse)).options(**options)
    frame = reader.load("d.t")
    assert sorted((row.k, row.v) for row in frame.collect()) == JDBC_ROWS
    assert table.scan().to_spark(session).count() == len(JDBC_ROWS)
    catalog.create_table("d.copy", {**JDBC_COLUMNS, "options": {"bucket": "1"}})
    writer = frame.coalesce(1).write.format("lakecore").option("warehouse", str(warehouse)).options(**options)
    writer.mode("append").save("d.copy")
    assert sorted(rows_of(catalog.load_table("d.copy"))) == JDBC_ROWS
    java = "|".join([str(warehouse), *(f"{key}={value}" for key, value in options.items())])
    for name in ("d.t", "d.copy"):
        rows = map(json.loads, oracle2.read(java, name))
        assert sorted((row["k"], row["v"]) for row in rows) == JDBC_ROWS
    with pytest.raises(AnalysisException, match=r"lock-acquire-timeot.*lock-acquire-timeout"):
        reader.option("lock-acquire-timeot", "1 s").load("d.t")
    catalog.close()
