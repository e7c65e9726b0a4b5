"""Tasks before the writers merge rows of a key, and assign dynamic buckets: Java reads the rows of a table that was
written without that, and goes on with it.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.row.hashing import hash_rows
from lakecore.spark.data_source.places.assignment import keys_of_tasks
from lakecore.spark.data_source.shuffle import Shuffle
from lakecore.spark.data_source.write_task import write_task
from tests.support.golden import canonical
from tests.support.lake import paths_of
from tests.support.lake import rows_of as rows_of_table
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

DEFINITION: dict[str, Any] = {
    "columns": [{"name": "k", "type": "BIGINT NOT NULL", "defaultValue": "7"}, "p INT", "v INT"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
}
Rows = dict[tuple[int, int], int]


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})


def table_of(catalog: lakecore.FilesystemCatalog, name: str, **options: str) -> lakecore.Table:
    raw = {f"dynamic-bucket.{key.replace('_', '-')}": value for key, value in options.items()}
    return catalog.create_table(f"d.{name}", {**DEFINITION, "options": {"bucket": "-1", **raw}})


def rows_of(keys: range, value: int) -> Rows:
    return {(k, k % 2): value + k for k in keys}


def frame_of(session: SparkSession, rows: Rows, tasks: int, seed: int = 0) -> DataFrame:
    data = [(k, p, v) for (k, p), v in rows.items()]
    random.Random(seed).shuffle(data)
    return session.createDataFrame(session.sparkContext.parallelize(data, tasks), "k BIGINT, p INT, v INT")


def as_json(rows: Rows) -> list[dict[str, int]]:
    return [{"k": k, "p": p, "v": v} for (k, p), v in rows.items()]


def index_of(table: lakecore.Table) -> dict[tuple[bytes, int], list[int]]:
    """The hashes of each bucket, by the hash files of the latest snapshot."""
    latest = table.latest_snapshot()
    assert latest is not None
    return {
        (file.partition, file.bucket): table._stores.indexes.read_hashes(file).tolist()
        for file in table._scanner.index_files(latest)
    }


def keys_in_buckets(table: lakecore.Table) -> Iterator[tuple[tuple[bytes, int], list[int]]]:
    """The hashes of the keys of each bucket, by its data files."""
    context = table._read_context()
    from lakecore.read.source.snapshot_rows import SnapshotRows

    rows = SnapshotRows(table._scanner, context, table.latest_snapshot(), with_level_0=True)
    for split in rows.plan(None):
        for batch in rows.read(split, ("k",), None, kinds=False):
            key = table.schema.key_type
            yield (split.partition, split.bucket), hash_rows([batch.column("k")], key).tolist()


def check(table: lakecore.Table) -> dict[tuple[bytes, int], list[int]]:
    """Check that no key is in two buckets of a partition; returns the index."""
    index = index_of(table)
    for partition in {partition for partition, _ in index}:
        hashes = [one for place, part in index.items() if place[0] == partition for one in part]
        assert len(hashes) == len(set(hashes))
    for place, hashes in keys_in_buckets(table):
        assert set(hashes) <= set(index[place])
    return index


def test_assigners_java_and_other_assigners_take_turns(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    table = table_of(catalog, "t", assigner_parallelism="3", initial_buckets="2", target_row_num="20")
    state = rows_of(range(200), 0)
    result = lakecore_spark.write(frame_of(session, state, 4), table, parallelism=2)
    assert len(result.snapshot_ids) == 1
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(state))
    index = check(table)
    assert {bucket for _, bucket in index} == set(range(6))
    assert max(map(len, index.values())) == 20

    more = rows_of(range(150, 260), 1000)
    oracle.write(catalog.warehouse, "d.t", as_json(more))
    state |= more
    check(table)
    last = rows_of(range(230, 300), 2000) | rows_of(range(20), 2000)
    other = table.with_options({"dynamic-bucket.assigner-parallelism": "5"})
    lakecore_spark.write(frame_of(session, last, 2), other)
    state |= last
    check(table)
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(state))
    assert findings(oracle.fsck(catalog.warehouse, "d.t")) == set()
    replaced = rows_of(range(0, 40, 2), 3000)
    lakecore_spark.write(frame_of(session, replaced, 2), table, overwrite=True)
    state = {key: value for key, value in state.items() if key[1] == 1} | replaced
    check(table)
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(state))
    oracle.write(catalog.warehouse, "d.t", as_json(rows_of(range(310), 4000)))
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json(rows_of(range(310), 4000)))
    check(table)


def test_the_order_of_rows_decides_nothing(
    session: SparkSession, catalog: lakecore.FilesystemCatalog
) -> None:
    """A task that runs again gets its rows in another order, and gives each key the same bucket."""
    found = []
    for seed in (1, 2):
        table = table_of(catalog, f"t{seed}", assigner_parallelism="2", target_row_num="7", max_buckets="4")
        frame = frame_of(session, rows_of(range(100), 0), seed + 1, seed)
        lakecore_spark.write(frame, table, parallelism=seed)
        found.append({place: sorted(hashes) for place, hashes in check(table).items()})
    assert found[0] == found[1]
    assert len(found[0]) == 8


def test_a_default_of_a_key_is_hashed(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog
) -> None:
    table = table_of(catalog, "t", assigner_parallelism="2", target_row_num="1")
    lakecore_spark.write(session.sql("SELECT 7L AS k, 0 AS p, 1 AS v UNION ALL SELECT 8L, 0, 1"), table)
    lakecore_spark.write(session.sql("SELECT CAST(NULL AS BIGINT) AS k, 0 AS p, 2 AS v"), table)
    assert oracle.read(catalog.warehouse, "d.t") == canonical(as_json({(7, 0): 2, (8, 0): 1}))
    check(table)


def test_each_task_has_a_number_of_its_own(session: SparkSession) -> None:
    """Spark's own hash sends the number of a task to the task."""
    keys = keys_of_tasks(7)
    frame = session.createDataFrame([(int(key),) for key in keys], "key BIGINT")
    sent = [row[0] for row in frame.selectExpr("pmod(hash(key), 7)").collect()]
    assert sent == np.arange(7).tolist()


