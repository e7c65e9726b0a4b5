"""The stream for Spark before 4.2, in the order in which such a Spark calls it; expected rows are what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.spark.data_source.format import LakecoreSource
from lakecore.table import Table


@pytest.fixture(autouse=True)
def old_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    found = catalog.create_table("d.t", {"columns": ["k INT"]})
    found.write(rows(0, 1))
    return found


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def reader(table: Table, **more: str) -> Any:
    source = LakecoreSource({"warehouse": str(Path(table.path).parents[1]), "path": "d.t", **more})
    return source.streamReader(source.schema())


def keys(stream: Any, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return sorted(key for batch in batches for key in batch.column("k").to_pylist())


def stored(offset: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(offset)))


def test_a_query_and_its_restart(table: Table) -> None:
    stream = reader(table)
    first = stored(stream.latestOffset())
    assert keys(stream, stream.initialOffset(), first) == [0, 1]
    assert stored(stream.latestOffset()) == first
    table.write(rows(2))
    second = stored(stream.latestOffset())
    assert keys(stream, first, second) == [2]
    table.write(rows(3))
    again = reader(table)  # the query was killed before it committed the second micro-batch
    assert again.partitions(second, second) == []
    assert keys(again, first, second) == [2]
    third = stored(again.latestOffset())
    assert keys(again, second, third) == [3]
    idle = reader(table)  # started again with nothing new
    assert idle.partitions(third, third) == []
    assert stored(idle.latestOffset()) == third


def test_a_restart_without_a_word_about_the_position_reads_nothing_twice(table: Table) -> None:
    stream = reader(table)
    first = stored(stream.latestOffset())
    assert keys(stream, stream.initialOffset(), first) == [0, 1]
    table.write(rows(2))
    again = reader(table)
    assert keys(again, first, stored(again.latestOffset())) == [2]


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True)
    table = catalog.create_table("d.t", {"columns": ["k INT"]})
    stream = reader(table)
    begin = stored(stream.latestOffset())
    assert begin == stream.initialOffset()
    assert keys(stream, begin, begin) == []
    table.write(rows(7))
    assert keys(stream, begin, stored(stream.latestOffset())) == [7]


@pytest.mark.parametrize(
    "limit",
    ["read.stream.maxrowspertrigger", "read.stream.maxsnapshotspertrigger", "continuous.discovery-interval"],
)
def test_limits_are_refused(table: Table, limit: str) -> None:
    value = "5 s" if limit.startswith("continuous") else "5"
    with pytest.raises(UnsupportedError, match=rf"option.* {limit}: PySpark 4\.1\.4 has no limits"):
        reader(table, **{limit: value})


def test_a_plain_sink_needs_arrow_writers(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    source = LakecoreSource({"warehouse": str(Path(table.path).parents[1]), "path": "d.t"})
    with pytest.raises(
        UnsupportedError, match=r"PySpark 4\.0\.5 has no streaming writers.*lakecore\.spark\.write_stream"
    ):
        source.streamWriter(source.schema(), False)
