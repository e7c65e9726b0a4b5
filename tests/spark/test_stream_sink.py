"""Streaming queries become commits of tables, each micro-batch once; Java Paimon reads them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnsupportedError,
)
from lakecore.jobs import expire_snapshots
from lakecore.jobs.concurrent_services import ConcurrentServices
from lakecore.spark.executor import SparkExecutor
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})


def drop(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """One file of input; each is a micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:03}.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in the order of their times


def stream_of(session: SparkSession, folder: Path, schema: str = "k INT, v STRING") -> DataFrame:
    return session.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(folder))


def sink(frame: DataFrame, table: Table, tmp_path: Path, **options: str) -> None:
    """Everything that is there, by the plain format."""
    writer = frame.writeStream.format("lakecore").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.option("warehouse", str(Path(table.path).parents[1]))
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.trigger(availableNow=True).start("d.t").awaitTermination()


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def files_of(table: Table) -> list[Path]:
    return sorted(Path(table.path).glob("**/bucket-*/*"))


def uncommit(tmp_path: Path, number: int) -> None:
    """Make Spark forget that a micro-batch was committed, as a kill after the table's commit does."""
    (tmp_path / "checkpoint/commits" / f"{number}").unlink()
    (tmp_path / "checkpoint/commits" / f".{number}.crc").unlink(missing_ok=True)


def test_each_micro_batch_is_one_commit(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", {"columns": ["k INT", "v STRING"]})
    for number in range(3):
        drop(tmp_path / "in", number, [{"k": number, "v": f"{n}"} for n in range(2)])
    frame = stream_of(session, tmp_path / "in")
    sink(frame, table, tmp_path)
    expected = [(number, f"{n}") for number in range(3) for n in range(2)]
    assert rows_of(table) == expected
    snapshots = list(table.snapshots())
    assert [one.commit_identifier for one in reversed(snapshots)] == [0, 1, 2]
    query = json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
    assert {one.commit_user for one in snapshots} == {f"spark-{query}"}
    files = files_of(table)
    tagged = lakecore_spark.tag_checkpoint(session, table, str(tmp_path / "checkpoint"), "all", batch=1)
    assert (tagged.batch, tagged.snapshot) == (1, 2)
    uncommit(tmp_path, 2)  # killed after the commit
    drop(tmp_path / "in", 3, [{"k": 3, "v": "a"}])
    sink(frame, table, tmp_path)
    assert rows_of(table) == [*expected, (3, "a")]
    assert len(files_of(table)) == len(files) + 1
    assert oracle.read(catalog.warehouse, "d.t") == canonical(
        [{"k": k, "v": v} for k, v in [*expected, (3, "a")]]
    )
    assert oracle.read(catalog.warehouse, "d.t", tag="all") == canonical(
        [{"k": k, "v": v} for k, v in expected[:4]]
    )
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()


def test_event_times_make_watermarks(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """The plain format and the shuffled stream set the watermark of each commit, which bounds Java's stream."""
    table = catalog.create_table("d.t", {"columns": ["k INT", "ts TIMESTAMP(6)"]})
    for number, second in enumerate((10, 30)):
        drop(tmp_path / "in", number, [{"k": number, "ts": f"2026-01-01T00:00:{second}"}])
    frame = stream_of(session, tmp_path / "in", "k INT, ts TIMESTAMP_NTZ")
    query = lakecore_spark.write_stream(
        frame, table, str(tmp_path / "c"), watermark="ts - 5 s", availableNow=True
    )
    query.awaitTermination()
    writer = frame.where("k = 1").writeStream.format("lakecore").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "plain")).option("write.watermark", "ts")
    writer.option("warehouse", catalog.warehouse).start("d.t").awaitTermination()
    start = 1_767_225_600_000
    marks = [(one.watermark or 0) - start for one in reversed(list(table.snapshots()))]
    assert marks == [5_000, 25_000, 30_000]
    bound = ("--option", f"scan.bounded.watermark={start + 9_000}")
    plans = oracle.call("stream", catalog.warehouse, "d.t", "--from-snapshot", 1, *bound)
    assert [row["k"] for plan in plans for row in plan["rows"]] == [0]
    with pytest.raises(InvalidOptionError, match="'k' is no TIMESTAMP column"):
        lakecore_spark.write_stream(frame, table, str(tmp_path / "wrong"), watermark="k")