COLUMNS = ["k INT", "p INT", "s INT", "v BIGINT", "t STRING", "at TIMESTAMP(9)"]
SCHEMA = "k INT, p INT, s INT, v INT, t STRING, at TIMESTAMP_NTZ, _kind STRING"
MERGED = {"local-merge-buffer-size": "1 mb"}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {"bucket": "3", "sequence.field": "s"},
    "sequence-groups": {"bucket": "-1", "dynamic-bucket.target-row-num": "8", "merge-engine": "partial-update",
                        "fields.s.sequence-group": "v,t", "fields.v.aggregate-function": "sum"},
    "sums": {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
             "fields.t.ignore-retract": "true", "fields.at.ignore-retract": "true", "fields.s.aggregate-function": "sum"},
}  # fmt: skip
KINDS = {"deduplicate": ["+I", "+U", "-D"], "sequence-groups": ["+I", "+U"], "sums": ["+I", "-U", "+U"]}


def updates(name: str) -> list[tuple[Any, ...]]:
    """400 updates of 20 keys: those of a key are in one half, so that Spark gives their order to one task."""
    dice = random.Random(name)
    rows: list[tuple[Any, ...]] = []
    for i in range(400):
        k = dice.randrange(10) + (10 if i >= 200 else 0)
        text, kind = None if dice.random() < 0.3 else str(i), dice.choice(KINDS[name])
        at = datetime.fromisoformat(f"2024-01-01T00:00:00.{i:06}")
        rows.append((k, k % 2, dice.randrange(50), dice.randrange(9), text, at, kind))
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_merged_rows_make_the_same_table(
    session: SparkSession,
    oracle: Oracle,
    catalog: lakecore.FilesystemCatalog,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = session.createDataFrame(session.sparkContext.parallelize(updates(name), 2), SCHEMA)
    caplog.set_level(logging.INFO, "lakecore.spark")
    for table, options in (("plain", {}), ("merged", MERGED)):
        definition = {"columns": COLUMNS, "primaryKeys": ["k", "p"], "partitionKeys": ["p"]}
        made = catalog.create_table(f"d.{table}", {**definition, "options": {**TABLES[name], **options}})
        lakecore_spark.write(frame, made, parallelism=2)
        lakecore_spark.write(frame.where("k < 15"), made, parallelism=1)
    rows = oracle.read(catalog.warehouse, "d.plain")
    assert len(rows) >= 10
    assert oracle.read(catalog.warehouse, "d.merged") == rows
    assert findings(oracle.fsck(catalog.warehouse, "d.merged")) == set()
    counts = [tuple(map(int, one)) for one in re.findall(r"(\d+) rows were merged into (\d+)", caplog.text)]
    assert [before for before, _ in counts] == [400, len([row for row in updates(name) if row[0] < 15])]
    assert [after for _, after in counts] == [20, 15]


def test_files_of_ended_tasks_go_when_another_fails(
    session: SparkSession, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    """One task fails after another one has ended; an earlier snapshot keeps its file."""
    table = catalog.create_table("d.t", {"columns": ["v INT"]})
    table.write(pa.table({"v": pa.array([7], pa.int32())}))
    kept = paths_of(table)
    batch_write, mark = table.new_batch_write(), tmp_path / "ended"

    def write(batches: Iterator[pa.RecordBatch]) -> bytes:
        rows = list(batches)
        if rows[0]["v"].to_pylist() == [-1]:
            while not mark.exists():
                time.sleep(0.05)
            raise ValueError("no such row")
        return write_task(batch_write, iter(rows))

    def watch() -> None:
        """Let the second task fail once Spark knows that the first one has ended."""
        tracker = session.sparkContext.statusTracker()
        while not any(
            (info := tracker.getStageInfo(one)) and info.numCompletedTasks
            for one in tracker.getActiveStageIds()
        ):
            time.sleep(0.05)
        mark.touch()

    calls: list[int] = []

    def abort(prepared: Sequence[bytes]) -> None:
        calls.append(len(paths_of(table) - kept))
        batch_write.abort(prepared)

    rows = session.createDataFrame(session.sparkContext.parallelize([(1,), (-1,)], 2), "v INT")
    threading.Thread(target=watch, daemon=True).start()
    with pytest.raises(PythonException, match="no such row"):
        Shuffle(table, None, batch_write.assigned_by).run_writers(rows, write, abort)
    assert calls == [1]
    assert paths_of(table) == kept
    assert rows_of_table(table) == [(7,)]
    lakecore_spark.write(rows, table)
    assert rows_of_table(table) == [(-1,), (1,), (7,)]
