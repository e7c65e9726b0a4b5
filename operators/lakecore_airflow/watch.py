"""This module has assets whose watchers start DAGs: a watcher emits an event for each new snapshot at
least once.

All watchers of one connection share one poll. A round reads the latest snapshot of every table once, and only
the watchers of tables that changed look closer. A watcher's position is kept in Airflow's asset state store.
The position moves on after Airflow has confirmed that the event is in its database. A triggerer that is
killed in between emits the same snapshots again, and none is lost.

Airflow has that store since 3.3. With earlier releases a watcher is refused: what is committed while the
triggerer is down would start no run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from lakecore_airflow.airflow_names import HAS_ASSET_STATE, AdvanceItem, SharedStreamProducer
from lakecore_airflow.assets import table_asset

if TYPE_CHECKING:
    from lakecore.jobs.watching.poll import TablePoll
    from lakecore.jobs.watching.watch import WatchPosition

__all__ = ["SnapshotWatch", "watched_asset"]

_POSITION = "lakecore.position"
_STARTS = ("latest", "earliest")
_FIRST_ROUND_AFTER_S = 1.0


def watched_asset(
    table: str,
    *,
    lake_conn_id: str = "lake_default",
    name: str | None = None,
    poke_interval: float = 60.0,
    start: str = "latest",
    **condition: Any,
) -> Asset:
    """Return the asset of a table with a watcher: schedule a DAG on it, and new snapshots start runs.

    :param name: the name of the asset, when a table has several with different conditions; each needs its
        own.
    :param poke_interval: seconds between rounds; watchers with the same interval share their rounds.
    :param start: `latest` emits what is committed after the watcher first started; `earliest` emits
        everything.
    :param condition: `count`, `rows`, `kinds` and `partitions`, as for `NewSnapshotSensor`.
    """
    if not HAS_ASSET_STATE:
        from lakecore.errors import UnsupportedError

        raise UnsupportedError(
            f"watched_asset({table!r}) needs Airflow 3.3: earlier releases store no position of a watcher, so"
            " that what is committed while the triggerer is down would start no run. Use NewSnapshotSensor"
        )
    if start not in _STARTS:
        raise ValueError(f"start={start!r}: use one of {', '.join(_STARTS)}")
    plain = table_asset(table, lake_conn_id=lake_conn_id)
    chosen = name or plain.name
    trigger = SnapshotWatch(
        table=table,
        asset=chosen,
        lake_conn_id=lake_conn_id,
        poke_interval=poke_interval,
        start=start,
        condition=condition,
    )
    return Asset(
        name=chosen,
        uri=plain.uri if name is None else f"{plain.uri}?watch={name}",
        group=plain.group,
        extra=plain.extra,
        watchers=[AssetWatcher(name=f"snapshots of {table}", trigger=trigger)],
    )


class SnapshotWatch(BaseEventTrigger):
    """Fire for the new snapshots of one table; one event covers several snapshots that came between two
    rounds.

    :param asset: the name of its asset: two assets must not share a trigger, because its position belongs to
        one asset.
    :param condition: the fields of `lakecore.jobs.watching.arrivals.ArrivalCondition`, as plain JSON.
    """

    def __init__(
        self,
        *,
        table: str,
        asset: str,
        lake_conn_id: str,
        poke_interval: float = 60.0,
        start: str = "latest",
        condition: Mapping[str, Any] | None = None,
        **old: Any,
    ) -> None:
        super().__init__()
        self.table = table
        self.asset = asset
        self.lake_conn_id = lake_conn_id
        self.poke_interval = float(poke_interval)  # 30 and 30.0 are one interval, and one shared poll
        self.start = start
        self.condition = dict(condition or old.get("wanted") or {})  # as stored by an earlier release
        self.looked: WatchPosition | None = None
        """The position of the table at the last look; None before the first."""
        self._position: WatchPosition | None = None
        self._after_round: dict[int, WatchPosition] = {}
        self._at_work_on: int | None = None
        self._memo: dict[Any, Any] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "lakecore_airflow.watch.SnapshotWatch",
            {
                "table": self.table,
                "asset": self.asset,
                "lake_conn_id": self.lake_conn_id,
                "poke_interval": self.poke_interval,
                "start": self.start,
                "condition": self.condition,
            },
        )

    def shared_stream_key(self) -> Hashable:
        return "lakecore", self.lake_conn_id, str(self.poke_interval)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return _Rounds(str(kwargs["lake_conn_id"]), float(kwargs["poke_interval"]))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Yield the events of this watcher for each round."""
        watching = _WATCHING.setdefault(self.shared_stream_key(), [])
        self._position = await self._begin()
        watching.append(self)
        try:
            async for number, moved in shared_stream:
                if self.table not in moved:
                    continue
                self._at_work_on = number
                news = await self._news(number, moved[self.table])
                if news is not None:
                    yield TriggerEvent(news)
                self._at_work_on = None
        finally:
            watching.remove(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll without sharing, where an Airflow release does not offer it; a position moves on one round
        after its event.
        """
        rounds = self.create_shared_stream_producer(self.serialize()[1])

        async def stream() -> AsyncIterator[Any]:
            last: int | None = None
            async for event, number in rounds.open_stream():
                if last is not None:
                    await self.keep(last)
                last = number
                yield event

        async for event in self.filter_shared_stream(stream()):
            yield event

    async def _begin(self) -> WatchPosition:
        """Return the stored position, or a first one, which is stored at once so that nothing committed from
        now on is missed.
        """
        store = self.asset_state_store
        stored_position = await store.aget(_POSITION) if store is not None else None
        if isinstance(stored_position, dict) and stored_position.get("table") == self.table:
            self.log.info("watching %s; events were sent up to %s", self.table, stored_position)
            return await asyncio.to_thread(_as_position, stored_position)
        while True:
            try:
                position = await asyncio.to_thread(self._first)
                break
            except Exception as err:  # noqa: BLE001 - a trigger that fails is started again every other second
                self.log.warning("%s cannot be watched yet: %s", self.table, err)
                await asyncio.sleep(self.poke_interval)
        await self._save(position)
        self.log.info("watching %s from %s on", self.table, position)
        return position

    def _first(self) -> WatchPosition:
        from lakecore.jobs.watching.watch import first_watch_position

        return first_watch_position(_catalog(self.lake_conn_id), self.table, self.start)

    async def _news(self, number: int, stands: WatchPosition) -> dict[str, Any] | None:
        try:
            news, position = await asyncio.to_thread(self._look)
        except Exception as err:  # noqa: BLE001 - one table's trouble must not end the watch: next round again
            self.log.warning(
                "a look at %s failed, it is looked at again in the next round: %s", self.table, err
            )
            return None
        self.looked = stands
        if position != self._position:
            self._position = self._after_round[number] = position
            self._memo.clear()
        return news

    def _look(self) -> tuple[dict[str, Any] | None, WatchPosition]:
        from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals
        from lakecore.jobs.watching.watch import BEGINNING, new_snapshots_since

        table = _catalog(self.lake_conn_id).load_table(self.table)
        arrivals = Arrivals(table, ArrivalCondition.from_json(self.condition), self._memo)
        return new_snapshots_since(arrivals, self._position or BEGINNING)

    async def keep(self, number: int) -> None:
        """Store the position: the events of that round, and of those before, are safe. The events of the
        round that this watcher is still processing are not: the round timed out, and later rounds did
        not wait for it.
        """
        finished = [one for one in self._after_round if one <= number and one != self._at_work_on]
        if finished:
            await self._save(self._after_round[max(finished)])
        for one in finished:
            del self._after_round[one]

    async def _save(self, position: WatchPosition) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(_POSITION, {"table": self.table, **position.to_json()})


_WATCHING: dict[Hashable, list[SnapshotWatch]] = {}
"""The watchers of this triggerer that share a poll."""


class _Rounds(SharedStreamProducer):
    """The shared poll of a connection: each round yields the tables that changed and their latest
    snapshots.
    """

    def __init__(self, lake_conn_id: str, poke_interval: float) -> None:
        self._conn_id = lake_conn_id
        self._poke_interval = poke_interval
        self._watching = _WATCHING.setdefault(("lakecore", lake_conn_id, str(poke_interval)), [])
        self._poll: TablePoll | None = None

    async def open_stream(self) -> AsyncIterator[tuple[Any, int]]:
        number = 0
        await asyncio.sleep(min(_FIRST_ROUND_AFTER_S, self._poke_interval))
        while True:
            tables = [(watcher.table, watcher.looked) for watcher in self._watching]
            changed = await asyncio.to_thread(self._changes, tables) if tables else {}
            if changed:
                number += 1
                yield (number, changed), number
            await asyncio.sleep(self._poke_interval)

    def _changes(self, positions: Sequence[tuple[str, WatchPosition | None]]) -> dict[str, WatchPosition]:
        """Return the latest snapshot by table, for the tables of which some watcher has not positions it."""
        from lakecore.catalog.config import CatalogConfig
        from lakecore.jobs.watching.poll import TablePoll
        from lakecore_airflow.hooks import LakeHook

        self._poll = self._poll or TablePoll()
        try:
            hook = LakeHook(self._conn_id)
            return self._poll.changed(CatalogConfig(hook.warehouse(), hook.options()), positions)
        except Exception as err:  # noqa: BLE001 - the poll serves many watchers: it goes on
            _log().warning("the warehouse of %s cannot be opened: %s", self._conn_id, err)
            return {}

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Confirm that Airflow has stored the events of these rounds. No watcher stores a round with a
        failure: the failed watcher starts again at its position, the others store a later round.
        """
        for item in batch:
            if item.outcome.failed:
                continue
            for watcher in tuple(self._watching):
                try:
                    await watcher.keep(item.broker_payload)
                except Exception as err:  # noqa: BLE001 - the position stays: nothing is lost
                    _log().warning("how far %s was watched could not be written down: %s", watcher.asset, err)


def _as_position(raw: Mapping[str, Any]) -> WatchPosition:
    """Parse a stored position. This runs in a thread, because the first import of the core takes seconds and
    the triggerer must not block.
    """
    from lakecore.jobs.watching.watch import WatchPosition

    return WatchPosition.from_json(raw)


def _catalog(lake_conn_id: str) -> Any:
    from lakecore_airflow.hooks import LakeHook

    return LakeHook(lake_conn_id).catalog()


def _log() -> Any:
    import structlog

    return structlog.get_logger(__name__)
