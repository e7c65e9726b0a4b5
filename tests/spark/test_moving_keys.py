"""Keys that move between partitions are looked up by tasks of Spark: Java reads what one writer would have written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.errors import CommitConflictError
from lakecore.jobs import compact
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.row.binary_row import decode_row
from lakecore.row.json_rows import json_to_batch
from lakecore.spark.data_source.format import LakecoreSource
from lakecore.spark.data_source.shuffle import write_frame
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = ["k INT", "p STRING", "s INT", "v INT"]
SCHEMA = "k INT, p STRING, s INT, v INT, _kind STRING"
TASKS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "10",
    "dynamic-bucket.assigner-parallelism": "3",
    "cross-partition-upsert.bootstrap-parallelism": "2",
}
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {"changelog-producer": "input"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sums": SUMS,
    "first-row": {"merge-engine": "first-row"},
}
TWINS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sums": {**SUMS, "fields.p.aggregate-function": "first_value"},
    "first-row": {"merge-engine": "first-row"},
}
"""Options of a table of Java with the same rows, without partitions: there nothing has to move."""
Row = tuple[int, str, int, int, str]


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})


def table_of(catalog: lakecore.FilesystemCatalog, name: str, **options: str) -> lakecore.Table:
    shape = {"columns": COLUMNS, "primaryKeys": ["k"], "partitionKeys": ["p"]}
    return catalog.create_table(f"d.{name}", {**shape, "options": {**TASKS, **options}})


def frame_of(session: SparkSession, rows: list[Row], tasks: int = 2, seed: int = 0) -> DataFrame:
    mixed = random.Random(seed).sample(rows, len(rows))
    return session.createDataFrame(session.sparkContext.parallelize(mixed, tasks), SCHEMA)


def history(name: str, commits: int) -> Iterator[list[Row]]:
    """Commits in which each key comes once; keys leave partitions and come back."""
    dice = random.Random(name)
    kinds = ["+I"] if name in ("first-row", "sums") else ["+I", "+U", "+I", "-D"]
    for commit in range(commits):
        keys = dice.sample(range(80), 50)
        yield [
            (k, dice.choice("abc"), commit, commit * 100 + i, dice.choice(kinds)) for i, k in enumerate(keys)
        ]


def places(table: lakecore.Table) -> dict[int, tuple[str, int]]:
    """The partition and bucket of each key."""
    rows = SnapshotRows(table._scanner, table._read_context(), table.latest_snapshot(), with_level_0=True)
    found: dict[int, tuple[str, int]] = {}
    for split in rows.plan(None):
        (partition,) = decode_row(split.partition, table.schema.partition_type)
        for batch in rows.read(split, ("k",), None, kinds=False):
            for k in batch.column("k").to_pylist():
                assert k not in found
                found[k] = (str(partition), split.bucket)
    return found


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [dict(zip(("k", "p", "s", "v", "_kind"), row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", ENGINES)
def test_java_reads_what_one_writer_would_have_written(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, name: str
) -> None:
    table, twin = table_of(catalog, "t", **ENGINES[name]), table_of(catalog, "one", **ENGINES[name])
    in_java = {"columns": COLUMNS, "primaryKeys": ["k"], "options": {"bucket": "1", **TWINS.get(name, {})}}
    oracle.create(catalog.warehouse, "d.twin", in_java)
    for number, rows in enumerate(history(name, 3)):
        lakecore_spark.write(frame_of(session, rows, seed=number), table, parallelism=2)
        twin.write(frame_of(session, rows).toPandas())
        oracle.write(catalog.warehouse, "d.twin", as_json(rows))
    if name == "first-row":  # its rows are read once they are compacted
        for one in ("t", "one"):
            job = compact.Job(
                table=f"d.{one}", strategy=compact.Strategy.FULL, commit_user="t", commit_identifier=1
            )
            assert compact.run(job, catalog).error is None
        oracle.compact(catalog.warehouse, "d.twin", full=True)
    wanted = oracle.read(catalog.warehouse, "d.one")
    assert len(wanted) > 30
    assert oracle.read(catalog.warehouse, "d.t") == wanted
    if name in TWINS:
        assert oracle.read(catalog.warehouse, "d.twin") == wanted
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()
    buckets = list(places(table).values())
    assert max(buckets.count(place) for place in set(buckets)) <= 10


def test_the_order_of_rows_decides_nothing(
    session: SparkSession, catalog: lakecore.FilesystemCatalog
) -> None:
    """A task that runs again gets its rows in another order. Some keys come twice, with two partitions."""
    outcomes = []
    for seed in (1, 2):
        table = table_of(catalog, f"t{seed}")
        for rows in history("order", 2):
            more = [(k, "abc"[k % 3], s, v + 1, "+I") for k, _, s, v, _ in rows[:20]]
            lakecore_spark.write(frame_of(session, rows + more, seed + 1, seed), table, parallelism=seed)
        outcomes.append((places(table), table.scan().to_arrow().sort_by("k")))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) > 30


def test_a_key_that_comes_with_several_partitions_is_in_one(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    table = table_of(catalog, "t", **ENGINES["deduplicate"])
    lakecore_spark.write(frame_of(session, [(k, "abc"[k % 3], 0, 0, "+I") for k in range(40)]), table)
    rows: list[Row] = [(k, "abca"[turn], turn, k, "+I") for turn in range(4) for k in range(40)]
    for seed in range(2):
        lakecore_spark.write(frame_of(session, rows, 3, seed), table, parallelism=3)
        found = [
            json.loads(row) if isinstance(row, str) else row for row in oracle.read(catalog.warehouse, "d.t")
        ]
        assert sorted(row["k"] for row in found) == list(range(40))
        assert all((row["k"], row["p"], row["s"], row["v"], "+I") in rows for row in found)
        assert len(places(table)) == 40
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()


def test_a_commit_between_plan_and_commit_is_refused(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = table_of(catalog, "t")
    lakecore_spark.write(frame_of(session, [(1, "a", 0, 0, "+I")]), table)
    begun = table.new_batch_write()
    table.write(json_to_batch(['{"k": 1, "p": "b", "s": 1, "v": 1}'], table.schema.row_type))
    files = set(tmp_path.rglob("data-*"))
    with pytest.raises(CommitConflictError):
        write_frame(frame_of(session, [(1, "c", 2, 2, "+I"), (2, "c", 2, 2, "+I")]), table, begun, 2)
    assert set(tmp_path.rglob("data-*")) == files
    assert {row["p"] for row in table.scan().to_arrow().to_pylist()} == {"b"}


def test_forgotten_keys_stay_where_they_are(
    session: SparkSession, catalog: lakecore.FilesystemCatalog
) -> None:
    table = table_of(catalog, "t", **{"cross-partition-upsert.index-ttl": "1 ms"})
    lakecore_spark.write(frame_of(session, [(1, "a", 0, 0, "+I")]), table)
    lakecore_spark.write(frame_of(session, [(1, "b", 1, 1, "+I")]), table)
    assert sorted(row["p"] for row in table.scan().to_arrow().to_pylist()) == ["a", "b"]


def test_an_overwrite_and_a_stream(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = table_of(catalog, "t", **{"dynamic-partition-overwrite": "false"})
    lakecore_spark.write(frame_of(session, [(k, "a", 0, 0, "+I") for k in range(40)]), table)
    rows = [(k, "b", 1, 1, "+I") for k in range(30)]
    lakecore_spark.write(frame_of(session, rows), table, overwrite=True)
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(rows))
    source = catalog.create_table("d.source", {"columns": COLUMNS, "options": {"bucket": "-1"}})
    moved = [(k, "c", 2, 2, "+I") for k in range(20, 50)]
    source.write(json_to_batch(map(json.dumps, as_json(moved)), source.schema.row_type))
    reader = session.readStream.format("lakecore").option("warehouse", str(tmp_path)).load("d.source")
    query = lakecore_spark.write_stream(reader, table, str(tmp_path / "checkpoint"), availableNow=True)
    query.awaitTermination()
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(rows[:20] + moved))
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()


@pytest.mark.parametrize(
    ("keys", "bucket", "rows"),
    [
        (["k"], "-1", ["all rows"]),
        (["k", "p"], "-1", ["all rows of a partition"]),
        (["k", "p"], "2", ["all rows of a bucket"]),
        ([], "-1", []),
    ],
)
def test_the_plain_format_says_when_a_shuffle_is_needed(
    catalog: lakecore.FilesystemCatalog,
    caplog: pytest.LogCaptureFixture,
    keys: list[str],
    bucket: str,
    rows: list[str],
) -> None:
    shape = {"columns": COLUMNS, "primaryKeys": keys, "partitionKeys": ["p"]}
    catalog.create_table("d.t", {**shape, "options": {"bucket": bucket}})
    caplog.set_level("WARNING", "lakecore.spark.data_source.sink_request")
    source = LakecoreSource({"warehouse": str(catalog.warehouse), "path": "d.t"})
    columns = source.schema()
    assert isinstance(columns, StructType)
    source.writer(columns, overwrite=False)
    source.streamWriter(columns, overwrite=False)
    messages = [record.getMessage() for record in caplog.records if record.name.endswith(".sink_request")]
    assert len(messages) == 2 * len(rows)
    for number, function in enumerate(("write", "write_stream") if rows else ()):
        assert f"unless one task has {rows[0]}; use lakecore.spark.{function}, which" in messages[number]


def test_the_plain_format_refuses_two_tasks(
    session: SparkSession, catalog: lakecore.FilesystemCatalog
) -> None:
    table = table_of(catalog, "t")
    writer = frame_of(session, [(1, "a", 0, 0, "+I"), (2, "a", 0, 0, "+I")]).write.format("lakecore")
    with pytest.raises(Exception, match=r"use lakecore\.spark\.write, which shuffles rows"):
        writer.mode("append").option("warehouse", str(catalog.warehouse)).save("d.t")
    assert table.latest_snapshot() is None


def test_keys_of_other_types_move(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    """Java reads the last row of each key, in whatever partition it is."""
    keys = {
        "day": "DATE", "price": "DECIMAL(12, 2)", "wide": "DECIMAL(30, 4)", "at": "TIMESTAMP(6)",
        "zoned": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "raw": "BINARY(3)", "bytes": "BYTES",
    }  # fmt: skip
    shape = {
        "columns": [*(f"{name} {kind}" for name, kind in keys.items()), "p STRING", "v INT"],
        "primaryKeys": list(keys),
        "partitionKeys": ["p"],
    }
    table = catalog.create_table("d.types", {**shape, "options": TASKS})
    spark_types = ("DATE", "DECIMAL(12,2)", "DECIMAL(30,4)", "TIMESTAMP_NTZ", "TIMESTAMP", "BINARY", "BINARY")
    fields = [f"{name} {kind}" for name, kind in zip(keys, spark_types, strict=True)]
    dice = random.Random(5)
    last: dict[tuple[Any, ...], tuple[str, int]] = {}
    for commit in range(3):
        rows = {
            _typed_key(number): (dice.choice("abc"), 100 * commit + number)
            for number in dice.sample(range(60), 40)
        }
        last |= rows
        frame = session.createDataFrame(
            [(*key, *rest) for key, rest in rows.items()], ", ".join([*fields, "p STRING", "v INT"])
        )
        lakecore_spark.write(frame.repartition(3), table, parallelism=2)
    read = [json.loads(line) for line in oracle.read(catalog.warehouse, "d.types")]
    assert sorted((row["p"], row["v"]) for row in read) == sorted(last.values())
    assert len({tuple(row[name] for name in keys) for row in read}) == len(last) > 50
    assert findings(oracle.fsck(catalog.warehouse, "d.types")) == set()


def _typed_key(number: int) -> tuple[Any, ...]:
    """A key that differs from the others in one column, or in all."""
    at = datetime(1969, 12, 31, 23, 59, 59, 999_990 + number % 10, UTC)
    return (
        date(1969, 12, 20) + timedelta(days=number // 10),
        Decimal(number // 20 - 1) / 100,
        Decimal(number // 30 - 1) * 10**20,
        at.replace(tzinfo=None),
        datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number % 7),
        bytes([number % 3, 128, 255]),
        bytes(number % 2),
    )
