"""Java Paimon changes a table beneath a streaming query that runs: it goes on, or ends with an error that says why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import lakecore
from lakecore import spark as lakecore_spark
from tests.spark.test_stream_sink import drop, stream_of
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

SHAPE = {
    "columns": ["k INT", "v STRING", "u INT"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true", "changelog-producer": "input"},
}
ALTERATIONS = {
    "add": [{"op": "add", "name": "n", "type": "INT"}],
    "widen": [{"op": "type", "name": "u", "type": "BIGINT"}],
    "rename": [{"op": "rename", "name": "v", "to": "x"}],
}
SINKS = ["format", "shuffled"]


def change(oracle: Oracle, lake: str, name: str) -> None:
    if name in ALTERATIONS:
        oracle.call("alter", lake, "d.t", json.dumps(ALTERATIONS[name]))
    elif name == "rollback":
        oracle.call("rollback", lake, "d.t", "--snapshot", 1)
    else:
        oracle.call("drop", lake, "d.t")
        if name == "again":
            time.sleep(0.01)  # a table is told from a later one of its name by the time of its schema
            oracle.call("create", lake, "d.t", json.dumps(SHAPE))


class Sink:
    """A query that writes the files of a folder, one micro-batch each, to d.t."""

    def __init__(self, session: SparkSession, root: Path, by: str) -> None:
        self.catalog = lakecore.load_catalog(root / "lake", create_warehouse=True, **{"local.fsync": "false"})
        self.catalog.create_table("d.t", SHAPE)
        self.lake = self.catalog.warehouse
        self._session, self._root, self._by = session, root, by
        self.query: StreamingQuery = self.start()

    def start(self) -> StreamingQuery:
        frame = stream_of(self._session, self._root / "in", "k INT, v STRING, u INT")
        checkpoint = str(self._root / "c")
        if self._by == "shuffled":
            table = self.catalog.load_table("d.t")
            self.query = lakecore_spark.write_stream(frame, table, checkpoint, parallelism=1)
        else:
            writer = frame.writeStream.format("lakecore").option("checkpointLocation", checkpoint)
            self.query = writer.option("warehouse", self.lake).start("d.t")
        return self.query

    def put(self, number: int) -> None:
        drop(self._root / "in", number, [row(number)])
        self.query.processAllAvailable()


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"k": number, "v": f"{number}", "u": number, **more}


@pytest.fixture
def begin(session: SparkSession, tmp_path: Path) -> Any:
    """A query that has committed two rows, and runs."""
    sinks: list[Sink] = []

    def started(by: str) -> Sink:
        (tmp_path / "in").mkdir()
        sinks.append(Sink(session, tmp_path, by))
        for number in range(2):
            sinks[0].put(number)
        return sinks[0]

    yield started
    for sink in sinks:
        sink.query.stop()


Begin = Callable[[str], Sink]


def check(oracle: Oracle, lake: str, rows: list[dict[str, Any]]) -> None:
    assert oracle.read(lake, "d.t") == canonical(rows)
    assert {one for one in findings(oracle.fsck(lake, "d.t")) if not one.startswith("orphan")} == set()


@pytest.mark.parametrize("by", SINKS)
def test_columns(oracle: Oracle, begin: Begin, by: str) -> None:
    """A new column is null and a wider one takes the values. Values follow a renamed column in a query that has
    loaded its table; the format loads it for each micro-batch and refuses the old name.
    """
    sink = begin(by)
    change(oracle, sink.lake, "add")
    sink.put(2)
    change(oracle, sink.lake, "widen")
    sink.put(3)
    check(oracle, sink.lake, [row(number, n=None) for number in range(4)])
    change(oracle, sink.lake, "rename")
    renamed = [{"k": k, "x": f"{k}", "u": k, "n": None} for k in range(4)]
    if by == "shuffled":
        sink.put(4)
        renamed.append({"k": 4, "x": "4", "u": 4, "n": None})
    else:
        with pytest.raises(StreamingQueryException, match="column 'v' is not in the table"):
            sink.put(4)
    check(oracle, sink.lake, renamed)


@pytest.mark.parametrize("by", SINKS)
def test_a_rollback(oracle: Oracle, begin: Begin, by: str) -> None:
    sink = begin(by)
    change(oracle, sink.lake, "rollback")
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="rolled back behind micro-batch 1 of this query"):
            sink.put(2)
        sink.start()
    check(oracle, sink.lake, [row(0)])


@pytest.mark.parametrize("by", SINKS)
def test_a_drop(oracle: Oracle, begin: Begin, by: str) -> None:
    sink = begin(by)
    change(oracle, sink.lake, "drop")
    with pytest.raises(StreamingQueryException, match="NotFoundError"):
        sink.put(2)
    assert [one for one in Path(sink.lake).rglob("*") if one.name.startswith(("data-", "snapshot-"))] == []


@pytest.mark.parametrize("by", SINKS)
def test_a_table_that_is_created_again(oracle: Oracle, begin: Begin, by: str) -> None:
    """The query that runs ends; the one that is started again goes on in the new table."""
    sink = begin(by)
    change(oracle, sink.lake, "again")
    with pytest.raises(StreamingQueryException, match="dropped and created again"):
        sink.put(2)
    check(oracle, sink.lake, [])
    sink.start().processAllAvailable()
    sink.put(3)
    check(oracle, sink.lake, [row(2), row(3)])


MESSAGES = {
    "add": None,
    "rename": "column v STRING was changed to x STRING in schema 1",
    "rollback": "the table was rolled back",
    "drop": "rolled back, dropped, or created again; start a new stream",
    "again": "created again",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_sources(session: SparkSession, oracle: Oracle, tmp_path: Path, name: str) -> None:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    catalog.create_table("d.t", SHAPE)
    rows: list[dict[str, Any]] = []
    for number in range(2):
        oracle.write(catalog.warehouse, "d.t", [row(number)])
    frame = session.readStream.format("lakecore").option("warehouse", catalog.warehouse).load("d.t")

    def collect(batch: DataFrame, _: int) -> None:
        rows.extend(one.asDict() for one in batch.collect())

    query = frame.writeStream.option("checkpointLocation", str(tmp_path / "c")).foreachBatch(collect).start()
    try:
        query.processAllAvailable()
        assert canonical(rows) == canonical([row(0), row(1)])
        change(oracle, catalog.warehouse, name)
        if name != "drop":
            oracle.write(
                catalog.warehouse,
                "d.t",
                [{"k": 2, "u": 2, **({"x": "2"} if name == "rename" else {"v": "2"})}],
            )
        message = MESSAGES[name]
        if message is None:
            query.processAllAvailable()
            assert canonical(rows) == canonical([row(number) for number in range(3)])
        else:
            with pytest.raises(StreamingQueryException, match=message):
                query.processAllAvailable()
            assert canonical(rows) == canonical([row(0), row(1)])
    finally:
        query.stop()
