"""Streams of a group wait for the slowest: by rows that were written, with the traps of idle and ended streams."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import CorruptDataError, InvalidOptionError, UnsupportedError
from lakecore.fs.memory import MemoryFileIO
from lakecore.maintain.alignment_store import AlignmentStore
from lakecore.metadata.option_rules.event_times import EventTimeRule
from lakecore.read.source.alignment.rule import AlignmentRule, Standing, StreamState, wait_of
from lakecore.read.source.batch_limits import UNLIMITED
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.scan.startup import Startup
from lakecore.spark.group_member import StoredMember
from lakecore.table import Commit, Table
from lakecore.types.datatypes import RowType
from tests.support.fake_clock import FakeClock
from tests.support.lake import memory_catalog

MINUTE = 60_000
START = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
START_MS = 1_767_225_600_000
GROUP = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "5 min"}
DECLARED = {
    "schema.watermark.0.rowtime": "ts",
    "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '1' MINUTE",
    "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
}


class Follower:
    """A stream that is read to its end by each step, as Spark calls it."""

    def __init__(self, table: Table, **options: str) -> None:
        self.table = table
        rule = AlignmentRule.from_options(GROUP | options)
        assert rule is not None
        store = AlignmentStore(table._stores.file_io, "memory://lake/wh")
        self.member = StoredMember(store, rule, table.name, table._stores.clock)
        self.position: StreamOffset | None = None
        self.batches = self.opened()

    def opened(self) -> MicroBatches:
        rows = StreamSelection.of(TableRows.of_table(self.table))
        startup = Startup.from_options({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
        return MicroBatches(self.table, startup, rows, group=self.member)

    def step(self) -> list[int]:
        """The keys of the next micro-batch, two seconds later."""
        self.table._stores.clock.sleep(2)
        end = self.batches.latest(self.position, UNLIMITED)
        if end is None or end == self.position:
            return []
        work = self.batches.work(self.position, end)
        self.position = end
        return [
            key
            for one in work
            for rows, part in one
            for batch in rows.read(part)
            for key in batch["v"].to_pylist()
        ]

    def saved(self) -> StreamState:
        (state,) = [
            one
            for one in self.member._store.others("g", "", self.table._stores.clock.now_ms())
            if one.table == self.table.name
        ]
        return state


@pytest.fixture
def tables() -> tuple[Table, Table]:
    catalog = memory_catalog()
    shape = {"columns": ["v INT", "ts TIMESTAMP(3)"], "options": {"write-only": "true"}}
    return catalog.create_table("d.fast", shape), catalog.create_table("d.slow", shape)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of these tests stands still, so nothing is renewed in between."""
    monkeypatch.setattr(StoredMember, "_renew", lambda self: None)


def put(table: Table, *minutes: int, marked: bool = True) -> None:
    """A commit for each minute: its number is the key, and also the event time and the watermark."""
    for minute in minutes:
        rows = {
            "v": pa.array([minute], pa.int32()),
            "ts": pa.array([START + timedelta(minutes=minute)], pa.timestamp("ms")),
        }
        mark = START_MS + minute * MINUTE if marked else None
        table.write(pa.table(rows), commit=Commit(user=f"w{minute}", identifier=1, watermark=mark))


def test_the_faster_stream_stops_behind_the_drift_and_goes_on(tables: tuple[Table, Table]) -> None:
    put(tables[0], *range(0, 20, 2))
    put(tables[1], 0)
    fast, slow = Follower(tables[0]), Follower(tables[1])
    assert slow.step() == [0]
    assert fast.step() == [0, 2, 4, 6]  # the first watermark beyond minute 5 ends the micro-batch
    assert fast.step() == []
    assert fast.batches.metrics(fast.position) == fast.batches.metrics(fast.position) | {
        "watermark": START_MS + 6 * MINUTE,
        "alignedStreams": 1,
        "lowestOtherWatermark": START_MS,
    }
    put(tables[1], 3)
    assert slow.step() == [3]
    assert fast.step() == [8, 10]
    put(tables[1], 60)
    assert slow.step() == [60]
    assert fast.step() == [12, 14, 16, 18]
    assert slow.step() == []  # it is ahead now
    put(tables[1], 61)
    assert slow.step() == []
    put(tables[0], 57)
    assert (fast.step(), slow.step()) == ([57], [61])


