"""This module decides when a lookup table looks for new snapshots and partitions, and does it: before a
lookup, or in a thread of its own.

Rules of Paimon's FileStoreLookupFunction.tryRefresh and FullCacheLookupTable.refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from lakecore.clock import Clock
from lakecore.lookup.tables.lookup_options import LookupOptions
from lakecore.lookup.tables.refresh_periods import may_refresh

__all__ = ["RefreshTurns", "RefreshedCache"]


class RefreshedCache(Protocol):
    """This cache can be brought up to date."""

    @property
    def pending(self) -> int:
        """Return the number of snapshots that are still to be applied."""

    def load(self) -> None:
        """Load the rows of the latest snapshot."""

    def refresh(self) -> None:
        """Apply the snapshots that follow."""


class RefreshTurns:
    """It brings one cache up to date. Several threads may use it: one of them refreshes, the others go on."""

    def __init__(
        self,
        cache: RefreshedCache,
        options: LookupOptions,
        clock: Clock,
        new_partitions: Callable[[], bool] | None = None,
    ) -> None:
        """`new_partitions` looks for partitions, lets the next load use them, and tells whether they are
        others than before; None if they never change.
        """
        self._cache = cache
        self._options = options
        self._clock = clock
        self._new_partitions = new_partitions
        self._turn = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._next_ms = self._next_partitions_ms = 0

    def begin(self) -> None:
        """Load the cache for the first time."""
        with self._turn:
            if self._new_partitions is not None:
                self._new_partitions()
            self._cache.load()
            self._put_off()
            self._next_partitions_ms = self._clock.now_ms() + self._options.partition_interval_ms

    def refresh_when_due(self) -> None:
        """Call `refresh` of the cache if the interval has passed and no period forbids it. Raises the error
        of a refresh that ran in the thread before; the next call tries it again.
        """
        now = self._clock.now_ms()
        due = now >= self._next_ms or (self._new_partitions is not None and now >= self._next_partitions_ms)
        if not due or not self._turn.acquire(blocking=False):
            return
        try:
            if may_refresh(self._options.periods, now):
                self._refresh(now)
        finally:
            self._turn.release()

    def refresh_now(self) -> None:
        """Refresh in this thread, whatever the interval and the periods say."""
        with self._turn:
            self._wait()
            if self._new_partitions is not None and self._new_partitions():
                self._cache.load()
            else:
                self._cache.refresh()
            self._put_off()

    def close(self) -> None:
        """Wait for the thread and end it."""
        with self._turn:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown(wait=True)

    def _refresh(self, now: int) -> None:
        if self._running is not None and not self._running.done():
            if self._cache.pending <= self._options.pending:
                return
            self._wait()
        self._wait()
        if self._new_partitions is not None and now >= self._next_partitions_ms:
            changed = self._new_partitions()
            self._next_partitions_ms = now + self._options.partition_interval_ms
            if changed:
                self._do(self._cache.load, in_thread=self._options.partitions_async)
                self._put_off()
                return
        if now >= self._next_ms:
            pending = self._cache.pending
            work = self._cache.load if pending >= self._options.full_load else self._cache.refresh
            self._do(work, in_thread=self._options.refreshes_async and pending <= self._options.pending)
            self._put_off()

    def _do(self, work: Callable[[], None], *, in_thread: bool) -> None:
        if not in_thread:
            work()
            return
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="lakecore-lookup")
        self._running = self._thread.submit(work)

    def _wait(self) -> None:
        """Wait for the work in the thread and raise its error."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def _put_off(self) -> None:
        self._next_ms = self._clock.now_ms() + self._options.interval_ms
