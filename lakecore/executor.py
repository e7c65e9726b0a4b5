"""This module says how units of work run: it has the `Executor` protocol and the local one, and lets units
tell how far they are. An executor that runs units in other processes passes on what they tell, if it can.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, TypeVar

from lakecore.data_class import dataclass

__all__ = [
    "Executor",
    "SerialExecutor",
    "UnitListener",
    "UnitWork",
    "attempt",
    "count_proven_rows",
    "count_rows",
    "run_counted",
    "run_of_table",
    "unit_cores",
    "unit_key",
    "unit_listener",
    "watch_units",
    "with_cores",
]

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class UnitWork:
    """This is how far one attempt at a unit is."""

    unit: tuple[int | str, ...]
    """It is the key of the unit, after the number of its table where several tables share an executor."""
    read: int
    """The unit has read so many of its input rows."""
    proven: int
    """Its proof has read so many rows, of its inputs and its outputs."""


UnitListener: TypeAlias = Callable[[UnitWork], None]
"""It hears of units, from several threads, and must not raise."""

_cores: ContextVar[int | None] = ContextVar("cores of a unit", default=None)
_listener: ContextVar[UnitListener | None] = ContextVar("listener to units", default=None)


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


class _UnitCount:
    """It counts the rows of one attempt at a unit, whose threads may count at once."""

    def __init__(self, name: str, listener: UnitListener) -> None:
        self._work = UnitWork((unit_key(name),), 0, 0)
        self._listener = listener
        self._lock = threading.Lock()

    def add(self, read: int, proven: int) -> None:
        with self._lock:
            self._work = replace(self._work, read=self._work.read + read, proven=self._work.proven + proven)
            work = self._work
        self._listener(work)


_count: ContextVar[_UnitCount | None] = ContextVar("rows of the unit", default=None)


@contextmanager
def watch_units(listener: UnitListener | None) -> Iterator[None]:
    """Let units that an executor runs within the block tell `listener` how far they are, batch by batch, also
    in the threads that they start. None: they tell nobody.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def with_cores(cores: int) -> Iterator[None]:
    """Let a unit that runs within the block know that it may use so many cores at most."""
    token = _cores.set(cores)
    try:
        yield
    finally:
        _cores.reset(token)


def unit_cores() -> int | None:
    """Return how many cores a unit that runs here may use at most; None: those of this process."""
    return _cores.get()


def unit_listener() -> UnitListener | None:
    """Return who listens to units that run here, for an executor that runs them elsewhere."""
    return _listener.get()


def unit_key(name: str) -> str:
    """Return the key of the unit of that name, which tells nothing of the name."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


def run_counted(function: Callable[[Any], R], unit: Any) -> R:
    """Run a unit that has a name, and tell who listens what it counts."""
    listener = _listener.get()
    token = _count.set(None if listener is None else _UnitCount(unit.name, listener))
    try:
        return function(unit)
    finally:
        _count.reset(token)


def run_of_table(table: int, function: Callable[[Any], R], unit: Any) -> R:
    """Run a unit of one of the tables that share an executor; what it tells has the number of its table."""
    listener = _listener.get()
    if listener is None:
        return function(unit)
    with watch_units(lambda work: listener(replace(work, unit=(table, *work.unit)))):
        return function(unit)


def count_rows(rows: int) -> None:
    """Say that a unit has read so many more of its input rows."""
    count = _count.get()
    if count is not None:
        count.add(rows, 0)


def count_proven_rows(rows: int) -> None:
    """Say that the proof of a unit has read so many more rows, of its inputs or its outputs."""
    count = _count.get()
    if count is not None:
        count.add(0, rows)