def test_a_stream_that_has_read_nothing_is_the_slowest(tables: tuple[Table, Table]) -> None:
    put(tables[0], 0, 1)
    fast, slow = Follower(tables[0]), Follower(tables[1])
    assert slow.step() == []
    slow.member.report(Standing.BEFORE_FIRST, None, is_active=True)  # Spark asks again and again
    assert fast.step() == [0]
    assert fast.step() == []
    put(tables[1], 0)
    assert (slow.step(), fast.step()) == ([0], [1])


@pytest.mark.parametrize("how", ["idle", "ended", "stopped", "killed", "without a watermark"])
def test_nobody_waits_for_ever(tables: tuple[Table, Table], how: str) -> None:
    put(tables[0], 0, 10, 20)
    put(tables[1], 0, marked=how != "without a watermark")
    bounded = {"scan.bounded.watermark": str(START_MS)} if how == "ended" else {}
    idle = {"scan.watermark.idle-timeout": "10 s"} if how == "idle" else {}
    fast, slow = Follower(tables[0]), Follower(tables[1].with_options(bounded), **idle)
    assert slow.step() == [0]
    if how == "without a watermark":
        assert fast.step() == [0, 10, 20]
        return
    assert (fast.step(), fast.step()) == ([0, 10], [])
    if how == "ended":
        put(tables[1], 1)
        assert slow.step() == []
        assert slow.saved().standing is Standing.ENDED
    if how == "stopped":
        slow.member.leave()
    if how == "killed":
        tables[0]._stores.clock.sleep(11)
    if how == "idle":
        for _ in range(6):
            assert slow.step() == []
        assert slow.saved().standing is Standing.IDLE
    assert fast.step() == [20]
    if how == "idle":
        put(tables[1], 1)
        assert (slow.step(), slow.saved().standing) == ([1], Standing.READING)


def test_event_times_of_files_take_the_place_of_marks(tables: tuple[Table, Table]) -> None:
    fast = Follower(tables[0].with_options({"read.watermark": "ts - 1 min"}))
    put(tables[0], 0, 6, 12, marked=False)
    put(tables[1], 0)
    assert Follower(tables[1]).step() == [0]
    assert fast.step() == [0, 6, 12]  # the watermark of minute 6 is minute 5, not more than the drift ahead
    assert fast.step() == []
    assert fast.batches.metrics(fast.position)["watermark"] == START_MS + 11 * MINUTE  # type: ignore[index]


def test_a_restart_knows_its_watermark(tables: tuple[Table, Table]) -> None:
    put(tables[0], 0, 10, 20)
    put(tables[1], 0)
    slow, fast = Follower(tables[1]), Follower(tables[0])
    assert (slow.step(), fast.step()) == ([0], [0, 10])
    fast.batches = fast.opened()
    assert fast.step() == []
    put(tables[1], 9)
    assert (slow.step(), fast.step()) == ([9], [20])


def test_files_of_a_group(tables: tuple[Table, Table]) -> None:
    store = AlignmentStore(tables[0]._stores.file_io, "memory://lake/wh")
    state = StreamState("d.t", Standing.READING, 5)
    store.save("../g", "a", state, 1000)
    assert store.others("../g", "b", 11_000) == [state]
    assert (
        store.others("../g", "a", 11_000)
        == store.others("g", "b", 11_000)
        == store.others("../g", "b", 11_001)
        == []
    )
    assert (
        store.others("../g", "b", 4_000_000) == store.others("../g", "b", 1000) == []
    )  # removed when it was old
    store.save("g", "a", state, 1000)
    (path,) = [one.path for one in store.file_io.list(store._folder("g"))]
    MemoryFileIO("lake").overwrite(path, b"{}")
    with pytest.raises(CorruptDataError, match="delete it"):
        store.others("g", "b", 1000)
    store.remove("g", "a")
    assert store.others("g", "b", 1000) == []


