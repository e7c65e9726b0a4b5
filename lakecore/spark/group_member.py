"""This module has the place of a streaming query in its alignment group: a small file in the warehouse.

Spark runs each source in Python in a process of its own, so that the sources of one driver meet in storage
just as those of several drivers do. A thread renews the file, because Spark does not call a source while a
micro-batch runs.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

from lakecore.clock import Clock
from lakecore.errors import LakeError
from lakecore.maintain.alignment_store import LEASE_MS, AlignmentStore
from lakecore.read.source.alignment.rule import (
    IDLE_TIMEOUT,
    AlignmentRule,
    Standing,
    StreamState,
    Wait,
    hold_back,
    wait_of,
)

__all__ = ["StoredMember"]

logger = logging.getLogger(__name__)

_LONG_WAIT_MS = 60_000


class StoredMember:
    """It is one stream among those of its group. It looks at the others, and writes its own file, at most
    once in the update interval of the group.
    """

    def __init__(self, store: AlignmentStore, rule: AlignmentRule, table: str, clock: Clock) -> None:
        """Join the group when `report` is called first."""
        self._store, self._rule, self._table, self._clock = store, rule, table, clock
        self._stream = clock.fresh_id()
        self._others: list[StreamState] = []
        self._looked_ms = self._saved_ms = 0
        self._rows_ms = clock.now_ms()
        self._state: StreamState | None = None
        self._saved: StreamState | None = None
        self._waits_since_ms: int | None = None
        self._has_warned = False
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()

    def wait(self, watermark: int | None) -> Wait | None:
        """Return for whom the stream waits. It costs a listing and a read for each stream of the group, at
        most once in the update interval. Raises UnavailableError, CorruptDataError.
        """
        if watermark is None:
            return None
        now = self._clock.now_ms()
        if now - self._looked_ms >= self._rule.update_interval_ms:
            self._others = self._store.others(self._rule.group, self._stream, now)
            self._looked_ms = now
        wait = wait_of(watermark, self._others, self._rule.max_drift_ms)
        self._log(wait, now)
        return wait

    def report(self, standing: Standing, watermark: int | None, *, is_active: bool) -> None:
        """Write where the stream is, for the others. The first call starts the thread that renews it."""
        now = self._clock.now_ms()
        if is_active:
            self._rows_ms = now
        timeout = self._rule.idle_timeout_ms
        if timeout is not None and now - self._rows_ms > timeout and standing is not Standing.ENDED:
            standing = Standing.IDLE
        with self._lock:
            is_first = self._state is None
            self._state = StreamState(self._table, standing, watermark)
            if self._state != self._saved and now - self._saved_ms >= self._rule.update_interval_ms:
                self._save(now)
        if is_first:
            threading.Thread(target=self._renew, name="lakecore-alignment", daemon=True).start()

    def leave(self) -> None:
        """Remove the stream from its group."""
        self._is_stopped.set()
        with self._lock, suppress(LakeError):  # the file counts no more when its lease has ended
            if self._saved is not None:
                self._store.remove(self._rule.group, self._stream)

    def metrics(self) -> dict[str, Any]:
        """Return how many streams the group has besides, and the lowest watermark of those that count."""
        counted = hold_back(self._others)
        watermarks = [one.watermark for one in counted if one.watermark is not None]
        metrics: dict[str, Any] = {"alignedStreams": len(self._others)}
        if counted and len(watermarks) == len(counted):
            metrics["lowestOtherWatermark"] = min(watermarks)
        return metrics

    def _save(self, now: int) -> None:
        assert self._state is not None
        self._store.save(self._rule.group, self._stream, self._state, now)
        self._saved, self._saved_ms = self._state, now

    def _renew(self) -> None:
        """Renew the file until the stream leaves: at once where the state has changed, and otherwise three
        times in a lease.
        """
        interval_ms = min(max(self._rule.update_interval_ms, 100), LEASE_MS // 3)
        while not self._is_stopped.wait(interval_ms / 1000):
            with self._lock:
                now = self._clock.now_ms()
                if self._is_stopped.is_set() or (
                    self._state == self._saved and now - self._saved_ms < LEASE_MS // 3
                ):
                    continue
                try:
                    self._save(now)
                except LakeError as err:
                    logger.warning(
                        "table %s: its state for the alignment group was not written: %s", self._table, err
                    )

    def _log(self, wait: Wait | None, now: int) -> None:
        if wait is None:
            if self._waits_since_ms is not None:
                logger.info("table %s: the stream reads on", self._table)
            self._waits_since_ms, self._has_warned = None, False
            return
        group = self._rule.group
        if self._waits_since_ms is None:
            self._waits_since_ms = now
            logger.info("table %s: the stream waits for its group %r: %s", self._table, group, wait)
        elif not self._has_warned and now - self._waits_since_ms > _LONG_WAIT_MS:
            self._has_warned = True
            logger.warning(
                "table %s: the stream has waited for a minute for its alignment group %r: %s; set %s for "
                "streams that may have no rows for long",
                self._table, group, wait, IDLE_TIMEOUT.key,
            )  # fmt: skip
