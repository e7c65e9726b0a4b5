"""This module has the triggers: one waits without a worker slot after the first check of a sensor found
nothing, the other for the end of a job that runs on a driver elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["PROGRESS_KEY", "JobTrigger", "WaitTrigger", "percent_of", "seconds_left"]

logger = logging.getLogger(__name__)

PROGRESS_KEY = "lakecore_progress"
"""This is the key of the progress in a task's state, and of the XCom of a deferred task."""


_SHOWN_S = 10.0
"""The progress of a deferred task is stored in Airflow so often."""


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
        yield TriggerEvent(await _first_event(self._event, self.poke_interval))

    def _event(self) -> dict[str, Any] | None:
        result = self._look()
        return None if result is None else {"status": "found", "found": result}

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


class JobTrigger(BaseTrigger):
    """Fire once, when a run of a job in the warehouse has ended, is lost, or has not begun in time.

    All of its state is in the warehouse, so that another triggerer can go on; only the silence of a driver
    is counted from its own first look. When a person stops or clears the task, the job is cancelled.

    :param job: `id` of the job; `after`, the number of the last run before the one that it waits for;
        `submission`, the name that a cancellation uses.
    :param start_s: seconds that it waits for a driver to begin.
    :param cancel_at_ms: cancel the job at this time, in milliseconds since the epoch; None: never.
    """

    def __init__(
        self,
        *,
        job: Mapping[str, Any],
        lake_conn_id: str,
        poke_interval: float = 5.0,
        start_s: float = 1800.0,
        cancel_at_ms: int | None = None,
    ) -> None:
        super().__init__()
        self.job_id = str(job["id"])
        self.after = int(job["after"])
        self.submission = str(job["submission"])
        self.lake_conn_id = lake_conn_id
        self.poke_interval = poke_interval
        self.start_s = start_s
        self.cancel_at_ms = cancel_at_ms
        self._jobs: Any = None
        self._watch: Any = None
        self._progress: Any = None
        self._shown_s: float | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "lakecore_airflow.triggers.JobTrigger",
            {
                "job": {"id": self.job_id, "after": self.after, "submission": self.submission},
                "lake_conn_id": self.lake_conn_id,
                "poke_interval": self.poke_interval,
                "start_s": self.start_s,
                "cancel_at_ms": self.cancel_at_ms,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent(await _first_event(self._look, self.poke_interval) | {"job_id": self.job_id})

    async def on_kill(self) -> None:
        """Cancel the job: a person has stopped, cleared or marked the task."""
        await asyncio.to_thread(self._cancel)

    def _look(self) -> dict[str, Any] | None:
        from lakecore.errors import UnavailableError
        from lakecore.jobs.remote.watch import JobWatch

        try:
            store = self._store()
            if self._watch is None:
                self._watch = JobWatch(store, self.job_id, self.after, self.start_s)
            run = self._watch.look()
            if run.progress and run.progress != self._progress:
                self._progress = run.progress
                self.log.info("job %s, run %d: %s", self.job_id, run.run, dict(run.progress))
                self._show(run.progress, store.clock.monotonic())
            if run.status == "not-started":
                store.cancel(self.job_id, self.submission)
            elif run.status == "running":
                if self.cancel_at_ms is None or store.clock.now_ms() < self.cancel_at_ms:
                    return None
                store.cancel(self.job_id, self.submission)
                return {"status": "timeout"}
            return {"status": run.status, "run": run.run}
        except UnavailableError as err:
            self.log.warning("the warehouse did not answer, the next look is later: %s", err)
            return None

    def _show(self, progress: Mapping[str, Any], now_s: float) -> None:
        """Let the page of the task show the progress, the first time and then some seconds apart."""
        if self.task_instance is None or (self._shown_s is not None and now_s - self._shown_s < _SHOWN_S):
            return
        self._shown_s = now_s
        _store_progress(self.task_instance, progress)

    def _cancel(self) -> None:
        self._store().cancel(self.job_id, self.submission)
        self.log.info("job %s is cancelled: it stops at its next safe point", self.job_id)

    def _store(self) -> Any:
        """Return the jobs of the warehouse, which is opened once."""
        from lakecore_airflow.hooks import LakeHook

        if self._jobs is None:
            self._jobs = LakeHook(self.lake_conn_id).job_store()
        return self._jobs


def _store_progress(task_instance: Any, progress: Mapping[str, Any]) -> None:
    """Store what the driver of a deferred task tells as an XCom of the task: its progress with `percent` and
    `seconds_left`. The trigger goes on when Airflow cannot.
    """
    try:
        from airflow.sdk.execution_time.xcom import XCom

        share, seconds = float(progress.get("share") or 0.0), float(progress.get("seconds") or 0.0)
        XCom.set(
            PROGRESS_KEY,
            {**progress, "percent": percent_of(share), "seconds_left": seconds_left(share, seconds)},
            dag_id=task_instance.dag_id,
            run_id=task_instance.run_id,
            task_id=task_instance.task_id,
            map_index=-1 if task_instance.map_index is None else task_instance.map_index,
        )
    except Exception as err:  # noqa: BLE001 - progress is for people; the job goes on without
        logger.debug("progress is not stored: %s", err)


def percent_of(share: float) -> float:
    """Return a share in percent: 100 only when all is done."""
    return 100.0 if share >= 1 else min(99.9, round(100 * share, 1))


def seconds_left(share: float, passed: float) -> float | None:
    """Return the seconds that are left if work goes on as in those that have passed; None before any is
    done.
    """
    return round(passed * max(0.0, 1 - share) / share, 1) if share > 0 else None


async def _first_event(look: Callable[[], dict[str, Any] | None], interval: float) -> dict[str, Any]:
    """Look every `interval` seconds, in a thread, and return the first event, or that of an error."""
    while True:
        await asyncio.sleep(interval)
        try:
            event = await asyncio.to_thread(look)
        except Exception as err:  # noqa: BLE001 - the trigger's border: the task decides what to do
            return _failure(err)
        if event is not None:
            return event


def _failure(err: Exception) -> dict[str, Any]:
    """Return the event of an error; `permanent` says that no retry of the sensor can repair it."""
    from lakecore_airflow.hooks import is_permanent

    return {"status": "error", "error": f"{type(err).__name__}: {err}", "permanent": is_permanent(err)}
