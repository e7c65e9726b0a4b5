"""Real queries over tables that Java writes: the faster one of a group waits, and nobody waits for ever."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.errors import InvalidInputError
from lakecore.table import Table
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SHAPE = {
    "columns": ["k INT", "ts TIMESTAMP(3)"],
    "options": {
        "write-only": "true",
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    },
}
GROUP = {
    "scan.watermark.alignment.group": "g",
    "scan.watermark.alignment.max-drift": "5 min",
    "scan.watermark.alignment.update-interval": "100 ms",
}
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})


def put(oracle: Oracle, table: Table, *minutes: int) -> None:
    """Java commits a row for each minute: its number is the key, and also the event time."""
    for minute in minutes:
        time_text = (START + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S")
        oracle.write(Path(table.path).parents[1], table.name, [{"k": minute, "ts": time_text}])


class Follower:
    """A query, and the keys that it has read."""

    def __init__(self, session: SparkSession, table: Table, checkpoint: Path, **options: str) -> None:
        self.keys: list[int] = []
        reader = session.readStream.format("lakecore").option("warehouse", str(Path(table.path).parents[1]))
        for key, value in options.items():
            reader = reader.option(key, value)
        writer = reader.load(table.name).writeStream.option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = (
            writer.trigger(processingTime="200 milliseconds").foreachBatch(self._keep).start()
        )

    def _keep(self, batch: DataFrame, _: int) -> None:
        self.keys += sorted(row["k"] for row in batch.collect())


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def test_the_faster_query_waits(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    fast_table, slow_table = catalog.create_table("d.fast", SHAPE), catalog.create_table("d.slow", SHAPE)
    put(oracle, slow_table, 0)
    slow = Follower(session, slow_table, tmp_path / "slow", **GROUP)
    try:
        eventually(lambda: slow.keys == [0], "the slow query reads")
        put(oracle, fast_table, 0)
        fast = Follower(session, fast_table, tmp_path / "fast", **GROUP)
        eventually(lambda: fast.keys == [0], "the fast query reads")
        put(oracle, fast_table, 9, 18)
        eventually(lambda: fast.keys == [0, 9], "the first row beyond the drift is read")
        time.sleep(1)
        assert fast.keys == [0, 9]
        (metrics,) = lakecore_spark.stream_metrics(fast.query.lastProgress)
        assert metrics["watermark"] == int((START + timedelta(minutes=9, seconds=-5)).timestamp() * 1000)
        assert metrics["alignedStreams"] == 1
        put(oracle, slow_table, 8)
        eventually(lambda: fast.keys == [0, 9, 18], "the slow query has read on")
        put(oracle, fast_table, 40)
        time.sleep(1)
        assert fast.keys == [0, 9, 18]
        slow.query.stop()
        eventually(lambda: fast.keys == [0, 9, 18, 40], "the slow query was stopped")
        fast.query.stop()
    finally:
        for query in session.streams.active:
            query.stop()


def test_a_run_to_the_latest_snapshot_waits_for_nobody(
    session: SparkSession, oracle: Oracle, catalog: lakecore.FilesystemCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", SHAPE)
    put(oracle, table, 0, 9)
    folder = Path(catalog.warehouse) / ".lakecore/alignment/cd0aa9856147b6c5b4ff2b7dfee5da20"
    folder.mkdir(parents=True)
    raw = {"version": 1, "table": "d.other", "standing": "reading", "watermark": 0, "renewed": 10**15}
    (folder / "other.json").write_text(json.dumps(raw))
    options = {"warehouse": str(catalog.warehouse), **GROUP}
    for number, trigger in enumerate(({"availableNow": True}, {"once": True})):
        frame = session.readStream.format("lakecore").options(**options).load("d.t")
        timed = lakecore_spark.with_watermark(frame, table)
        assert "EventTimeWatermark" in timed._jdf.queryExecution().logical().toString()
        rows: list[int] = []
        writer = timed.writeStream.option("checkpointLocation", str(tmp_path / f"c{number}")).trigger(
            **trigger
        )
        writer.foreachBatch(
            lambda batch, _, rows=rows: rows.extend(row["k"] for row in batch.collect())
        ).start().awaitTermination()
        assert sorted(rows) == [0, 9]
    with pytest.raises(InvalidInputError, match="declares no watermark"):
        lakecore_spark.with_watermark(frame, catalog.create_table("d.plain", {"columns": ["k INT"]}))
