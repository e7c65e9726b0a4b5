"""This module has the trigger that waits without a worker slot, after the first check of a sensor found
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["WaitTrigger"]


class WaitTrigger(BaseTrigger):
    """Fire once, when a check of `lakecore.jobs.watching.waits` finds something.

    The first check comes after `poke_interval` seconds: the sensor has checked just before it deferred, and
    an event that fires at once races with the scheduler. Storage is read in a thread; secrets stay in the
    connection.

    :param wait: the name of the wait.
    :param request: what it waits for, plain JSON.
    """

    def __init__(
        self,
        *,
        wait: str,
        table: str,
        request: Mapping[str, Any],
        lake_conn_id: str,
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()
        self.wait = wait
        self.table = table
        self.request = dict(request)
        self.lake_conn_id = lake_conn_id
        self.poke_interval = poke_interval
        self._memo: dict[Any, Any] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "lakecore_airflow.triggers.WaitTrigger",
            {
                "wait": self.wait,
                "table": self.table,
                "request": self.request,
                "lake_conn_id": self.lake_conn_id,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            await asyncio.sleep(self.poke_interval)
            try:
                result = await asyncio.to_thread(self._look)
            except Exception as err:  # noqa: BLE001 - the trigger's border: the sensor decides what to do
                yield TriggerEvent(_failure(err))
                return
            if result is not None:
                yield TriggerEvent({"status": "found", "found": result})
                return

    def _look(self) -> dict[str, Any] | None:
        from lakecore.errors import UnavailableError
        from lakecore.jobs.watching.waits import look
        from lakecore_airflow.hooks import LakeHook

        try:
            catalog = LakeHook(self.lake_conn_id).catalog()
            return look(self.wait, catalog, self.table, self.request, self._memo)
        except UnavailableError as err:
            self.log.warning(
                "%s did not answer, the next attempt is in %s s: %s", self.table, self.poke_interval, err
            )
            return None


def _failure(err: Exception) -> dict[str, Any]:
    """Return the event of an error; `permanent` says that no retry of the sensor can repair it."""
    from lakecore_airflow.hooks import is_permanent

    return {"status": "error", "error": f"{type(err).__name__}: {err}", "permanent": is_permanent(err)}
