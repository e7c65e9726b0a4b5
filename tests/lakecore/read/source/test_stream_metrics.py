"""Metrics of a stream in micro-batches, by a clock that the test moves."""

from __future__ import annotations

from lakecore.read.source.batch_limits import UNLIMITED, BatchLimits
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.scan.startup import Startup
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, live_files, memory_catalog, put


def test_a_stream_that_falls_behind_and_catches_up() -> None:
    catalog = memory_catalog("stream-metrics")
    clock = catalog.clock
    assert isinstance(clock, FakeClock)
    table = append_table(catalog)
    batches = MicroBatches(
        table, Startup.from_options(table.schema.options), StreamSelection.of(TableRows.of_table(table))
    )
    assert batches.latest(None, UNLIMITED) is None
    assert batches.metrics(None) is None
    put(table, [{"v": 1, "p": "a"}, {"v": 2, "p": "b"}])
    size = sum(file.file_size for file in live_files(table))
    clock.sleep(2)
    end = batches.latest(None, UNLIMITED)
    clock.sleep(1)
    assert batches.metrics(end) == {
        "lastScanDuration": 0,
        "lastScanResultedTableFiles": 1,
        "splits": 1,
        "rows": 2,
        "bytes": size,
        "sourceIdleTime": 1000,
        "snapshotsBehind": 0,
        "lastScannedSnapshotId": 1,
        "currentFetchEventTimeLag": 3000,
        "snapshotLag": 0,
    }
    for number in range(3):
        put(table, [{"v": number, "p": "c"}])
        clock.sleep(5)
    one = batches.latest(end, BatchLimits(snapshots=1))
    behind = batches.metrics(one)
    assert behind is not None
    assert (behind["snapshotsBehind"], behind["lastScannedSnapshotId"], behind["rows"]) == (2, 2, 1)
    assert (behind["snapshotLag"], behind["currentFetchEventTimeLag"]) == (10_000, 15_000)
    every = batches.latest(one, UNLIMITED)
    assert batches.latest(every, UNLIMITED) == every
    clock.sleep(7)
    idle = batches.metrics(every)
    assert idle is not None
    assert (idle["snapshotsBehind"], idle["snapshotLag"], idle["rows"]) == (0, 0, 0)
    assert idle["sourceIdleTime"] == 7000
