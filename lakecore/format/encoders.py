"""This module encodes in threads of its own, while the caller prepares what comes next. The threads
touch no storage: results are taken in the caller's thread, so that storage is written to, and fails, where it
would without threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Generic, TypeVar

__all__ = ["Encoders"]

T = TypeVar("T")


class Encoders:
    """At most `threads` encodings are in memory at once, each in a thread that ends with it.

    Their results are taken in the order in which they were begun, whichever ends first: what is written does
    not depend on the speed of the threads. It is used by one thread.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads encode nothing")
        self._threads = threads
        self._begun: deque[_Encoding[Any]] = deque()

    def begin(self, owner: object, encode: Callable[[], T], take: Callable[[T], None]) -> None:
        """Run `encode` in a thread; `take` receives its result, in the thread of a later call.

        With all threads busy it first waits for the oldest result and takes it. It raises what that `take`
        or its `encode` raised, whoever its owner is; nothing is begun then.
        """
        while len(self._begun) >= self._threads:
            self._take_oldest()
        self._begun.append(_Encoding(owner, encode, take))

    def is_busy_for(self, owner: object) -> bool:
        """Return whether a result of this owner has not been taken yet."""
        return any(one.owner is owner for one in self._begun)

    def finish(self, owner: object) -> None:
        """Take all results of an owner, and those of others that were begun before them. Raises as
        `begin`.
        """
        while self.is_busy_for(owner):
            self._take_oldest()

    def drop(self, owner: object) -> None:
        """Wait for the threads of an owner and forget their results and errors."""
        for one in [one for one in self._begun if one.owner is owner]:
            one.wait()
            self._begun.remove(one)

    def _take_oldest(self) -> None:
        oldest = self._begun[0]
        oldest.wait()  # an interrupt while it waits leaves the encoding to `drop`
        self._begun.popleft()
        oldest.take()


class _Encoding(Generic[T]):
    """One encoding: its thread, and its result or error once the thread has ended."""

    __slots__ = ("_encode", "_error", "_result", "_take", "_thread", "owner")

    def __init__(self, owner: object, encode: Callable[[], T], take: Callable[[T], None]) -> None:
        self.owner = owner
        self._encode: Callable[[], T] | None = encode
        self._take = take
        self._result: list[T] = []
        self._error: BaseException | None = None
        run = copy_context().run  # what listens to the caller's work listens to this thread's, too
        self._thread = threading.Thread(target=run, args=(self._run,), name="encode", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def take(self) -> None:
        if self._error is not None:
            raise self._error
        self._take(self._result.pop())

    def _run(self) -> None:
        try:
            assert self._encode is not None
            self._result.append(self._encode())
        except BaseException as err:  # noqa: BLE001 - carried to the other thread and raised there
            self._error = err
        finally:
            self._encode = None  # the rows are not needed any more