@pytest.mark.parametrize(
    "definition",
    [
        {"primaryKeys": ["k"], "options": {"bucket": "3"}},
        {"primaryKeys": ["k"], "options": {"bucket": "-1"}},
        {"primaryKeys": ["k"], "options": {"bucket": "2", "merge-engine": "partial-update"}},
        {"options": {"bucket": "2", "bucket-key": "k"}},
    ],
    ids=["fixed", "dynamic", "partial-update", "bucketed"],
)
def test_rows_are_shuffled_to_buckets(
    session: SparkSession,
    oracle: Oracle,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    definition: dict[str, Any],
) -> None:
    table = catalog.create_table("d.t", {"columns": ["k INT", "v STRING"], **definition})
    expected = []
    for number in range(3):
        batch = [{"k": 10 * number + n, "v": f"{number}"} for n in range(15)]
        drop(tmp_path / "in", number, batch)
        old = [one for one in expected if one["k"] not in {row["k"] for row in batch}]
        expected = [*(old if table.schema.primary_keys else expected), *batch]
    frame = stream_of(session, tmp_path / "in").repartition(3)
    for _ in range(2):
        services = ConcurrentServices(table)
        query = lakecore_spark.write_stream(
            frame, services, str(tmp_path / "checkpoint"), parallelism=2, availableNow=True
        )
        query.awaitTermination()
        services.close()  # as the query does, which nobody waits for
        with pytest.raises(InvalidInputError, match="concurrent services are closed"):
            services.check_open()
        uncommit(tmp_path, 2)
    assert oracle.read(catalog.warehouse, "d.t") == canonical(expected)
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()
    own = [one for one in table.snapshots() if one.commit_user.startswith("spark-")]
    assert [one.commit_identifier for one in own] == [2, 1, 0]


