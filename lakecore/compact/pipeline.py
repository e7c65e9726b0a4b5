"""Running a generator one step ahead in a thread, so that decoding and encoding overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")
_DEPTH = 1
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


def read_ahead(items: Generator[T], depth: int = _DEPTH) -> Generator[T]:
    """The same items; up to `depth` of them are made before they are asked for.

    An exception of `items` is raised here, in its place. Closing this generator closes `items` after the item
    it is making, and ends the thread.
    """
    ready: queue.Queue[_Item[T] | _End] = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=_produce, args=(items, ready, stop), name="read-ahead", daemon=True)
    thread.start()
    try:
        while isinstance(found := ready.get(), _Item):
            yield found.value
        if found.error is not None:
            raise found.error
    finally:
        stop.set()
        thread.join()


def _produce(items: Generator[T], ready: queue.Queue[_Item[T] | _End], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        with closing(items):
            for value in items:
                if not _put(ready, _Item(value), stop):
                    return
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
