"""Waiting for a snapshot in the triggerer, without a worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["NewSnapshotTrigger"]


class NewSnapshotTrigger(BaseTrigger):
    """Fires once, when a table holds new data above snapshot `after_snapshot`.

    The first look comes after `poke_interval` seconds: the sensor has looked just before it deferred, and
    an event fired at once races with the scheduler. Storage is read in a thread; secrets stay in the
    connection.
    """

    def __init__(
        self, *, table: str, after_snapshot: int, lake_conn_id: str, poke_interval: float = 60.0
    ) -> None:
        super().__init__()
        self.table = table
        self.after_snapshot = after_snapshot
        self.lake_conn_id = lake_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "operators.triggers.NewSnapshotTrigger",
            {
                "table": self.table,
                "after_snapshot": self.after_snapshot,
                "lake_conn_id": self.lake_conn_id,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            await asyncio.sleep(self.poke_interval)
            try:
                found = await asyncio.to_thread(self._look)
            except Exception as err:  # noqa: BLE001 - the trigger's border: the sensor decides what to do
                yield TriggerEvent(_failure(err))
                return
            if found is not None:
                yield TriggerEvent({"status": "found", "range": found})
                return

    def _look(self) -> dict[str, int] | None:
        from lakecore.errors import UnavailableError
        from lakecore.jobs import new_snapshots
        from operators.hooks import LakeHook

        try:
            snapshots = LakeHook(self.lake_conn_id).catalog().load_table(self.table).snapshots
            found = new_snapshots.after(snapshots.load, snapshots.list_ids(), self.after_snapshot)
        except UnavailableError as err:
            self.log.warning(
                "%s did not answer, looking again in %s s: %s", self.table, self.poke_interval, err
            )
            return None
        return None if found is None else found.to_json()


def _failure(err: Exception) -> dict[str, Any]:
    """`permanent`: no retry of the sensor can mend it."""
    from operators.hooks import is_permanent

    return {"status": "error", "error": f"{type(err).__name__}: {err}", "permanent": is_permanent(err)}
