"""Tables are followed by streaming queries; Java Paimon tells the same changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

KEYED = {
    "columns": ["k INT", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "2", "changelog-producer": "input"},
}


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})


def put(table: Table, *commits: list[dict[str, Any]]) -> None:
    for rows in commits:
        table.write(pa.Table.from_pylist(rows))


def follow(session: SparkSession, table: Table, kind: str = "", **options: str) -> DataFrame:
    reader = session.readStream.format("lakecore").option("warehouse", str(Path(table.path).parents[1]))
    for key, value in options.items():
        reader = reader.option(key.replace("__", ".").replace("_", "-"), value)
    return reader.load(table.name + kind)


def batches(frame: DataFrame, checkpoint: Path) -> list[list[dict[str, Any]]]:
    """The rows of each micro-batch until there is nothing new, without empty ones."""
    found: list[list[dict[str, Any]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.append([row.asDict() for row in batch.collect()])

    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(keep).start().awaitTermination()
    return [rows for rows in found if rows]


def test_the_state_then_what_java_tells(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", KEYED)
    frame = follow(session, table, kinds="true", read__stream__maxSnapshotsPerTrigger="1")
    assert batches(frame, tmp_path / "c") == []  # waits: the table has no snapshot
    put(table, [{"k": k, "v": "a"} for k in range(4)])
    (first,) = batches(frame, tmp_path / "c")
    assert canonical(first) == canonical([{"k": k, "v": "a", "_kind": "+I"} for k in range(4)])
    oracle.write(
        catalog.warehouse,
        "d.t",
        [{"k": 1, "v": "a", "_kind": "-U"}, {"k": 1, "v": "b", "_kind": "+U"}],
    )
    put(table, [{"k": 2, "v": "a", "_kind": "-D"}], [{"k": 9, "v": "z"}])
    told = oracle.call("stream", catalog.warehouse, "d.t", "--from-snapshot", 2)
    found = batches(frame, tmp_path / "c")
    assert [canonical(rows) for rows in found] == [canonical(plan["rows"]) for plan in told]
    assert [row["_kind"] for row in found[0]] == ["-U", "+U"]
    assert batches(frame, tmp_path / "c") == []


def test_a_copy_of_a_table_follows_it(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    source, copy = catalog.create_table("d.t", KEYED), catalog.create_table("d.copy", KEYED)
    for number in range(3):
        put(source, [{"k": k, "v": f"{number}"} for k in range(number, number + 5)])
        put(source, [{"k": number, "v": f"{number}", "_kind": "-D"}])
        frame = follow(
            session, source, kinds="true", consumer_id="copy", **{"source.split.target-size": "1 b"}
        )
        lakecore_spark.write_stream(
            frame, copy, str(tmp_path / "c"), parallelism=2, availableNow=True
        ).awaitTermination()
        assert oracle.read(catalog.warehouse, "d.copy") == oracle.read(catalog.warehouse, "d.t")
    assert findings(oracle.fsck(catalog.warehouse, "d.copy")) == set()
    position = source._stores.consumers.load("copy").next_snapshot
    assert position in (
        5,
        6,
        7,
    )  # Spark tells the source of a commit with the next batch, or not before it ends


def test_a_batch_that_spark_forgot_is_read_again(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", {"columns": ["v INT", "p STRING"]})
    put(table, [{"v": 1, "p": "a"}])
    checkpoint = tmp_path / "c"
    frame = follow(session, table, columns="v", where="v < 10")
    assert batches(frame, checkpoint) == [[{"v": 1}]]
    put(table, [{"v": 2, "p": "a"}, {"v": 20, "p": "a"}])
    (checkpoint / "commits/0").unlink()
    (checkpoint / "commits/.0.crc").unlink(missing_ok=True)
    assert batches(frame, checkpoint) == [[{"v": 1}], [{"v": 2}]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, [1, 2]),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [0, 1, 2]),
        ({"scan.mode": "latest"}, []),
        ({"scan.bounded.watermark": "0"}, [0, 1, 2]),
    ],
)
def test_starts(
    session: SparkSession,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    options: dict[str, str],
    expected: list[int],
) -> None:
    table = catalog.create_table("d.t", {"columns": ["v INT"]})
    for number in range(3):
        put(table, [{"v": number}])
    frame = follow(session, table, **options)
    found = [row["v"] for rows in batches(frame, tmp_path / "c") for row in rows]
    assert sorted(found) == expected
    put(table, [{"v": 7}])
    more = [row["v"] for rows in batches(frame, tmp_path / "c") for row in rows]
    assert more == [7]


def test_limits_of_a_micro_batch(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", {"columns": ["v INT"]})
    for number in range(4):
        put(table, [{"v": number}])
    cut = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    for limits, count in (
        ({"read.stream.maxSplitsPerTrigger": "1"}, 4),
        ({"read.stream.maxFilesPerTrigger": "3"}, 2),
        ({"read.stream.maxRowsPerTrigger": "2"}, 2),
        ({"read.stream.maxBytesPerTrigger": "1 b"}, 4),
        ({}, 1),
    ):
        found = batches(follow(session, table, **cut, **limits), tmp_path / f"c{limits}")
        assert len(found) == count
        assert sorted(row["v"] for rows in found for row in rows) == [0, 1, 2, 3]


def test_what_happens_to_the_table_under_a_query(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", KEYED)
    put(table, [{"k": 1, "v": "a"}])
    frame = follow(session, table)
    batches(frame, tmp_path / "c")
    put(table, [{"k": 1, "v": "a", "_kind": "-D"}])
    with pytest.raises(StreamingQueryException, match=r"has a row of kind -D.*set the option kinds=true"):
        batches(frame, tmp_path / "c")
    kinds = follow(session, table, kinds="true")
    batches(kinds, tmp_path / "k")
    for number in (2, 3):
        put(table, [{"k": number, "v": "a"}])
    store = table._stores
    for number in (1, 2, 3):
        store.file_io.delete(store.paths.snapshot(number))
    with pytest.raises(StreamingQueryException, match=r"has expired; snapshots 4 to 4 exist"):
        batches(kinds, tmp_path / "k")
    catalog.drop_table("d.t")
    with pytest.raises((AnalysisException, StreamingQueryException), match="does not exist"):
        batches(kinds, tmp_path / "k")


def test_the_first_commit_after_a_start_at_the_latest(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """The table was empty when the query began, and the query was not running when the first rows came."""
    table = catalog.create_table("d.t", KEYED)
    assert batches(follow(session, table, scan__mode="latest"), tmp_path / "c") in ([], [[]])
    put(table, [{"k": 1, "v": "a"}])
    found = batches(follow(session, table, scan__mode="latest"), tmp_path / "c")
    assert [row["k"] for rows in found for row in rows] == [1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("d.t", {"limit": "3"}, "option limit: a stream has no last row"),
        ("d.t", {"push-filters": "once"}, "Spark hands no conditions to streams"),
        ("d.t", {"read.stream.maxRowsPerTrigger": "0"}, "it must be at least 1"),
        ("d.t", {"consumer.mode": "sometimes"}, "consumer.mode"),
        ("d.t", {"read.stream.minRowsPerTrigger": "1"}, "belong together: give both, or none"),
        ("d.t", {"source.checkpoint-align.timeout": "1 s"}, "the format lakecore does not know it"),
        ("d.t$audit_log", {"update-before": "false"}, "its rows have no kind -U"),
        ("d.t$ro", {}, "has no stream of fully compacted rows"),
    ],
)
def test_refusals(
    session: SparkSession,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    name: str,
    options: dict[str, str],
    message: str,
) -> None:
    put(catalog.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    reader = session.readStream.format("lakecore").option("warehouse", catalog.warehouse)
    with pytest.raises((AnalysisException, StreamingQueryException), match=message):
        batches(reader.options(**options).load(name), tmp_path / "c")


def test_options_of_streams_are_refused_in_batch(
    session: SparkSession, catalog: lakecore.FilesystemCatalog
) -> None:
    catalog.create_table("d.t", KEYED)
    for key, value in (("kinds", "true"), ("consumer-id", "me"), ("read.stream.maxRowsPerTrigger", "1")):
        reader = session.read.format("lakecore").option("warehouse", catalog.warehouse)
        frame = reader.option(key, value).load("d.t")
        with pytest.raises(AnalysisException, match=f"option {key.lower()}: it is for spark.readStream"):
            frame.collect()


def test_the_pipeline_of_the_guide(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    columns = ["id BIGINT", "city STRING", "amount BIGINT"]
    keyed = {"columns": columns, "primaryKeys": ["id"], "options": {"bucket": "2"}}
    orders = catalog.create_table("shop.orders", keyed)
    catalog.create_table("shop.orders_copy", keyed)
    catalog.create_table("shop.large_orders", {"columns": ["id BIGINT", "amount BIGINT"]})
    orders.write(pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Rome"], "amount": [90, 150, 200]}))
    names: dict[str, object] = {"WAREHOUSE": catalog.warehouse, "CHECKPOINT": str(tmp_path / "c")}
    names |= {"lakecore": lakecore, "lakecore_spark": lakecore_spark, "spark": session}
    text = (Path(__file__).parents[2] / "docs/spark.md").read_text()
    (code,) = (block for block in text.split("```python\n") if "write_stream" in block.partition("```")[0])
    program = compile(code.partition("```")[0], "docs/spark.md", "exec")
    for _ in range(2):
        exec(program, names)
        orders.write(pa.Table.from_pylist([{"id": 2, "_kind": "-D"}, {"id": 4, "city": "Bern", "amount": 5}]))
    exec(program, names)
    assert oracle.read(catalog.warehouse, "shop.orders_copy") == oracle.read(catalog.warehouse, "shop.orders")


def test_logs_are_followed(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """A query follows the log of a table, and goes on with its checkpoint, as one of the table does."""
    table = catalog.create_table("d.t", KEYED)
    put(table, [{"k": 1, "v": "a"}])
    options = {"consumer_id": "audit", "columns": "rowkind,v"}
    log = follow(session, table, "$audit_log", **options)
    assert batches(log, tmp_path / "c") == [[{"rowkind": "+I", "v": "a"}]]
    put(table, [{"k": 1, "v": "a", "_kind": "-U"}, {"k": 1, "v": "b", "_kind": "+U"}])
    put(table, [{"k": 1, "v": "b", "_kind": "-D"}])
    (rows,) = batches(log, tmp_path / "c")
    assert [tuple(row.values()) for row in rows] == [("-U", "a"), ("+U", "b"), ("-D", "b")]
    assert table._stores.consumers.load("audit").next_snapshot >= 2
    pairs = follow(session, table, "$binlog", scan__mode="from-snapshot", scan__snapshot_id="2")
    (found,) = batches(pairs, tmp_path / "b")
    assert [(row["rowkind"], row["v"]) for row in found] == [("+U", ["a", "b"]), ("-D", ["b"])]
    kinds = follow(
        session, table, kinds="true", update_before="false", scan__mode="from-snapshot", scan__snapshot_id="2"
    )
    assert [row["_kind"] for row in batches(kinds, tmp_path / "k")[0]] == ["+U", "-D"]


def test_a_snapshot_in_many_batches(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", {**KEYED, "options": {**KEYED["options"], "bucket": "4"}})
    put(table, [{"k": 0, "v": "first"}], [{"k": k, "v": "a"} for k in range(60)])
    start = {"scan__mode": "from-snapshot", "scan__snapshot_id": "2", "kinds": "true"}
    found = batches(follow(session, table, read__stream__maxFilesPerTrigger="1", **start), tmp_path / "c")
    assert [len(found), sum(map(len, found))] == [4, 60]
    aligned = {
        "source__checkpoint_align__enabled": "true",
        "scan__mode": "from-snapshot",
        "scan__snapshot_id": "1",
    }
    whole = batches(follow(session, table, **aligned), tmp_path / "aligned")
    assert [len(rows) for rows in whole] == [1, 60]
    with pytest.raises(AnalysisException, match="exclude each other"):
        follow(session, table, read__stream__maxRowsPerTrigger="5", **aligned)


def test_metrics_of_the_progress(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.metrics", KEYED)
    put(table, *[[{"k": k, "v": "a"}] for k in range(4)])
    frame = follow(session, table, scan__mode="latest-full")
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).foreachBatch(lambda batch, _: batch.count()).start()
    query.awaitTermination()
    (metrics,) = lakecore_spark.stream_metrics(query.recentProgress[0])
    assert metrics["rows"] == 4
    assert metrics["lastScannedSnapshotId"] == 4
    assert metrics["snapshotsBehind"] == 0
    assert metrics["currentFetchEventTimeLag"] > 0
    assert lakecore_spark.stream_metrics(None) == []
