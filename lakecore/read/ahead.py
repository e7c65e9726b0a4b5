"""Work ahead in threads: a generator that runs before it is asked, and several of them in turn."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic, TypeVar

__all__ = ["READ_AHEAD_BYTES", "ReadAhead", "in_turn", "made_meanwhile", "read_ahead"]

READ_AHEAD_BYTES = 32 << 20
"""Room for rows on their way to a parquet writer: it takes as much before it encodes them, all at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    value: T
    size: int


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None
    size: int = 0


class _Shelf(Generic[T]):
    """What waits between two threads: as much as `room` holds, and one item however large it is."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._waiting: deque[_Item[T] | _End] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: _Item[T] | _End) -> bool:
        """Waits for room. False once closed: nobody will take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._held or self._fits(item))
            if self._closed:
                return False
            self._waiting.append(item)
            self._held += item.size
            self._changed.notify_all()
            return True

    def take(self) -> _Item[T] | _End:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            item = self._waiting.popleft()
            self._held -= item.size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, item: _Item[T] | _End) -> bool:
        return self._held + item.size <= self._room


class ReadAhead(Iterator[T]):
    """The items of an iterator, made by a thread that starts now.

    Items of up to `room` wait to be taken, in the unit of `size`; without it they count one each. An
    exception of the iterator is raised here, in its place. `close` (also at the end) closes the iterator
    after the item it is making, and ends the thread.
    """

    def __init__(self, items: Iterator[T], room: int = 1, size: Callable[[T], int] | None = None) -> None:
        self._shelf: _Shelf[T] = _Shelf(room)
        self._ended = False
        arguments = (items, self._shelf, size)
        self._thread = threading.Thread(target=_produce, args=arguments, name="read-ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        found = self._shelf.take()
        if isinstance(found, _Item):
            return found.value
        self.close()
        if found.error is not None:
            raise found.error
        raise StopIteration

    def close(self) -> None:
        """Twice does no harm."""
        self._ended = True
        self._shelf.close()
        self._thread.join()


def read_ahead(items: Generator[T], room: int = 1, size: Callable[[T], int] | None = None) -> Generator[T]:
    """The same items, made ahead from the first one that is asked for on. See `ReadAhead`."""
    ahead = ReadAhead(items, room, size)
    try:
        yield from ahead
    finally:
        ahead.close()


@contextmanager
def made_meanwhile(items: Generator[T], *, thread: bool) -> Generator[Iterator[T]]:
    """The items, all of them made from now on by a thread; without `thread`, when they are asked for."""
    source = ReadAhead(items, sys.maxsize) if thread else items
    try:
        yield source
    finally:
        source.close()


def in_turn(sources: Iterable[Callable[[], Iterator[T]]], workers: int, depth: int = 1) -> Generator[T]:
    """The items of all sources, one of each of the `workers` that are at work, again and again.

    The order is the same every time. In the order of the sources, all but the first would have to wait or to
    be held in memory. Holds `workers` sources and `depth` items of each. An exception comes in its place and
    ends all.
    """
    waiting = iter(sources)
    first = list(islice(waiting, 2))
    if len(first) == 1:  # nothing to do meanwhile
        yield from first[0]()
        return
    waiting = chain(first, waiting)
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


def _produce(items: Iterator[T], shelf: _Shelf[T], size: Callable[[T], int] | None) -> None:
    error: BaseException | None = None
    try:
        try:
            for value in items:
                if not shelf.put(_Item(value, 1 if size is None else size(value))):
                    return
        finally:
            if isinstance(items, Generator):
                items.close()
    except BaseException as err:  # noqa: BLE001 - carried to the other thread and raised there
        error = err
    shelf.put(_End(error))