class Recorded(SparkExecutor):
    """An executor that remembers how many units it ran in each of its jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[int] = []

    def run(self, function: Any, tasks: Any) -> Any:
        units = list(tasks)
        self.units.append(len(units))
        return super().run(function, units)


@pytest.mark.parametrize(
    "definition",
    [
        {"partitionKeys": ["p"], "options": {"compaction.min.file-num": "3"}},
        {
            "primaryKeys": ["p", "k"],
            "partitionKeys": ["p"],
            "options": {"bucket": "1", "deletion-vectors.enabled": "true", "lookup-wait": "false"},
        },
    ],
    ids=["append", "vectors"],
)
def test_compactions_run_on_executors_beside_the_stream(
    session: SparkSession,
    oracle: Oracle,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    definition: dict[str, Any],
) -> None:
    table = catalog.create_table("d.t", {"columns": ["k INT", "p INT"], **definition})
    rows = []
    for number in range(4):
        batch = [{"k": (1 if table.schema.primary_keys else number) * n, "p": n % 2} for n in range(6)]
        rows += batch
        drop(tmp_path / "in", number, batch)
    executor = Recorded()
    services = ConcurrentServices(table, executor)
    frame = stream_of(session, tmp_path / "in", "k INT, p INT")
    query = lakecore_spark.write_stream(
        frame, services, str(tmp_path / "checkpoint"), parallelism=1, processingTime="100 milliseconds"
    )
    query.processAllAvailable()
    services.wait()  # the end of a query cancels a compaction, and what its tasks wrote stays
    query.stop()
    services.close()
    left = [{"k": n, "p": n % 2} for n in range(6)] if table.schema.primary_keys else rows
    assert oracle.read(catalog.warehouse, "d.t") == canonical(left)
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()
    figures = services.figures()
    assert figures.compactions > 0
    assert figures.failures == 0
    assert max(executor.units) == 2, "each partition is a unit of its own"
    assert "COMPACT" in {one.commit_kind.value for one in table.snapshots()}


def test_updates_of_an_aggregate(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    definition = {"columns": ["v STRING", "number BIGINT"], "primaryKeys": ["v"], "options": {"bucket": "1"}}
    table = catalog.create_table("d.t", definition)
    for number in range(2):
        drop(tmp_path / "in", number, [{"k": n, "v": "even" if n % 2 == 0 else "odd"} for n in range(3)])
    session.conf.set("spark.sql.shuffle.partitions", "2")
    counts = stream_of(session, tmp_path / "in").groupBy("v").count().withColumnRenamed("count", "number")
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(UnsupportedError, match="output mode complete: a stream does not overwrite"):
        lakecore_spark.write_stream(counts, table, checkpoint, output_mode="complete")
    lakecore_spark.write_stream(
        counts, table, checkpoint, output_mode="update", availableNow=True
    ).awaitTermination()
    assert rows_of(table) == [("even", 4), ("odd", 2)]
    plain = catalog.create_table("d.plain", {"columns": ["v STRING", "number BIGINT"]})
    with pytest.raises(UnsupportedError, match="it needs a primary key and merge-engine=deduplicate"):
        lakecore_spark.write_stream(counts, plain, checkpoint, output_mode="update")
    with pytest.raises(InvalidInputError, match="a stream needs a checkpoint location"):
        lakecore_spark.write_stream(counts, table, "")
    with pytest.raises(InvalidInputError, match=r"use lakecore\.spark\.write for it"):
        lakecore_spark.write_stream(session.range(3), table, checkpoint)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("complete", "output mode complete replaces all rows with each micro-batch"),
        ("update", "does not support Update mode"),
    ],
)
def test_modes_of_the_plain_format(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path, mode: str, message: str
) -> None:
    table = catalog.create_table("d.t", {"columns": ["v STRING", "count BIGINT"]})
    drop(tmp_path / "in", 0, [{"k": 1, "v": "a"}])
    session.conf.set("spark.sql.shuffle.partitions", "2")
    counts = stream_of(session, tmp_path / "in").groupBy("v").count()
    writer = counts.writeStream.format("lakecore").outputMode(mode).trigger(availableNow=True)
    writer = writer.options(warehouse=catalog.warehouse, checkpointLocation=str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=message) as caught:
        writer.start("d.t").awaitTermination()
    assert not isinstance(caught.value, AssertionError)
    assert table.latest_snapshot() is None
    assert files_of(table) == []


def test_a_failed_batch_leaves_nothing(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    definition = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "2"}}
    table = catalog.create_table("d.t", definition)
    drop(tmp_path / "in", 0, [{"k": 1, "v": "a"}])
    frame = stream_of(session, tmp_path / "in")
    sink(frame, table, tmp_path)
    files = files_of(table)
    drop(tmp_path / "in", 1, [{"k": 2, "v": "b"}, {"k": None, "v": "c"}])
    with pytest.raises(StreamingQueryException, match="column k"):
        sink(frame, table, tmp_path)
    assert (files_of(table), rows_of(table)) == (files, [(1, "a")])
    (tmp_path / "in/001.json").write_text('{"k": 2, "v": "b"}')  # the cause is mended
    sink(frame, table, tmp_path)
    assert rows_of(table) == [(1, "a"), (2, "b")]
    drop(tmp_path / "in", 2, [{"k": k, "v": "d"} for k in range(10)])
    with pytest.raises(StreamingQueryException, match=r"lakecore\.spark\.write"):
        sink(frame.repartition(2), table, tmp_path)
    assert rows_of(table) == [(1, "a"), (2, "b")]
    assert len(files_of(table)) == 2


def test_a_micro_batch_reads_only_the_manifests_of_changes(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """The manifest that Java wrote is read once: it is not there while the second micro-batch is written, and
    none of the processes of the query needs it.
    """
    options = {"bucket": "2", "write-only": "true"}
    definition = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": options}
    table = catalog.create_table("d.t", definition)
    oracle.write(catalog.warehouse, "d.t", [{"k": 1, "v": "java"}, {"k": 2, "v": "java"}])
    (known,) = [one for one in Path(table.path).glob("manifest/manifest-*") if "list" not in one.name]
    drop(tmp_path / "in", 0, [{"k": 2, "v": "a"}])
    frame = stream_of(session, tmp_path / "in")
    sink(frame, table, tmp_path)
    known.rename(known.with_suffix(".away"))
    drop(tmp_path / "in", 1, [{"k": 1, "v": "b"}])
    sink(frame, table, tmp_path)
    known.with_suffix(".away").rename(known)
    assert oracle.read(catalog.warehouse, "d.t") == canonical([{"k": 1, "v": "b"}, {"k": 2, "v": "a"}])
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()


def test_a_copied_checkpoint_adds_nothing_twice(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """Two queries with one checkpoint, one after the other: they are one query for the table."""
    table = catalog.create_table("d.t", {"columns": ["k INT", "v STRING"]})
    drop(tmp_path / "in", 0, [{"k": 1, "v": "a"}])
    frame = stream_of(session, tmp_path / "in")
    sink(frame, table, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "other/checkpoint")
    drop(tmp_path / "in", 1, [{"k": 2, "v": "b"}])
    sink(frame, table, tmp_path)
    sink(frame, table, tmp_path / "other")
    assert rows_of(table) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": "k=1"}, "option partitions: a stream does not overwrite"),
        ({"write-only": "true"}, "option write-only: the format lakecore does not know it"),
    ],
)
def test_refused_options(
    session: SparkSession,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    options: dict[str, str],
    message: str,
) -> None:
    table = catalog.create_table("d.t", {"columns": ["k INT", "v STRING"]})
    drop(tmp_path / "in", 0, [{"k": 1, "v": "a"}])
    with pytest.raises(StreamingQueryException, match=message):
        sink(stream_of(session, tmp_path / "in"), table, tmp_path, **options)
    assert table.latest_snapshot() is None


def test_a_tag_and_a_copied_checkpoint_continue_together(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """As Flink's savepoint with its tag: both are there after the snapshots of the query have expired."""
    definition = {"columns": ["k INT", "v STRING"], "options": {"bucket": "1", "bucket-key": "k"}}
    table = catalog.create_table("d.t", definition)
    own, copy = str(tmp_path / "query [1]"), str(tmp_path / "copy")
    drop(tmp_path / "in", 0, [{"k": 0, "v": "a"}])
    drop(tmp_path / "in", 1, [{"k": 1, "v": "a"}])
    frame = stream_of(session, tmp_path / "in")

    def run(checkpoint: str) -> None:
        lakecore_spark.write_stream(frame, table, checkpoint, availableNow=True).awaitTermination()

    with pytest.raises(InvalidInputError, match="no checkpoint of a streaming query"):
        lakecore_spark.tag_checkpoint(session, table, own)
    run(own)
    shutil.copytree(own, copy)
    drop(tmp_path / "in", 2, [{"k": 2, "v": "later"}])
    run(own)
    tagged = lakecore_spark.tag_checkpoint(session, table, copy)
    assert (tagged.tag, tagged.batch, tagged.created) == ("savepoint-1", 1, True)
    assert not lakecore_spark.tag_checkpoint(session, table, copy).created
    with pytest.raises(AlreadyExistsError, match="savepoint-1"):
        lakecore_spark.tag_checkpoint(session, table, own, "savepoint-1")
    with pytest.raises(InvalidInputError, match="micro-batch 2 is committed; choose one that it has: 0 to 1"):
        lakecore_spark.tag_checkpoint(session, table, copy, batch=2)
    job = expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1)
    expire_snapshots.run(job, catalog)
    with pytest.raises(NotFoundError, match="it has expired"):
        lakecore_spark.tag_checkpoint(session, table, own, "before", batch=0)
    first = [{"k": 0, "v": "a"}, {"k": 1, "v": "a"}]
    assert oracle.read(catalog.warehouse, "d.t", tag="savepoint-1") == canonical(first)
    oracle.call("rollback", catalog.warehouse, "d.t", "--tag", "savepoint-1")
    drop(tmp_path / "in", 3, [{"k": 3, "v": "new"}])
    run(copy)
    expected = [*first, {"k": 2, "v": "later"}, {"k": 3, "v": "new"}]
    assert oracle.read(catalog.warehouse, "d.t") == canonical(expected)
    complaints = findings(oracle.fsck(catalog.warehouse, "d.t"))
    assert {
        one for one in complaints if not one.startswith("orphan: ")
    } == set()  # Java's rollback leaves some
