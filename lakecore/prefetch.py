"""This module prefetches in background threads: it has one iterator that runs ahead of its consumer, or
several that take turns.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from itertools import chain, islice
from typing import Generic, TypeVar

from lakecore.data_class import dataclass

__all__ = ["PREFETCH_BYTES", "Prefetch", "in_background", "in_threads", "prefetch", "round_robin"]

PREFETCH_BYTES = 32 << 20
"""This is the capacity for rows on their way to a parquet writer, which collects as much before it encodes
them at once.
"""

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    value: T
    size: int


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None
    size: int = 0


class _BoundedBuffer(Generic[T]):
    """A queue between two threads: it holds items up to a total size of `room`, or one item of any size."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._waiting: deque[_Item[T] | _End] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: _Item[T] | _End) -> bool:
        """Wait for room and add the item. Return False when the buffer is closed, so that nobody will
        take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._size or self._fits(item))
            if self._closed:
                return False
            self._waiting.append(item)
            self._size += item.size
            self._changed.notify_all()
            return True

    def take(self) -> _Item[T] | _End:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            item = self._waiting.popleft()
            self._size -= item.size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, item: _Item[T] | _End) -> bool:
        return self._size + item.size <= self._room


class Prefetch(Iterator[T]):
    """It iterates over the items of an iterator that a background thread runs from now on.

    Items of up to `room` wait to be taken, in the unit of `size`; without `size` each counts one. An
    exception of the iterator is raised here, in its place. `close` (also called at the end) closes the
    iterator after the item it is making, and ends the thread.
    """

    def __init__(self, items: Iterator[T], room: int = 1, size: Callable[[T], int] | None = None) -> None:
        self._buffer: _BoundedBuffer[T] = _BoundedBuffer(room)
        self._ended = False
        arguments = (items, self._buffer, size)
        run = copy_context().run  # what listens to the consumer's work listens to this thread's, too
        self._thread = threading.Thread(
            target=run, args=(_produce, *arguments), name="read-ahead", daemon=True
        )
        self._thread.start()

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        item = self._buffer.take()
        if isinstance(item, _Item):
            return item.value
        self.close()
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """End the thread. It may be called twice."""
        self._ended = True
        self._buffer.close()
        self._thread.join()


def prefetch(items: Generator[T], room: int = 1, size: Callable[[T], int] | None = None) -> Generator[T]:
    """Yield the same items, prefetched from the first request on. See `Prefetch`."""
    ahead = Prefetch(items, room, size)
    try:
        yield from ahead
    finally:
        ahead.close()


@contextmanager
def in_background(items: Generator[T], *, thread: bool) -> Generator[Iterator[T]]:
    """Provide an iterator over the items, all of which a thread makes from now on; without `thread` they are
    made on request.
    """
    source = Prefetch(items, sys.maxsize) if thread else items
    try:
        yield source
    finally:
        source.close()


def in_threads(function: Callable[[A], T], items: Iterable[A], threads: int) -> Generator[T]:
    """Yield the results of `function` in the order of `items`. At most so many calls run, or have a result
    that was not taken, at once, each in a thread; with one the calling thread makes them on request.

    An exception is raised in its place; calls that have begun end first.
    """
    if threads < 2:
        yield from map(function, items)
        return
    running: deque[Prefetch[T]] = deque()
    waiting = iter(items)
    try:
        while True:
            for item in islice(waiting, threads - len(running)):
                running.append(Prefetch(map(function, (item,))))
            if not running:
                return
            yield from running[0]
            running.popleft()
    finally:
        for ahead in running:
            ahead.close()


def round_robin(sources: Iterable[Callable[[], Iterator[T]]], workers: int, depth: int = 1) -> Generator[T]:
    """Yield the items of all sources, one of each of the `workers` that run at a time, in turn.

    The order is the same every time. In the order of the sources, all but the first would have to wait or to
    be held in memory. It holds `workers` sources and `depth` items of each. An exception is raised in its
    place and ends all of them.
    """
    waiting = iter(sources)
    first = list(islice(waiting, 2))
    if len(first) == 1:  # nothing to do meanwhile
        yield from first[0]()
        return
    waiting = chain(first, waiting)
    running: deque[Prefetch[T]] = deque()
    try:
        while True:
            while len(running) < workers and (source := next(waiting, None)) is not None:
                running.append(Prefetch(source(), depth))
            if not running:
                return
            for item in running[0]:
                running.rotate(-1)
                yield item
                break
            else:
                running.popleft()
    finally:
        for ahead in running:
            ahead.close()


def _produce(items: Iterator[T], buffer: _BoundedBuffer[T], size: Callable[[T], int] | None) -> None:
    error: BaseException | None = None
    try:
        try:
            for value in items:
                if not buffer.put(_Item(value, 1 if size is None else size(value))):
                    return
        finally:
            if isinstance(items, Generator):
                items.close()
    except BaseException as err:  # noqa: BLE001 - carried to the other thread and raised there
        error = err
    buffer.put(_End(error))
