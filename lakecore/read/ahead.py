"""Work ahead in threads: a generator that runs before it is asked, and several of them in turn."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ReadAhead", "in_turn", "read_ahead"]

T = TypeVar("T")
_DEPTH = 1
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class ReadAhead(Iterator[T]):
    """The items of an iterator, made by a thread that starts now; up to `depth` wait to be taken.

    An exception of the iterator is raised here, in its place. `close` (also at the end) closes the iterator
    after the item it is making, and ends the thread.
    """

    def __init__(self, items: Iterator[T], depth: int = _DEPTH) -> None:
        self._ready: queue.Queue[_Item[T] | _End] = queue.Queue(depth)
        self._stop = threading.Event()
        self._ended = False
        arguments = (items, self._ready, self._stop)
        self._thread = threading.Thread(target=_produce, args=arguments, name="read-ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        found = self._ready.get()
        if isinstance(found, _Item):
            return found.value
        self.close()
        if found.error is not None:
            raise found.error
        raise StopIteration

    def close(self) -> None:
        """Twice does no harm."""
        self._ended = True
        self._stop.set()
        self._thread.join()


def read_ahead(items: Generator[T], depth: int = _DEPTH) -> Generator[T]:
    """The same items, made ahead from the first one that is asked for on. See `ReadAhead`."""
    ahead = ReadAhead(items, depth)
    try:
        yield from ahead
    finally:
        ahead.close()


def in_turn(sources: Iterable[Callable[[], Iterator[T]]], workers: int, depth: int = _DEPTH) -> Generator[T]:
    """The items of all sources, one of each of the `workers` that are at work, again and again.

    The order is the same every time. In the order of the sources, all but the first would have to wait or to
    be held in memory. Holds `workers` sources and `depth` items of each. An exception comes in its place and
    ends all.
    """
    waiting = iter(sources)
    running: deque[ReadAhead[T]] = deque()
    try:
        while True:
            while len(running) < workers and (source := next(waiting, None)) is not None:
                running.append(ReadAhead(source(), depth))
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


def _produce(items: Iterator[T], ready: queue.Queue[_Item[T] | _End], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        try:
            for value in items:
                if not _put(ready, _Item(value), stop):
                    return
        finally:
            if isinstance(items, Generator):
                items.close()
    except BaseException as err:  # noqa: BLE001 - carried to the other thread and raised there
        error = err
    _put(ready, _End(error), stop)


def _put(ready: queue.Queue[_Item[T] | _End], item: _Item[T] | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