def test_the_lowest_counts() -> None:
    states = [
        StreamState("a", Standing.READING, 10),
        StreamState("b", Standing.READING, 4),
        StreamState("c", Standing.IDLE, 0),
    ]
    assert wait_of(9, states, 5) is None
    wait = wait_of(10, states, 5)
    assert wait is not None
    assert (wait.slowest.table, str(wait)) == ("b", "its watermark is 10, and that of the stream of b is 4")
    assert wait_of(None, [StreamState("d", Standing.BEFORE_FIRST)], 5) is None
    assert "has read nothing" in str(wait_of(0, [StreamState("d", Standing.BEFORE_FIRST)], 5))


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        ({"scan.watermark.alignment.group": "g"}, ["scan.watermark.alignment.max-drift", "give both"]),
        ({"scan.watermark.alignment.group": " ", "scan.watermark.alignment.max-drift": "1 s"}, ["is empty"]),
        ({"scan.watermark.alignment.max-drift": "1 s"}, ["no effect without scan.watermark.alignment.group"]),
        ({"scan.watermark.idle-timeout": "1 s"}, ["scan.watermark.idle-timeout='1 s'", "no effect"]),
        (GROUP | {"scan.watermark.alignment.update-interval": "soon"}, ["update-interval='soon'"]),
    ],
)
def test_options_that_cannot_be(raw: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        AlignmentRule.from_options(raw)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize(
    ("expression", "delay_ms"),
    [
        ("`ts`", 0), ("ts", 0), ("`ts` - INTERVAL '5' SECOND", 5000), ("ts-interval '0.001' second", 1),
        ("`ts` - INTERVAL '2' MINUTE", 120_000), ("`ts` - INTERVAL '1' HOUR", 3_600_000),
        ("`ts` - INTERVAL '10' DAY(2)", 864_000_000), ("`ts` - INTERVAL '3' SECONDS", 3000),
    ],
)  # fmt: skip
def test_watermarks_of_flink(expression: str, delay_ms: int) -> None:
    shape = row_type()
    raw = DECLARED | {"schema.watermark.0.strategy.expr": expression}
    assert EventTimeRule.of_reads(shape, raw) == EventTimeRule("ts", delay_ms)
    assert EventTimeRule.of_reads(shape, raw | {"read.watermark": "late - 7 ms"}) == EventTimeRule("late", 7)
    assert EventTimeRule.of_reads(shape, {}) is None


@pytest.mark.parametrize(
    "raw",
    [
        {"schema.watermark.0.strategy.expr": expression}
        for expression in ("`ts` - INTERVAL '1' MONTH", "f(`ts`)", "`ts` + INTERVAL '5' SECOND", "`v`", "`gone`",
                           "`ts` - INTERVAL '1:30' MINUTE TO SECOND", "SOURCE_WATERMARK()")
    ]
    + [{"schema.watermark.0.rowtime": "late"}],
)  # fmt: skip
def test_watermarks_of_flink_that_are_refused(raw: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=r"read\.watermark"):
        EventTimeRule.of_reads(row_type(), DECLARED | raw)


def row_type() -> RowType:
    shape = {"columns": ["v INT", "ts TIMESTAMP(3)", "late TIMESTAMP(9) WITH LOCAL TIME ZONE"]}
    return memory_catalog().create_table("d.t", shape).schema.row_type


def test_a_look_comes_once_in_an_interval(tables: tuple[Table, Table]) -> None:
    clock = tables[0]._stores.clock
    assert isinstance(clock, FakeClock)
    one, other = Follower(tables[0]).member, Follower(tables[1]).member
    other.report(Standing.READING, 0, is_active=True)
    assert one.wait(10 * MINUTE) is not None
    clock.sleep(0.5)
    other.report(Standing.READING, 9 * MINUTE, is_active=True)
    assert other._saved == StreamState("d.slow", Standing.READING, 0)
    clock.sleep(1)
    other.report(Standing.READING, 9 * MINUTE, is_active=True)
    assert one.wait(10 * MINUTE) is None
    looks: list[Any] = []
    one._store = type("Store", (), {"others": lambda *_: looks.append(1) or []})()  # type: ignore[assignment]
    assert one.wait(10 * MINUTE) is one.wait(10 * MINUTE) is None
    assert looks == []
