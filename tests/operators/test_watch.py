"""The watcher of a table inside Airflow's own shared stream: at least once, whatever dies when."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamManager

import lakecore
from lakecore.jobs import compact
from lakecore.jobs.watching.watch import WatchPosition
from lakecore_airflow.watch import SnapshotWatch, watched_asset
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"  # eight snapshots, all of them APPEND
PARTED = "g1.a_pk_dedup_b3_part"


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    for name in (TABLE, PARTED):
        golden(name).copy_to(lake)
    return lake


def _write(lake: Path, table: str = TABLE) -> int:
    opened = lakecore.load_catalog(str(lake)).load_table(table)
    schema = opened.scan().to_arrow().schema
    row = opened.scan(limit=1).to_arrow().cast(schema)
    return opened.upsert(pa.Table.from_batches(row.to_batches()[:1])).snapshot_ids[-1]


@dataclass
class _Store:
    """The asset state store of one asset."""

    values: dict[str, Any] = field(default_factory=dict)

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = json.loads(json.dumps(value))

    @property
    def position(self) -> int | None:
        found = self.values.get("lakecore.position")
        return None if found is None else found["snapshot"]


@dataclass
class _Triggerer:
    """What the triggerer does with watchers: runs them, and confirms what it has stored."""

    manager: SharedStreamManager = field(default_factory=SharedStreamManager)
    fired: list[dict[str, Any]] = field(default_factory=list)
    unconfirmed: list[int] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def watch(
        self, store: _Store, table: str = TABLE, poke_interval: float = 0.02, **arguments: Any
    ) -> SnapshotWatch:
        [watcher] = watched_asset(table, poke_interval=poke_interval, **arguments).watchers
        _, kwargs = watcher.trigger.serialize()
        trigger = SnapshotWatch(**json.loads(json.dumps(kwargs)))
        trigger.asset_state_store = store
        self.tasks.append(asyncio.create_task(self._run(len(self.tasks), trigger)))
        return trigger

    async def _run(self, number: int, trigger: SnapshotWatch) -> None:
        key = trigger.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = self.manager.bind_pending_event(trigger_id=number, key=key)
                assert seq is not None, "the position waits for what is stored"
                self.unconfirmed.append(seq)
                self.fired.append(event.payload)
        finally:
            await self.manager.unsubscribe(number, key)

    def store(self) -> None:
        self.manager.confirm_persisted(self.unconfirmed)
        self.unconfirmed.clear()

    async def until(self, test: Callable[[], object]) -> None:
        for _ in range(500):
            if test():
                return
            for task in self.tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.01)
        raise AssertionError(f"not within 5 s; fired: {self.fired}")


@asynccontextmanager
async def _triggerer() -> AsyncIterator[_Triggerer]:
    """Ends as a killed one does: nothing is confirmed, nothing is kept."""
    triggerer = _Triggerer()
    yield triggerer
    for task in triggerer.tasks:
        task.cancel()
    await asyncio.gather(*triggerer.tasks, return_exceptions=True)
    await triggerer.manager.stop_all()


def _ranges(fired: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(event["first"], event["last"]) for event in fired]


def _play(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_a_snapshot_that_was_not_stored_is_told_again_after_a_restart(table: Path) -> None:
    store = _Store()

    async def scenario() -> None:
        async with _triggerer() as first:
            first.watch(store)
            await first.until(lambda: store.position == 8)  # begins after what there was
            assert first.fired == []
            _write(table)
            await first.until(lambda: first.fired)
            assert _ranges(first.fired) == [(9, 9)]
            await asyncio.sleep(0.1)
            assert store.position == 8, "killed now, the event would be lost with the position moved on"
        async with _triggerer() as second:
            _write(table)
            second.watch(store)
            await second.until(lambda: second.fired)
            assert _ranges(second.fired) == [(9, 10)]
            second.store()
            await second.until(lambda: store.position == 10)
        async with _triggerer() as third:
            third.watch(store)
            await asyncio.sleep(0.2)
            assert third.fired == []
            _write(table)
            await third.until(lambda: third.fired)
            assert _ranges(third.fired) == [(11, 11)]

    _play(scenario)


def test_many_tables_share_one_poll_and_keep_their_own_positions(table: Path) -> None:
    stores = [_Store(), _Store(), _Store()]

    async def scenario() -> None:
        async with _triggerer() as triggerer:
            triggerer.watch(stores[0])
            triggerer.watch(stores[1], PARTED)
            triggerer.watch(stores[2], TABLE, name="in pairs", count=2)
            await triggerer.until(lambda: all(store.position is not None for store in stores))
            assert len(triggerer.manager._groups) == 1
            _write(table)
            await triggerer.until(lambda: triggerer.fired)
            triggerer.store()
            await triggerer.until(lambda: stores[0].position == 9)
            assert [event["table"] for event in triggerer.fired] == [TABLE]
            assert stores[2].position == 8, "one snapshot is not a pair yet"
            last = _write(table, PARTED)
            _write(table)
            await triggerer.until(lambda: len(triggerer.fired) == 4)
            triggerer.store()
            await triggerer.until(lambda: [store.position for store in stores] == [10, last, 10])
            told = sorted((event["table"], event["first"], event["last"]) for event in triggerer.fired)
            assert told == sorted([(TABLE, 9, 9), (TABLE, 10, 10), (TABLE, 9, 10), (PARTED, last, last)])
            [parted] = [event for event in triggerer.fired if event["table"] == PARTED]
            assert parted["partitions_count"] == len(parted["partitions"]) == 1
            assert parted["partitions"][0].startswith("dt=")
            assert all(len(json.dumps(event)) < 1000 for event in triggerer.fired)

    _play(scenario)


def test_a_compaction_wakes_nobody_and_a_table_that_comes_later_is_told_whole(
    lake: Path, golden: Callable[[str], GoldenTable]
) -> None:
    store = _Store()

    async def scenario() -> None:
        async with _triggerer() as triggerer:
            triggerer.watch(store)
            await triggerer.until(lambda: store.position == 0)
            golden(TABLE).copy_to(lake)
            await triggerer.until(lambda: triggerer.fired)
            triggerer.store()
            await triggerer.until(lambda: store.position == 8)
            full = compact.Job(table=TABLE, strategy=compact.Strategy.FULL)
            assert compact.run(full, lakecore.load_catalog(str(lake))).snapshot == 9
            await triggerer.until(lambda: store.position == 9)
            assert _ranges(triggerer.fired) == [(1, 8)]

    _play(scenario)


def test_trouble_of_one_table_or_of_the_warehouse_does_not_end_the_watch(table: Path) -> None:
    store, other = _Store(), _Store()
    hint = table / "g1.db" / "a_pk_dedup_b3_part" / "snapshot"

    async def scenario() -> None:
        async with _triggerer() as triggerer:
            triggerer.watch(other, PARTED)
            triggerer.watch(store)
            await triggerer.until(lambda: store.position and other.position)
            for file in hint.glob("snapshot-*"):
                file.write_bytes(b"{")
            _write(table)
            await triggerer.until(lambda: triggerer.fired)
            shutil.move(table, f"{table}.away")
            await asyncio.sleep(0.1)
            shutil.move(f"{table}.away", table)
            _write(table)
            await triggerer.until(lambda: len(triggerer.fired) == 2)
            assert _ranges(triggerer.fired) == [(9, 9), (10, 10)]

    _play(scenario)


def test_a_round_that_failed_for_somebody_is_kept_by_nobody(table: Path) -> None:
    """Which watcher it was is not known: all of them tell that round again after a restart."""
    store = _Store()

    async def scenario() -> None:
        async with _triggerer() as triggerer:
            trigger = triggerer.watch(store)
            await triggerer.until(lambda: store.position == 8)
            producer = SnapshotWatch.create_shared_stream_producer(trigger.serialize()[1])
            trigger._after_round[70] = WatchPosition(20, 1)
            await producer.advance([AdvanceItem(70, AdvanceOutcome(acked=1, failed=1))])
            assert store.position == 8
            trigger._after_round[71] = WatchPosition(21, 2)
            await producer.advance([AdvanceItem(71, AdvanceOutcome(acked=2, failed=0))])
            assert (store.position, trigger._after_round) == (21, {})
            trigger._after_round[72], trigger._at_work_on = WatchPosition(22, 3), 72
            await producer.advance([AdvanceItem(73, AdvanceOutcome(acked=1, failed=0))])
            assert store.position == 21, "given up as too slow: its event may not be stored yet"

    _play(scenario)


def test_two_assets_of_a_table_differ_and_a_watch_serialises(lake: Path) -> None:
    plain, named = watched_asset(TABLE), watched_asset(TABLE, name="busy", rows=1000, start="earliest")
    assert (plain.name, named.name, plain.uri == named.uri) == (f"lake_default/{TABLE}", "busy", False)
    [one], [two] = plain.watchers, named.watchers
    assert SnapshotWatch.hash(*one.trigger.serialize()) != SnapshotWatch.hash(*two.trigger.serialize())
    path, kwargs = two.trigger.serialize()
    assert path == f"{SnapshotWatch.__module__}.{SnapshotWatch.__qualname__}"
    assert SnapshotWatch(**kwargs).serialize() == (path, kwargs)
    with pytest.raises(ValueError, match="start"):
        watched_asset(TABLE, start="yesterday")


def test_without_a_shared_stream_a_watcher_polls_alone(table: Path) -> None:
    store = _Store()

    async def scenario() -> None:
        [watcher] = watched_asset(TABLE, poke_interval=0.02, start="earliest").watchers
        watcher.trigger.asset_state_store = store
        stream = aiter(watcher.trigger.run())
        assert _ranges([(await anext(stream)).payload]) == [(1, 8)]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        _write(table)
        assert _ranges([(await waiting).payload]) == [(9, 9)]
        assert store.position == 8
        await stream.aclose()

    _play(scenario)


def test_an_interval_that_is_a_whole_number_is_watched(table: Path) -> None:
    store = _Store()

    async def scenario() -> None:
        async with _triggerer() as triggerer:
            triggerer.watch(store, start="earliest", poke_interval=1)
            await triggerer.until(lambda: triggerer.fired)
            assert _ranges(triggerer.fired) == [(1, 8)]

    _play(scenario)
