"""This module has a cache of values by key, bounded by size, age and use."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.store.cache.limits import CacheLimits

__all__ = ["BoundedCache", "ProcessMemory"]


@dataclass(slots=True)
class _Item:
    value: Any
    size: int
    vectors: int
    read_ms: int
    used_ms: int


class ProcessMemory:
    """It keeps what one process has read. A process that was forked begins with nothing, and a copy that was
    pickled is None: tasks in other processes keep nothing.
    """

    def __init__(self, limits: CacheLimits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._begin()

    def __reduce__(self) -> Any:
        return _nothing, ()

    def _begin(self) -> None:
        """Begin with nothing, in this process."""
        self._process = os.getpid()
        self._lock = Lock()

    def _check_process(self) -> None:
        """Begin anew in a forked process: its parent may have held the lock, or be amid a change."""
        if self._process != os.getpid():
            self._begin()


class BoundedCache(ProcessMemory):
    """It holds values by key, and forgets the least recently used when it is full. It is thread-safe.

    What is too old is forgotten with the next use of the cache.
    """

    def _begin(self) -> None:
        super()._begin()
        self._items: OrderedDict[Any, _Item] = OrderedDict()
        self._size = self._vectors = 0

    @property
    def size(self) -> int:
        """Return the bytes that are kept."""
        return self._size

    @property
    def vectors(self) -> int:
        """Return the number of deletion vectors that are kept."""
        return self._vectors

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Any) -> Any | None:
        """Return what is kept under a key, None without it."""
        self._check_process()
        now = self._clock.now_ms()
        with self._lock:
            self._forget_old(now)
            item = self._items.get(key)
            if item is None:
                return None
            if now - item.read_ms >= self.limits.after_write_ms:
                self._forget(key)
                return None
            item.used_ms = now
            self._items.move_to_end(key)
            return item.value

    def put(self, key: Any, value: Any, size: int, vectors: int = 0) -> None:
        """Keep a value of so many bytes, unless it alone exceeds a limit."""
        self._check_process()
        now = self._clock.now_ms()
        with self._lock:
            self._forget(key)
            self._forget_old(now)
            if size > self.limits.memory or vectors > self.limits.vectors:
                return
            self._items[key] = _Item(value, size, vectors, now, now)
            self._size += size
            self._vectors += vectors
            while self._size > self.limits.memory or self._vectors > self.limits.vectors:
                self._forget(next(iter(self._items)))

    def entries(self) -> list[tuple[Any, Any]]:
        """Return all keys with their values, also what is too old."""
        self._check_process()
        with self._lock:
            return [(key, item.value) for key, item in self._items.items()]

    def forget(self, keys: Iterable[Any]) -> None:
        """Forget what is kept under these keys; some may be missing."""
        self._check_process()
        with self._lock:
            for key in keys:
                self._forget(key)

    def _forget_old(self, now: int) -> None:
        while self._items:
            key, item = next(iter(self._items.items()))
            if now - item.used_ms < self.limits.after_access_ms:
                return
            self._forget(key)

    def _forget(self, key: Any) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._size -= item.size
            self._vectors -= item.vectors


def _nothing() -> None:
    return None
