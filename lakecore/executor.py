"""This module says how units of work run: it has the `Executor` protocol and the local one, and lets units in
this process tell how far they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

__all__ = ["Executor", "SerialExecutor", "attempt", "count_rows", "watch_rows"]

A = TypeVar("A")
R = TypeVar("R")

_listener: ContextVar[Callable[[int], None] | None] = ContextVar("rows of units", default=None)


class Executor(Protocol):
    """It runs independent units. Tasks and results must pickle; nothing live crosses."""

    @property
    def name(self) -> str:
        """Return `local` or `spark`, as reports name the engine."""

    @property
    def parallelism(self) -> int:
        """Return the number of units that run at once."""

    @property
    def startup_seconds(self) -> float:
        """Return the seconds that the engine took to start so far, without the work's own time."""

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Yield results in the order of `tasks`; a failed unit yields its exception instead of raising."""

    def check(self) -> None:
        """Raise UnavailableError if the engine has ended, so that it runs no unit any more."""

    def cancel(self) -> None:
        """Stop running units soon; safe to call from another thread, and twice."""


class SerialExecutor:
    """It runs one unit after another in this thread."""

    name = "local"
    parallelism = 1
    startup_seconds = 0.0

    def __init__(self) -> None:
        self._cancelled = False

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        for task in tasks:
            if self._cancelled:
                return
            yield attempt(function, task)

    def check(self) -> None:
        """This process runs units as long as it lives."""

    def cancel(self) -> None:
        self._cancelled = True


def attempt(function: Callable[[Any], R], task: Any) -> R | BaseException:
    """Run a unit in this process, and return its result, or the exception that it raised."""
    try:
        return function(task)
    except Exception as err:  # noqa: BLE001 - the border of a unit: its failure is a result
        return err


@contextmanager
def watch_rows(listener: Callable[[int], None]) -> Iterator[None]:
    """Let units that run in this process within the block, and in the threads that they start, tell
    `listener` how many rows they have read, batch by batch. It must not raise.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def count_rows(rows: int) -> None:
    """Say that a unit has read so many more of its input rows."""
    listener = _listener.get()
    if listener is not None:
        listener(rows)
