"""DataFrames become rows of tables; Java Paimon reads them, checks the files, and goes on with the table."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import lakecore
from lakecore import TableDefinition
from lakecore import spark as lakecore_spark
from lakecore.errors import InvalidInputError
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = ["k INT", "p INT", "v BIGINT", "s STRING"]
SCHEMA = "k INT, p INT, v BIGINT, s STRING"
KEYED = {"primaryKeys": ["k", "p"], "partitionKeys": ["p"]}
TABLES: dict[str, dict[str, Any]] = {
    "unaware": {"partitionKeys": ["p"], "options": {}},
    "bucketed": {"options": {"bucket": "3", "bucket-key": "k"}},
    "fixed": {**KEYED, "options": {"bucket": "3"}},
    "one-key-mod": {"primaryKeys": ["k"], "options": {"bucket": "4", "bucket-function.type": "mod"}},
    "sum": {**KEYED, "options": {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
            "fields.s.aggregate-function": "last_value"}},
    "partial": {**KEYED, "options": {"bucket": "2", "merge-engine": "partial-update", "changelog-producer": "input"}},
    "dynamic": {**KEYED, "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}},
    "moving": {"primaryKeys": ["k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "postponed": {**KEYED, "options": {"bucket": "-2"}},
}  # fmt: skip


def rows_of(first: int) -> list[tuple[int, int, int, str]]:
    return [(k, k % 3, first * 1000 + k, f"{first}/{k}") for k in range(first * 50, first * 50 + 200)]


def expected(name: str, written: list[list[tuple[int, int, int, str]]]) -> list[dict[str, Any]]:
    """What the rules of the format make of the commits."""
    flat = [row for rows in written for row in rows]
    if name not in ("unaware", "bucketed"):
        found: dict[int, tuple[int, int, int, str]] = {}
        for k, p, v, s in flat:
            found[k] = (k, p, v + (found[k][2] if name == "sum" and k in found else 0), s)
        flat = list(found.values())
    return [dict(zip("kpvs", row, strict=True)) for row in flat]


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})


@pytest.mark.parametrize("name", TABLES)
def test_what_java_reads(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, name: str
) -> None:
    table = catalog.create_table("d.t", {"columns": COLUMNS, **TABLES[name]})
    written = [rows_of(number) for number in range(2)]
    for rows in written:
        frame = session.createDataFrame(rows, SCHEMA).repartition(3)
        result = lakecore_spark.write(frame, table, parallelism=3)
        assert len(result.snapshot_ids) == 1
    assert oracle.read(catalog.warehouse, "d.t") == canonical(expected(name, written))
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()
    written.append(rows_of(2))
    more = [dict(zip("kpvs", row, strict=True)) for row in written[-1]]
    if name not in (
        "postponed",
        "moving",
    ):  # rows wait for a compaction, or need an assigner of Flink or Spark
        oracle.write(catalog.warehouse, "d.t", more)
        reader = session.read.format("lakecore").option("warehouse", catalog.warehouse)
        found = [json.dumps(row.asDict()) for row in reader.load("d.t").collect()]
        assert canonical(found) == canonical(expected(name, written))


def save(frame: DataFrame, table: lakecore.Table, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("lakecore").mode(mode).option("warehouse", str(Path(table.path).parents[1]))
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.save("d.t")


def values(table: lakecore.Table) -> list[int]:
    return sorted(table.scan(columns=["v"]).to_arrow()["v"].to_pylist())


def files_of(table: lakecore.Table) -> list[Path]:
    return sorted(Path(table.path).glob("**/bucket-*/*"))


def test_save_appends_and_overwrites(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    table = catalog.create_table("d.t", {"columns": ["v BIGINT", "p STRING"], "partitionKeys": ["p"]})
    numbers = session.range(0, 20, 1, 4).selectExpr("id AS v", "CASE WHEN id < 10 THEN 'a' ELSE 'b' END AS p")
    save(numbers, table)
    assert values(table) == list(range(20))
    assert table.latest_snapshot().id == 1  # type: ignore[union-attr]
    save(numbers.where("p = 'b'").selectExpr("v + 100 AS v", "p"), table, "overwrite")
    assert values(table) == [*range(10), *range(110, 120)]
    save(numbers.where("v < 0"), table, "overwrite", partitions="p=a")
    assert values(table) == list(range(110, 120))
    save(numbers.where("v = 3"), table, "overwrite", dynamic_partition_overwrite="false")
    assert values(table) == [3]
    assert oracle.read(catalog.warehouse, "d.t") == canonical([{"v": 3, "p": "a"}])


def test_every_type_goes_around(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    columns = [
        "a BOOLEAN", "b TINYINT", "c SMALLINT", "d INT", "e BIGINT", "f FLOAT", "g DOUBLE", "h DECIMAL(20, 3)",
        "i CHAR(3)", "j STRING", "k BYTES", "l DATE", "m TIMESTAMP(3)", "n TIMESTAMP(6)", "o TIMESTAMP_LTZ(6)",
        "q ARRAY<INT>", "r MAP<STRING, INT>", "s ROW<x INT, y STRING>", "u TIME(3)",
    ]  # fmt: skip
    for name in ("t", "copy"):
        catalog.create_table(f"d.{name}", {"columns": columns})
    select = (
        "true a, 1Y b, 2S c, 3 d, 4L e, 5.5F f, 6.25D g, 7.125BD h, 'abc' i, 'text' j, X'00FF' k, DATE'2024-02-29' l, "
        "TIMESTAMP_NTZ'2024-01-01 01:02:03.004' m, TIMESTAMP_NTZ'2024-01-01 01:02:03.004005' n, "
        "TIMESTAMP'2024-01-01 01:02:03.004005' o, array(1, 2) q, map('a', 1) r, named_struct('x', 1, 'y', 'z') s, "
        "TIME'01:02:03.004' u"
    )
    session.conf.set("spark.sql.timeType.enabled", "true")  # Spark's SQL does not know TIME otherwise
    nulls = ", ".join(f"CAST(NULL AS {kind}) {name}" for name, kind in session.sql(f"SELECT {select}").dtypes)
    frame = session.sql(f"SELECT {select}").union(session.sql(f"SELECT {nulls}"))
    save(frame, catalog.load_table("d.t"))
    back = session.read.format("lakecore").option("warehouse", catalog.warehouse).load("d.t")
    lakecore_spark.write(back, catalog.load_table("d.copy"))
    rows = oracle.read(catalog.warehouse, "d.t")
    assert oracle.read(catalog.warehouse, "d.copy") == rows
    filled = next(row for row in map(json.loads, rows) if row["a"])
    assert filled == {
        "a": True, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5.5, "g": 6.25, "h": "7.125", "i": "abc", "j": "text",
        "k": "0x00ff", "l": "2024-02-29", "m": "2024-01-01 01:02:03.004000000",
        "n": "2024-01-01 01:02:03.004005000",
        "o": "2024-01-01 01:02:03.004005000Z", "q": [1, 2], "r": [["a", 1]], "s": {"x": 1, "y": "z"},
        "u": "01:02:03.004",
    }  # fmt: skip


def test_a_plain_save_gives_no_wrong_rows(session: SparkSession, catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table(
        "d.t", {"columns": ["k BIGINT", "v BIGINT"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    frame = session.range(0, 20, 1, 4).selectExpr("id AS k", "id AS v")
    with pytest.raises(
        (PySparkException, Py4JJavaError), match=r"lakecore\.spark\.write, which shuffles rows"
    ):
        save(frame, table)
    assert files_of(table) == []
    assert table.latest_snapshot() is None
    save(frame.coalesce(1), table)
    assert values(table) == list(range(20))


def test_a_failed_task_leaves_nothing(session: SparkSession, catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["v BIGINT NOT NULL"]})
    late = udf(lambda number: number if number < 39 else time.sleep(3), "bigint")
    frame = session.range(0, 40, 1, 4).select(
        late("id").alias("v")
    )  # the other tasks have ended when it fails
    with pytest.raises((PySparkException, Py4JJavaError), match="column v is NOT NULL: row 9 has no value"):
        save(frame, table)
    assert files_of(table) == []
    assert table.latest_snapshot() is None


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("d.gone", {}, "table 'd.gone' does not exist"),
        ("d.t", {"write-only": "true"}, "option write-only: the format lakecore does not know it"),
        ("d.t", {"partitions": "z=1"}, "set overwrite"),
    ],
)
def test_refusals(
    session: SparkSession,
    catalog: lakecore.FilesystemCatalog,
    name: str,
    options: dict[str, str],
    message: str,
) -> None:
    catalog.create_table("d.t", {"columns": ["v BIGINT"]})
    writer = session.range(3).withColumnRenamed("id", "v").write.format("lakecore").mode("append")
    with pytest.raises(AnalysisException, match=re.escape(message)):
        writer.options(warehouse=catalog.warehouse, **options).save(name)


@pytest.mark.parametrize(
    ("keys", "buckets"),
    [
        (["k.1", "p q"], "2"),
        ([], "2"),
        (["k.1", "p q"], "-1"),
        (["k.1"], "-1"),  # keys move between partitions, in dynamic buckets only
        ([], "-1"),
    ],
)
def test_names_of_columns(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, keys: list[str], buckets: str
) -> None:
    """Dots, blanks, backticks, and names that differ in case only, through each of the shuffles."""
    names = ["k.1", "p q", "v`v", "Case", "case"]
    options = {"bucket": buckets, **({} if keys or buckets == "-1" else {"bucket-key": "k.1"})}
    definition = TableDefinition.from_arrow(
        pa.schema([(name, pa.int32()) for name in names]),
        primary_keys=keys,
        partition_keys=["p q"],
        options=options,
    )
    table = catalog.create_table("d.t", definition)
    rows = [(k, k % 2, 10 * k, 100 + k, 200 + k) for k in range(6)]
    frame = session.createDataFrame(rows, "a INT, b INT, c INT, d INT, e INT").toDF(*names)
    assert lakecore_spark.write(frame, table).snapshot_ids == (1,)
    expected = canonical([dict(zip(names, row, strict=True)) for row in rows])
    assert oracle.read(catalog.warehouse, "d.t") == expected
    back = session.read.format("lakecore").option("warehouse", catalog.warehouse).load("d.t")
    assert canonical([json.dumps(row.asDict()) for row in back.collect()]) == expected
    part = lakecore_spark.partitions_in(table.scan(), frame.select("`p q`").where("`p q` = 1"))
    assert part.to_spark(session).count() == 3


def test_columns_of_a_frame_without_rows(session: SparkSession, catalog: lakecore.FilesystemCatalog) -> None:
    """No task would look at them, and an overwrite would replace all rows with none."""
    table = catalog.create_table("d.t", {"columns": ["v BIGINT"]})
    lakecore_spark.write(session.range(3).withColumnRenamed("id", "v"), table)
    empty = session.createDataFrame([], "z INT, q STRING")
    for mode in ("append", "overwrite"):
        with pytest.raises(
            AnalysisException, match="column 'z' is not in the table; the table has the columns v"
        ):
            save(empty, table, mode)
    with pytest.raises(InvalidInputError, match="column 'z' is not in the table"):
        lakecore_spark.write(empty, table, overwrite=True)
    assert values(table) == [0, 1, 2]


def test_a_commit_is_made_once(session: SparkSession, catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["v BIGINT"]})
    named = lakecore.Commit(user="nightly", identifier=7)
    frame = session.range(5).withColumnRenamed("id", "v")
    assert lakecore_spark.write(frame, table, commit=named).snapshot_ids == (1,)
    files = files_of(table)
    assert lakecore_spark.write(frame, table, commit=named).duplicate
    assert (values(table), files_of(table)) == (list(range(5)), files)
    lakecore_spark.write(frame.where("v > 3"), table, overwrite=True)
    assert values(table) == [4]
